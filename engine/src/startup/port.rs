//! The addresses: free, and ours to take. The trial bind does not share a port as the shards do
//! among themselves, so that a second node cannot slip in beside a first one.

use std::io::{Error, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc;
use std::time::Duration;

use nilas_shards::Finding;

use super::fatal;

/// A node that was killed keeps its addresses until the kernel has taken its rings apart, some milliseconds after it
/// has gone: so often is an address tried that is in use, and so long apart.
const TRIES_MAX: u32 = 40;
const TRY_INTERVAL: Duration = Duration::from_millis(25);

/// Tries to listen on `address`, which `key` sets, and `flag` changes.
pub(super) fn probe(key: &str, flag: &str, address: SocketAddr) -> Result<(), Finding> {
    let mut tries = 1;
    loop {
        match TcpListener::bind(address) {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::AddrInUse && tries < TRIES_MAX => {
                tries += 1;
                pause(TRY_INTERVAL);
            }
            Err(error) => return Err(finding(key, flag, address, &error)),
        }
    }
}

fn pause(time: Duration) {
    let (_sender, receiver) = mpsc::channel::<()>();
    // Nobody sends: it is the time that is waited for.
    let _ = receiver.recv_timeout(time);
}

fn finding(key: &str, flag: &str, address: SocketAddr, error: &Error) -> Finding {
    let change = format!("set {key} ({flag} IP:PORT)");
    match error.kind() {
        ErrorKind::AddrInUse => fatal(
            format!("The address {address} ({key}) is in use by another process."),
            "The node cannot listen there.",
            format!("Stop that process (ss -ltnp 'sport = :{}'), or {change}.", address.port()),
        ),
        ErrorKind::AddrNotAvailable => fatal(
            format!("No interface of this machine has the address {} ({key}).", address.ip()),
            "The node cannot listen there.",
            format!("Use 127.0.0.1, 0.0.0.0 or an address that ip addr shows: {change}."),
        ),
        ErrorKind::PermissionDenied => fatal(
            format!("This user may not listen on port {} ({key}).", address.port()),
            "The node cannot listen there.",
            format!("Use a port from 1024 on, or grant CAP_NET_BIND_SERVICE: {change}."),
        ),
        _ => fatal(
            format!("The address {address} ({key}) cannot be listened on: {error}."),
            "Nobody could reach the node there.",
            format!("Change the address: {change}."),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_in_use_is_named_with_the_key_that_changes_it() {
        let holder = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = holder.local_addr().expect("it is bound");
        let told = probe("server.listen", "--listen", address).expect_err("it is taken");
        let told = told.to_string();
        for part in [&address.to_string(), "in use", "server.listen", "--listen"] {
            assert!(told.contains(part), "{part} is not in: {told}");
        }
        drop(holder);
        probe("server.listen", "--listen", address).expect("it is free again");
    }

    #[test]
    fn an_address_that_is_free_in_a_moment_is_waited_for() {
        let holder = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = holder.local_addr().expect("it is bound");
        let holding = std::thread::spawn(move || {
            pause(3 * TRY_INTERVAL);
            drop(holder);
        });
        probe("server.listen", "--listen", address).expect("it is free by then");
        holding.join().expect("it only sleeps");
    }

    #[test]
    fn an_address_of_another_machine_is_told() {
        // Reserved for documentation (RFC 5737): no interface has it.
        let address = SocketAddr::from(([192, 0, 2, 1], 9000));
        let told = probe("server.admin", "--server.admin", address).expect_err("it is not ours");
        assert!(told.to_string().contains("192.0.2.1"), "{told}");
    }
}
