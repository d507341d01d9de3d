//! TLS: the origin's certificate is checked against the bundle, or against the usual public ones.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::{keys, relay_with};
use crate::origin::question::get;
use crate::origin::{Addressing, OriginError, S3Settings};

/// Made for these tests, for `localhost` and 127.0.0.1; their authority's key was thrown away.
fn made(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/origin/s3_relay/tests/tls").join(name)
}

fn acceptor() -> TlsAcceptor {
    let certificate =
        CertificateDer::from_pem_file(made("certificate.pem")).expect("a certificate");
    let key = PrivateKeyDer::from_pem_file(made("key.pem")).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the usual versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("they belong together");
    TlsAcceptor::from(Arc::new(config))
}

/// Answers every connection once; gives its port.
async fn server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // A client that does not trust us ends the handshake.
            let Ok(mut stream) = acceptor().accept(stream).await else { continue };
            let answer = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret";
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    port
}

fn settings(port: u16, ca_bundle: Option<PathBuf>) -> S3Settings {
    S3Settings {
        endpoint: format!("https://127.0.0.1:{port}"),
        region: "eu-north-1".to_owned(),
        addressing: Addressing::Path,
        credentials: keys("origin-secret"),
        ca_bundle,
        write_timeout: std::time::Duration::from_secs(300),
    }
}

#[tokio::test]
async fn an_origin_of_the_bundles_authority_is_trusted() {
    let settings = settings(server().await, Some(made("authority.pem")));
    let told = get("/lake/k").expect(&relay_with(&settings), 200).await;
    assert_eq!(told.text(), "secret");
}

#[tokio::test]
async fn an_origin_of_an_unknown_authority_is_not() {
    let relay = relay_with(&settings(server().await, None));
    let error = get("/lake/k").tell(&relay).await.expect_err("nobody vouches for it");
    assert!(matches!(error, OriginError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains("certificate"), "{error}");
}

#[test]
fn a_bundle_that_is_none_is_refused_with_its_path() {
    for bundle in [made("none.pem"), made("key.pem")] {
        let refused =
            super::S3Relay::new(&settings(1, Some(bundle.clone())), nilas_base::Clock::system());
        let error = refused.expect_err("it holds no certificate");
        assert!(error.contains(&bundle.display().to_string()), "{error}");
    }
}
