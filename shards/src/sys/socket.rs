//! Sockets as the standard library does not make them: listeners that share an address, sockets that
//! are connected later, and one vectored send.

use super::message::Message;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Connections that the kernel holds for a listener until they are accepted; the kernel lowers it to
/// its own ceiling (`net.core.somaxconn`).
pub(super) const BACKLOG_MAX: i32 = 4096;

/// An address in the kernel's form, with its length.
pub(crate) struct SocketAddress {
    storage: Storage,
}

enum Storage {
    V4(libc::sockaddr_in),
    V6(libc::sockaddr_in6),
}

impl SocketAddress {
    /// The kernel's form of `address`.
    pub(crate) fn new(address: SocketAddr) -> SocketAddress {
        let storage = match address {
            SocketAddr::V4(address) => Storage::V4(libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: address.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
                sin_zero: [0; 8],
            }),
            SocketAddr::V6(address) => Storage::V6(libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: address.port().to_be(),
                sin6_flowinfo: address.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                sin6_scope_id: address.scope_id(),
            }),
        };
        SocketAddress { storage }
    }

    /// Where it lies, while this value does not move.
    pub(crate) fn pointer(&self) -> *const libc::sockaddr {
        match &self.storage {
            Storage::V4(address) => (&raw const *address).cast(),
            Storage::V6(address) => (&raw const *address).cast(),
        }
    }

    /// Its length in bytes.
    pub(crate) fn len(&self) -> libc::socklen_t {
        match &self.storage {
            Storage::V4(address) => size_of_val(address) as libc::socklen_t,
            Storage::V6(address) => size_of_val(address) as libc::socklen_t,
        }
    }
}

/// A listener whose address other listeners may share, and whose connections send without delay
/// (they inherit it).
pub(crate) fn listening(address: SocketAddr, nonblocking: bool) -> io::Result<TcpListener> {
    let socket = open(address.ip(), nonblocking)?;
    set_option(&socket, libc::SOL_SOCKET, libc::SO_REUSEADDR)?;
    set_option(&socket, libc::SOL_SOCKET, libc::SO_REUSEPORT)?;
    set_option(&socket, libc::IPPROTO_TCP, libc::TCP_NODELAY)?;
    let kernels = SocketAddress::new(address);
    // SAFETY: pointer and length are those of an address that lives until the call returns.
    check(unsafe { libc::bind(socket.as_raw_fd(), kernels.pointer(), kernels.len()) })?;
    // SAFETY: listen takes no pointers.
    check(unsafe { libc::listen(socket.as_raw_fd(), BACKLOG_MAX) })?;
    Ok(TcpListener::from(socket))
}

/// A socket of the family of `address`, not connected yet, that sends without delay.
pub(crate) fn unconnected(address: SocketAddr, nonblocking: bool) -> io::Result<TcpStream> {
    let socket = open(address.ip(), nonblocking)?;
    set_option(&socket, libc::IPPROTO_TCP, libc::TCP_NODELAY)?;
    Ok(TcpStream::from(socket))
}

/// Begins to connect a nonblocking socket; it is writable when the outcome is known.
pub(crate) fn begin_connect(socket: &TcpStream, address: SocketAddr) -> io::Result<()> {
    let kernels = SocketAddress::new(address);
    // SAFETY: pointer and length are those of an address that lives until the call returns.
    let result = unsafe { libc::connect(socket.as_raw_fd(), kernels.pointer(), kernels.len()) };
    match check(result) {
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Ok(()),
        result => result,
    }
}

/// Sends what the socket takes now of a message whose memory the caller keeps.
pub(crate) fn send<const N: usize>(socket: RawFd, message: &Message<N>) -> io::Result<usize> {
    // SAFETY: the message points at itself and at slices borrowed by who filled it just before.
    let sent = unsafe { libc::sendmsg(socket, message.header(), libc::MSG_NOSIGNAL) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Receives what the socket has now.
pub(crate) fn receive(socket: RawFd, bytes: &mut [u8]) -> io::Result<usize> {
    // SAFETY: pointer and length are those of a slice that is borrowed mutably.
    let received = unsafe { libc::recv(socket, bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    usize::try_from(received).map_err(|_| io::Error::last_os_error())
}

/// Where `tcpi_bytes_acked` lies in the kernel's `struct tcp_info`, in words of eight bytes: a field
/// since Linux 4.1, and where it is for good, since the struct only grows at its end.
const ACKNOWLEDGED_WORD: usize = 15;

/// Bytes that the peer's kernel has taken so far, over the connection's life.
pub(crate) fn acknowledged_bytes(socket: RawFd) -> io::Result<u64> {
    let mut words = [0_u64; ACKNOWLEDGED_WORD + 1];
    let mut length = size_of_val(&words) as libc::socklen_t;
    // SAFETY: pointer and length are those of an array that lives until the call returns; any bytes
    // the kernel writes are integers.
    check(unsafe {
        libc::getsockopt(
            socket,
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            words.as_mut_ptr().cast(),
            &raw mut length,
        )
    })?;
    if (length as usize) < size_of_val(&words) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(words[ACKNOWLEDGED_WORD])
}

/// Has the close of a connection throw away what its peer has not taken.
pub(crate) fn reset_on_close(socket: RawFd) -> io::Result<()> {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    let length = size_of_val(&linger) as libc::socklen_t;
    // SAFETY: pointer and length are those of a value that lives until the call returns.
    check(unsafe {
        libc::setsockopt(
            socket,
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const linger).cast(),
            length,
        )
    })
}

/// Takes a nonblocking connection from a listener.
pub(crate) fn accept_nonblocking(listener: RawFd) -> io::Result<OwnedFd> {
    let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no address is asked for.
    let socket =
        unsafe { libc::accept4(listener, std::ptr::null_mut(), std::ptr::null_mut(), flags) };
    check(socket)?;
    Ok(adopt(socket))
}

/// The connection that the kernel has accepted into this new descriptor.
pub(super) fn adopt(descriptor: RawFd) -> OwnedFd {
    // SAFETY: called once for each descriptor that an accept has returned; nothing else owns it.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

fn open(address: IpAddr, nonblocking: bool) -> io::Result<OwnedFd> {
    open_family(if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 }, nonblocking)
}

/// A stream socket of a family.
pub(super) fn open_family(family: i32, nonblocking: bool) -> io::Result<OwnedFd> {
    let flags = libc::SOCK_CLOEXEC | if nonblocking { libc::SOCK_NONBLOCK } else { 0 };
    // SAFETY: socket takes no pointers.
    let socket = unsafe { libc::socket(family, libc::SOCK_STREAM | flags, 0) };
    check(socket)?;
    // SAFETY: just made, and owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(socket) })
}

fn set_option(socket: &OwnedFd, level: i32, option: i32) -> io::Result<()> {
    let on: i32 = 1;
    let length = size_of_val(&on) as libc::socklen_t;
    // SAFETY: pointer and length are those of an integer that lives until the call returns.
    check(unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const on).cast(), length)
    })
}

pub(super) fn check(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
