//! Connections to an origin: TCP, TLS by rustls, HTTP/1.1 by hyper's connection, nothing in between
//! that would add, drop or follow anything.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http_body::Body;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::endpoint::Endpoint;
use crate::origin::OriginError;

/// How long name lookup, TCP and TLS may take together.
pub(super) const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);

/// Makes connections.
#[derive(Clone)]
pub(crate) struct Connector {
    tls: Arc<ClientConfig>,
    connect_time_max: Duration,
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Connector")
    }
}

impl Connector {
    /// A connector that trusts the certificates in `ca_bundle`, or else the usual public ones.
    pub(crate) fn new(ca_bundle: Option<&Path>) -> Result<Connector, String> {
        let roots = match ca_bundle {
            Some(path) => read_bundle(path)?,
            None => webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect(),
        };
        let mut tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS cannot be set up: {error}"))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Connector { tls: Arc::new(tls), connect_time_max: CONNECT_TIME_MAX })
    }

    /// The same, giving up sooner.
    #[must_use]
    pub(in crate::origin) fn with_time_max(self, connect_time_max: Duration) -> Connector {
        Connector { connect_time_max, ..self }
    }

    /// A new connection.
    pub(crate) async fn connect<B>(
        &self,
        endpoint: &Endpoint,
    ) -> Result<SendRequest<B>, OriginError>
    where
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let limit = self.connect_time_max;
        match tokio::time::timeout(limit, self.open(endpoint)).await {
            Ok(Ok(sender)) => Ok(sender),
            Ok(Err(error)) => Err(OriginError::Unreachable {
                origin: endpoint.to_string(),
                cause: error.to_string(),
            }),
            Err(_) => Err(OriginError::TimedOut {
                origin: endpoint.to_string(),
                step: "connecting",
                waited: limit,
            }),
        }
    }

    async fn open<B>(&self, endpoint: &Endpoint) -> io::Result<SendRequest<B>>
    where
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let tcp = TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await?;
        tcp.set_nodelay(true)?;
        if !endpoint.is_tls {
            return handshake(tcp).await;
        }
        let name = ServerName::try_from(endpoint.host.clone()).map_err(io::Error::other)?;
        handshake(TlsConnector::from(Arc::clone(&self.tls)).connect(name, tcp).await?).await
    }
}

async fn handshake<S, B>(stream: S) -> io::Result<SendRequest<B>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    // Its end is seen by whoever holds the sender.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

fn read_bundle(path: &Path) -> Result<RootCertStore, String> {
    let wrong = |cause: &dyn std::fmt::Display| {
        format!(
            "the CA bundle {} cannot be used: {cause}; give a file of PEM certificates",
            path.display()
        )
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| wrong(&error))? {
        let certificate = certificate.map_err(|error| wrong(&error))?;
        roots.add(certificate).map_err(|error| wrong(&error))?;
    }
    if roots.is_empty() {
        return Err(wrong(&"it holds no certificate"));
    }
    Ok(roots)
}
