//! The admin port's bounds: so many connections, each for so long. A client that keeps one open
//! and says nothing loses it, so that a probe always finds a place in the end.

use std::future::Future;
use std::io::{Error, ErrorKind, Result};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::IncomingStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;

/// Connections at a time; the next wait in the kernel's queue.
pub const CONNECTIONS_MAX: usize = 32;
/// How long a connection lasts at most, whatever it does.
pub const CONNECTION_LIFETIME: Duration = Duration::from_secs(60);
/// A pause after a failed accept: the process may be out of descriptors.
const ACCEPT_RETRY_PAUSE: Duration = Duration::from_millis(100);

/// A listener with a limit.
pub(super) struct BoundedListener {
    listener: TcpListener,
    places: Arc<Semaphore>,
    lifetime: Duration,
}

impl BoundedListener {
    /// Bounds `listener`.
    pub(super) fn new(listener: TcpListener) -> BoundedListener {
        BoundedListener::with(listener, CONNECTIONS_MAX, CONNECTION_LIFETIME)
    }

    pub(super) fn with(
        listener: TcpListener,
        connections_max: usize,
        lifetime: Duration,
    ) -> BoundedListener {
        BoundedListener { listener, places: Arc::new(Semaphore::new(connections_max)), lifetime }
    }
}

impl axum::serve::Listener for BoundedListener {
    type Io = BoundedStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (BoundedStream, SocketAddr) {
        let places = Arc::clone(&self.places);
        let place = places.acquire_owned().await.expect("the semaphore is never closed");
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    let end = Box::pin(tokio::time::sleep(self.lifetime));
                    return (BoundedStream { stream, end, _place: place }, peer);
                }
                Err(_) => tokio::time::sleep(ACCEPT_RETRY_PAUSE).await,
            }
        }
    }

    fn local_addr(&self) -> Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// Where a connection comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(pub(super) SocketAddr);

impl Connected<IncomingStream<'_, BoundedListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, BoundedListener>) -> Peer {
        Peer(*stream.remote_addr())
    }
}

/// A connection that holds a place until it is closed.
pub(super) struct BoundedStream {
    stream: TcpStream,
    end: Pin<Box<Sleep>>,
    _place: OwnedSemaphorePermit,
}

impl BoundedStream {
    fn poll_end(&mut self, context: &mut Context<'_>) -> Result<()> {
        match self.end.as_mut().poll(context) {
            Poll::Ready(()) => Err(Error::from(ErrorKind::TimedOut)),
            Poll::Pending => Ok(()),
        }
    }
}

impl AsyncRead for BoundedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        self.poll_end(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for BoundedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        self.poll_end(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
