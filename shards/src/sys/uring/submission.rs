//! Operations as submission entries: what the kernel is pointed at, and what is held for it meanwhile.

use super::Held;
use crate::buffer::Buffer;
use crate::endpoint::{Endpoint, EndpointKey, Transport};
use crate::file::File;
use crate::parts::Parts;
use crate::ring::{Operation, Outcome};
use crate::sys::message::Rooms;
use crate::sys::socket::{self, SocketAddress};
use crate::sys::uring::HEADS_GROUP;
use io_uring::types::{Fd, FsyncFlags};
use io_uring::{opcode, squeue};
use std::os::fd::AsRawFd;

/// Bytes of one read, write or receive: the kernel's own ceiling, rounded down to a page.
const BYTES_MAX: usize = 0x7FFF_F000;

/// An entry, and what it points at.
pub(super) struct Begun {
    pub(super) held: Held,
    pub(super) entry: squeue::Entry,
}

/// Makes the entry. An outcome is the error of what had to be done before.
pub(super) fn begin(operation: Operation) -> Result<Begun, Outcome> {
    let begun = match operation {
        Operation::Accept { listener, transport } => {
            Begun { held: Held::Accept(transport), entry: accept(Fd(listener.0), transport) }
        }
        Operation::Connect { address } => return connect(address).map_err(Outcome::Connected),
        Operation::ReceiveHeads { socket } => {
            let entry = opcode::RecvMulti::new(Fd(socket.0), HEADS_GROUP).build();
            Begun { held: Held::Heads, entry }
        }
        Operation::Receive { socket, mut buffer } => {
            let (pointer, length) = room(&mut buffer);
            let entry = opcode::Recv::new(Fd(socket.0), pointer, length).build();
            Begun { held: Held::Receive(buffer), entry }
        }
        Operation::Send { socket, mut parts } => {
            let entry = send(socket, &mut parts, 0);
            Begun { held: Held::Send { socket, parts, sent_bytes: 0 }, entry }
        }
        Operation::ReadAt { file, buffers, offset_bytes } => match file.descriptor() {
            Ok(descriptor) => read(Fd(descriptor), (file, buffers), offset_bytes),
            Err(error) => return Err(Outcome::Read(Err(error), buffers)),
        },
        Operation::WriteAt { file, buffer, offset_bytes } => {
            let descriptor = match file.descriptor() {
                Ok(descriptor) => Fd(descriptor),
                Err(error) => return Err(Outcome::Written(Err(error), buffer)),
            };
            let (pointer, length) = filled(&buffer);
            let entry =
                opcode::Write::new(descriptor, pointer, length).offset(offset_bytes).build();
            Begun { held: Held::Write(file, buffer), entry }
        }
        Operation::Sync { file } => {
            let descriptor = file.descriptor().map_err(|error| Outcome::Synced(Err(error)))?;
            let entry = opcode::Fsync::new(Fd(descriptor)).flags(FsyncFlags::DATASYNC).build();
            Begun { held: Held::Sync(file), entry }
        }
    };
    Ok(begun)
}

fn read(descriptor: Fd, (file, mut buffers): (File, Vec<Buffer>), offset_bytes: u64) -> Begun {
    if let [buffer] = &mut buffers[..] {
        let (pointer, length) = room(buffer);
        let entry = opcode::Read::new(descriptor, pointer, length).offset(offset_bytes).build();
        return Begun { held: Held::Read(file, buffers, Rooms::default()), entry };
    }
    let rooms = Rooms::of(&mut buffers);
    let (pointer, count) = rooms.vector();
    let entry = opcode::Readv::new(descriptor, pointer, count).offset(offset_bytes).build();
    Begun { held: Held::Read(file, buffers, rooms), entry }
}

/// A listener that rings share is asked for one connection at a time: who has got one stands in line again behind
/// the others, while repeating accepts would leave every connection to whoever asked first.
fn accept(listener: Fd, transport: Transport) -> squeue::Entry {
    let flags = libc::SOCK_CLOEXEC;
    match transport {
        Transport::Tcp => opcode::AcceptMulti::new(listener).flags(flags).build(),
        Transport::Unix => {
            let nowhere = std::ptr::null_mut();
            opcode::Accept::new(listener, nowhere, nowhere.cast()).flags(flags).build()
        }
    }
}

/// The entry that sends all but the first `sent_bytes`.
pub(super) fn send(socket: EndpointKey, parts: &mut Parts, sent_bytes: usize) -> squeue::Entry {
    let flags = (libc::MSG_WAITALL | libc::MSG_NOSIGNAL) as u32;
    let header = parts.message(sent_bytes).header();
    opcode::SendMsg::new(Fd(socket.0), header).flags(flags).build()
}

fn connect(address: std::net::SocketAddr) -> Result<Begun, std::io::Result<Endpoint>> {
    let socket = socket::unconnected(address, false).map_err(Err)?;
    let address = Box::new(SocketAddress::new(address));
    let entry =
        opcode::Connect::new(Fd(socket.as_raw_fd()), address.pointer(), address.len()).build();
    Ok(Begun { held: Held::Connect { socket, address }, entry })
}

fn room(buffer: &mut Buffer) -> (*mut u8, u32) {
    let room = buffer.unfilled_mut();
    (room.as_mut_ptr(), room.len().min(BYTES_MAX) as u32)
}

fn filled(buffer: &Buffer) -> (*const u8, u32) {
    let filled = buffer.filled();
    (filled.as_ptr(), filled.len().min(BYTES_MAX) as u32)
}
