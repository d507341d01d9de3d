//! The clients' side: a listener that can be taken away and comes back on the same port, and one
//! task for each connection. See `link` for what a connection does.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;

use super::Shared;
use super::link::Link;
use super::wire::Wire;

/// Connections that wait to be accepted.
const BACKLOG_MAX: u32 = 1024;

/// A port that is ours whether or not somebody listens on it: a socket that is bound to it, and
/// never listens, keeps others from it.
pub(super) struct Door {
    address: SocketAddr,
    listener: TcpListener,
    _placeholder: TcpSocket,
}

impl Door {
    /// Takes the port, and listens.
    pub(super) fn hold(wanted: SocketAddr) -> io::Result<Door> {
        let placeholder = bind(wanted)?;
        let address = placeholder.local_addr()?;
        let listener = bind(address)?.listen(BACKLOG_MAX)?;
        Ok(Door { address, listener, _placeholder: placeholder })
    }

    /// The port's address.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// Passes every connection on to the origin, but for the times in which nobody is to listen.
pub(super) async fn serve(door: Door, origin: SocketAddr, shared: Shared) -> io::Result<()> {
    let Door { address, mut listener, _placeholder } = door;
    let script = Arc::clone(&shared.script);
    loop {
        let mut connections = JoinSet::new();
        tokio::select! {
            biased;
            () = script.until(true) => {}
            failed = accept(&listener, origin, &shared, &mut connections) => return failed,
        }
        drop(listener);
        // Each connection is closed when its task is gone.
        connections.shutdown().await;
        script.note_listening(false);
        script.until(false).await;
        listener = bind(address)?.listen(BACKLOG_MAX)?;
        script.note_listening(true);
    }
}

async fn accept(
    listener: &TcpListener,
    origin: SocketAddr,
    shared: &Shared,
    connections: &mut JoinSet<()>,
) -> io::Result<()> {
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        connections.spawn(serve_connection(socket, origin, shared.clone()));
        while connections.try_join_next().is_some() {}
    }
}

async fn serve_connection(socket: TcpStream, origin: SocketAddr, shared: Shared) {
    let (wire, spoiler) = Wire::new(socket);
    let link = Arc::new(Link::new(origin, shared, spoiler));
    let service = service_fn(|request| {
        let link = Arc::clone(&link);
        async move { link.pass(request).await }
    });
    let mut builder = server::Builder::new();
    builder.preserve_header_case(true);
    // A client that goes away, or whose connection is broken, ends it and nothing else.
    let _ = builder.serve_connection(TokioIo::new(wire), service).await;
}
