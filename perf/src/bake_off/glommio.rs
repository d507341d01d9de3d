//! The minimal server on glommio, by its own API. glommio sends no vector of buffers, so head
//! and body are joined once, at start: the form most favourable to it.

use std::net::SocketAddr;
use std::rc::Rc;

use arrayvec::ArrayVec;
use futures_lite::{AsyncReadExt, AsyncWriteExt};
use glommio::net::{TcpListener, TcpStream};
use glommio::{LocalExecutorBuilder, Placement};

use super::memory::{Asked, HEAD_BYTES_MAX, Memory, REQUEST_BYTES_MAX, write_head};
use crate::error::{Doing, Error, Result};

pub(super) fn serve(memory: Memory, address: SocketAddr) -> Result<()> {
    let joined = Rc::new(memory.map_bodies(|body| {
        let mut head = ArrayVec::<u8, HEAD_BYTES_MAX>::new();
        write_head(&mut head, Some(body));
        [&head[..], body].concat().into()
    }));
    // The process is already on its core; the executor must not choose another.
    LocalExecutorBuilder::new(Placement::Unbound)
        .make()
        .map_err(|error| Error::Failed(format!("starting glommio: {error}")))?
        .run(accept(joined, address))
}

async fn accept(memory: Rc<Memory>, address: SocketAddr) -> Result<()> {
    let listener = TcpListener::bind(address).doing("listening")?;
    loop {
        let stream = listener.accept().await.doing("accepting")?;
        stream.set_nodelay(true).doing("setting TCP_NODELAY")?;
        let memory = memory.clone();
        glommio::spawn_local(async move {
            // A client that leaves is no event of a benchmark.
            let _ = answer_all(&memory, stream).await;
        })
        .detach();
    }
}

async fn answer_all(memory: &Memory, mut stream: TcpStream) -> std::io::Result<()> {
    let mut received = vec![0; REQUEST_BYTES_MAX];
    let mut filled = 0;
    loop {
        let count = stream.read(&mut received[filled..]).await?;
        filled += count;
        match memory.asked(&received[..filled]) {
            _ if count == 0 => return Ok(()),
            Asked::More => continue,
            Asked::Whole(_, Some(answer)) => stream.write_all(&answer).await?,
            Asked::Whole(_, None) | Asked::Nonsense => return Ok(()),
        }
        filled = 0;
    }
}
