//! The minimal server on the shards' reactor: a repeating accept, a repeating receive, one
//! vectored send of head and body.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;

use arrayvec::ArrayVec;
use nilas_base::Clock;
use nilas_shards::{Listener, Reactor, RingBody, RingOptions, Socket, open_ring};

use super::memory::{Asked, HEAD_BYTES_MAX, Memory, REQUEST_BYTES_MAX, write_head};
use crate::error::{Doing, Result};

pub(super) fn serve(memory: Memory, address: SocketAddr, body: RingBody) -> Result<()> {
    let ring = open_ring(body, RingOptions::default()).doing(format!("opening {body}"))?;
    let reactor = Reactor::new(ring, Clock::system());
    let listener = reactor.listen(address).doing("listening")?;
    reactor.spawn(accept(reactor.clone(), Rc::new(memory), listener));
    reactor.run(&AtomicBool::new(false));
    Ok(())
}

async fn accept(reactor: Reactor, memory: Rc<Memory>, mut listener: Listener) {
    while let Ok(socket) = listener.accept().await {
        let memory = memory.clone();
        reactor.spawn(async move {
            // A client that leaves is no event of a benchmark.
            let _ = answer_all(&memory, &socket).await;
        });
    }
}

async fn answer_all(memory: &Memory, socket: &Socket) -> io::Result<()> {
    let mut kept = ArrayVec::<u8, REQUEST_BYTES_MAX>::new();
    loop {
        let received = socket.receive_head().await?;
        let asked = if kept.is_empty() {
            memory.asked(&received)
        } else {
            kept.write_all(&received)?;
            memory.asked(&kept)
        };
        match asked {
            _ if received.is_empty() => return Ok(()),
            Asked::More if kept.is_empty() => kept.write_all(&received)?,
            Asked::More => {}
            Asked::Whole(_, Some(body)) => {
                drop(received);
                kept.clear();
                answer(socket, body).await?;
            }
            Asked::Whole(_, None) | Asked::Nonsense => return Ok(()),
        }
    }
}

async fn answer(socket: &Socket, body: bytes::Bytes) -> io::Result<()> {
    let reactor = socket.reactor();
    let mut written = ArrayVec::<u8, HEAD_BYTES_MAX>::new();
    write_head(&mut written, Some(&body));
    let mut head = reactor.head_buffer();
    head.write_all(&written)?;
    let mut parts = reactor.parts();
    parts.push_head(head);
    parts.push_bytes(body);
    socket.send(parts).await.map(drop)
}
