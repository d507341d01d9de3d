//! Unix sockets as the standard library does not make them: bound to a path, given their mode, and only then
//! listening. And what the kernel tells of such a connection: who is at its other end, and what waits there.

use super::socket::{BACKLOG_MAX, check, open_family};
use std::ffi::c_char;
use std::io;
use std::mem::offset_of;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

/// Bytes of a path in an address: all but the zero that ends it.
pub const UNIX_PATH_BYTES_MAX: usize =
    size_of::<libc::sockaddr_un>() - offset_of!(libc::sockaddr_un, sun_path) - 1;

/// Listens on a path where nothing is, with this mode. Nobody can connect before the mode is set.
pub fn bind_unix(path: &Path, mode: u32) -> io::Result<UnixListener> {
    let (address, length) = address(path)?;
    let socket = open_family(libc::AF_UNIX, false)?;
    // SAFETY: pointer and length are those of an address that lives until the call returns.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) })?;
    let listening =
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).and_then(|()| {
            // SAFETY: listen takes no pointers.
            check(unsafe { libc::listen(socket.as_raw_fd(), BACKLOG_MAX) })
        });
    if let Err(error) = listening {
        // What cannot listen leaves no file behind, as far as that is in its power.
        let _ = std::fs::remove_file(path);
        return Err(error);
    }
    Ok(UnixListener::from(socket))
}

/// Whether somebody listens on a path; one who has no time for another connection does, too.
pub fn unix_path_is_served(path: &Path) -> io::Result<bool> {
    let (address, length) = address(path)?;
    // Nonblocking, since a full queue would be waited for.
    let socket = open_family(libc::AF_UNIX, true)?;
    // SAFETY: pointer and length are those of an address that lives until the call returns.
    let connected =
        check(unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), length) });
    match connected.map_err(|error| (error.raw_os_error(), error)) {
        Ok(()) | Err((Some(libc::EAGAIN | libc::EPROTOTYPE), _)) => Ok(true),
        Err((Some(libc::ECONNREFUSED | libc::ENOENT), _)) => Ok(false),
        Err((_, error)) => Err(error),
    }
}

/// The process and the user who opened the other end of a connection.
pub(crate) fn peer_process(socket: RawFd) -> io::Result<(i32, u32)> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of_val(&peer) as libc::socklen_t;
    // SAFETY: pointer and length are those of a value that lives until the call returns; any bytes
    // the kernel writes are integers.
    check(unsafe {
        libc::getsockopt(
            socket,
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut length,
        )
    })?;
    Ok((peer.pid, peer.uid))
}

/// Kernel memory of what was sent and not yet received, in bytes: more than the bytes themselves, and freed by
/// pieces of up to 36 KiB.
pub(crate) fn waiting_bytes(socket: RawFd) -> io::Result<u64> {
    let mut waiting: i32 = 0;
    // SAFETY: the kernel writes one integer into one that lives until the call returns.
    check(unsafe { libc::ioctl(socket, libc::TIOCOUTQ, &raw mut waiting) })?;
    Ok(u64::try_from(waiting).unwrap_or(0))
}

fn address(path: &Path) -> io::Result<(libc::sockaddr_un, libc::socklen_t)> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.is_empty() || bytes.len() > UNIX_PATH_BYTES_MAX || bytes.contains(&0) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let family = libc::AF_UNIX as libc::sa_family_t;
    let mut address = libc::sockaddr_un { sun_family: family, sun_path: [0; _] };
    for (to, from) in address.sun_path.iter_mut().zip(bytes) {
        *to = *from as c_char;
    }
    let length = offset_of!(libc::sockaddr_un, sun_path) + bytes.len() + 1;
    Ok((address, length as libc::socklen_t))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_bound_path_has_its_mode_and_is_served_until_its_listener_is_dropped() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        assert!(!unix_path_is_served(&path).expect("nothing is there"));
        let listener = bind_unix(&path, 0o640).expect("nothing is there");
        let mode = std::fs::metadata(&path).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        assert!(unix_path_is_served(&path).expect("it can be asked"));
        bind_unix(&path, 0o600).expect_err("it is taken");
        drop(listener);
        assert!(path.exists() && !unix_path_is_served(&path).expect("it can be asked"));
    }

    #[test]
    fn a_path_has_a_length_that_an_address_holds() {
        let folder = tempfile::tempdir().expect("a folder");
        let room = UNIX_PATH_BYTES_MAX - folder.path().as_os_str().len() - 1;
        bind_unix(&folder.path().join("a".repeat(room)), 0o600).expect("it just fits");
        let told = bind_unix(&folder.path().join("a".repeat(room + 1)), 0o600);
        assert_eq!(told.expect_err("it is too long").kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn the_peer_is_a_process_and_what_it_has_not_taken_waits() {
        let (one, other) = UnixStream::pair().expect("a pair");
        let (process, _) = peer_process(one.as_raw_fd()).expect("it is open");
        assert_eq!(u32::try_from(process), Ok(std::process::id()));
        io::Write::write_all(&mut &one, &[7; 5000]).expect("there is room");
        assert!(waiting_bytes(one.as_raw_fd()).expect("it is open") >= 5000);
        io::Read::read_exact(&mut &other, &mut [0; 5000]).expect("it was sent");
        assert_eq!(waiting_bytes(one.as_raw_fd()).expect("it is open"), 0);
    }
}
