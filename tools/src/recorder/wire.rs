//! A client's connection as the HTTP library sees it: bytes pass untouched, unless the answer under
//! way is to be spoilt. This is below HTTP, where an answer can break off, lie and be reset, as the
//! library itself would never let it. What is done is decided in `spoil`.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

use super::spoil::{End, Spoil, Step};

/// One client's connection.
pub(super) struct Wire {
    socket: TcpStream,
    spoiler: Spoiler,
    /// What is to be sent before anything else, and how much of it has been.
    pending: (Vec<u8>, usize),
    pause: Option<Pin<Box<Sleep>>>,
}

/// Says what happens to the answers on a wire.
#[derive(Clone, Default)]
pub(super) struct Spoiler(Arc<Orders>);

#[derive(Default)]
struct Orders {
    spoil: Mutex<Option<Spoil>>,
    resets: AtomicBool,
}

impl Spoiler {
    /// The next answer passes as it is.
    pub(super) fn spare(&self) {
        *self.spoil_now() = None;
    }

    /// The next answer is spoilt.
    pub(super) fn spoil(&self, spoil: Spoil) {
        *self.spoil_now() = Some(spoil);
    }

    /// When the connection ends, it is reset.
    pub(super) fn reset_at_end(&self) {
        self.0.resets.store(true, Ordering::Relaxed);
    }

    fn spoil_now(&self) -> MutexGuard<'_, Option<Spoil>> {
        self.0.spoil.lock().expect("no holder panics")
    }
}

impl Wire {
    /// A connection, and who says what happens on it.
    pub(super) fn new(socket: TcpStream) -> (Wire, Spoiler) {
        let spoiler = Spoiler::default();
        let wire =
            Wire { socket, spoiler: spoiler.clone(), pending: Default::default(), pause: None };
        (wire, spoiler)
    }

    fn poll_pending(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.pending.1 < self.pending.0.len() {
            let rest = &self.pending.0[self.pending.1..];
            let sent = ready!(Pin::new(&mut self.socket).poll_write(context, rest))?;
            self.pending.1 += sent;
        }
        self.pending = Default::default();
        Poll::Ready(Ok(()))
    }

    fn poll_pause(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Some(pause) = self.pause.as_mut() {
            ready!(pause.as_mut().poll(context));
            self.pause = None;
        }
        Poll::Ready(())
    }

    /// What may happen to `bytes` now; none where nothing is spoilt.
    fn decide(&mut self, bytes: &[u8]) -> Option<Decision> {
        let mut spoil = self.spoiler.spoil_now();
        let spoil = spoil.as_mut()?;
        if !spoil.is_in_head() {
            return Some(Decision::Body(spoil.step(bytes.len())));
        }
        let (taken, whole) = spoil.gather(bytes);
        self.pending.0.extend(whole.unwrap_or_default());
        Some(Decision::Taken(taken))
    }

    fn note_passed(&mut self, bytes: usize) {
        if let Some(spoil) = self.spoiler.spoil_now().as_mut() {
            self.pending.0.extend(spoil.after(bytes));
        }
    }

    /// Ends the connection; the library, told of an error, drops it.
    fn end(&mut self, context: &mut Context<'_>, how: End) -> io::Error {
        match how {
            End::Reset => self.spoiler.reset_at_end(),
            End::Close => {
                // A socket that holds unread bytes is reset when it is dropped: say goodbye first.
                let _ = Pin::new(&mut self.socket).poll_shutdown(context);
            }
        }
        io::ErrorKind::ConnectionAborted.into()
    }

    fn poll_spoilt(
        &mut self,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<Option<usize>>> {
        loop {
            ready!(self.poll_pending(context))?;
            ready!(self.poll_pause(context));
            match self.decide(bytes) {
                None => return Poll::Ready(Ok(None)),
                Some(Decision::Taken(taken)) => return Poll::Ready(Ok(Some(taken))),
                Some(Decision::Body(Step::Pass(limit))) => {
                    let socket = Pin::new(&mut self.socket);
                    let sent = ready!(socket.poll_write(context, &bytes[..limit]))?;
                    self.note_passed(sent);
                    return Poll::Ready(Ok(Some(sent)));
                }
                Some(Decision::Body(Step::Wait(time))) => self.rest(time),
                Some(Decision::Body(Step::Hold)) => return Poll::Pending,
                Some(Decision::Body(Step::End(how))) => {
                    return Poll::Ready(Err(self.end(context, how)));
                }
            }
        }
    }

    fn rest(&mut self, time: Duration) {
        self.pause = Some(Box::pin(tokio::time::sleep(time)));
    }
}

enum Decision {
    /// So many bytes were taken.
    Taken(usize),
    /// They are of the body.
    Body(Step),
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(context, buffer)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match ready!(self.poll_spoilt(context, bytes))? {
            Some(taken) => Poll::Ready(Ok(taken)),
            None => Pin::new(&mut self.socket).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let first = parts.iter().find(|part| !part.is_empty()).map_or(&[][..], |part| part);
        match ready!(self.poll_spoilt(context, first))? {
            Some(taken) => Poll::Ready(Ok(taken)),
            None => Pin::new(&mut self.socket).poll_write_vectored(context, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_pending(context))?;
        let end = self.spoiler.spoil_now().as_ref().and_then(Spoil::end);
        match end {
            Some(how) => Poll::Ready(Err(self.end(context, how))),
            None => Pin::new(&mut self.socket).poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_pending(context))?;
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        if self.spoiler.0.resets.load(Ordering::Relaxed) {
            // Where this fails the connection has ended already.
            let _ = self.socket.set_zero_linger();
        }
    }
}
