//! The PROXY protocol, version 2: what a balancer of connections writes before its client's first byte, so that
//! the node knows where the client is. Version 1, which is text, is no header here.
//! The format is that of HAProxy's `doc/proxy-protocol.txt`, section 2.2. Whom to believe is the engine's to decide.

#[cfg(test)]
mod tests;

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use crc_fast::CrcAlgorithm;

/// How every header begins.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Signature, version and command, family, and the length of what follows.
const FIXED_BYTES: usize = 16;
/// The most that may follow these: the addresses (216 bytes at most) and whatever the balancer adds. Cloud balancers
/// add under a hundred bytes; one that passes a client's certificate on adds two or three thousand.
pub const PROXY_BLOCK_BYTES_MAX: usize = 4096;

/// Type and length of an added field.
const FIELD_HEAD_BYTES: usize = 3;
/// The field that holds a CRC-32C of the whole header, taken with zeros in its own place.
const CHECKSUM_FIELD: u8 = 0x03;
const CHECKSUM_BYTES: usize = 4;

/// What the first bytes of a connection are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyParsed {
    /// A header so far, and more of it is to come.
    Partial,
    /// A header.
    Whole {
        /// Where the client is. `None` where the balancer speaks for itself (`LOCAL`, as its health checks do), or
        /// does not know: then the connection's own peer is the client.
        source: Option<SocketAddr>,
        /// Bytes of the header.
        length: usize,
    },
}

/// Why the first bytes of a connection are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProxyError {
    /// They begin otherwise.
    #[error("the connection begins with something else")]
    Signature,
    /// Neither LOCAL nor PROXY of version 2.
    #[error("version and command are {0:#04x}")]
    Command(u8),
    /// No family that the protocol has.
    #[error("family and transport are {0:#04x}")]
    Family(u8),
    /// Over [`PROXY_BLOCK_BYTES_MAX`].
    #[error("{0} bytes follow the header's fixed part, more than {PROXY_BLOCK_BYTES_MAX}")]
    TooLong(usize),
    /// The header ends before its addresses do.
    #[error("the addresses are cut off")]
    Addresses,
    /// An added field goes on past the header's end, or a checksum is not what it can be.
    #[error("an added field is malformed")]
    Field,
    /// The checksum does not hold.
    #[error("the checksum does not hold")]
    Checksum,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Command {
    Local,
    Proxy,
}

/// Reads the header at the beginning of `bytes`. What cannot become one is refused with its first wrong byte.
pub fn parse_proxy(bytes: &[u8]) -> Result<ProxyParsed, ProxyError> {
    let seen = bytes.len().min(SIGNATURE.len());
    if bytes[..seen] != SIGNATURE[..seen] {
        return Err(ProxyError::Signature);
    }
    let command = match bytes.get(12) {
        None => return Ok(ProxyParsed::Partial),
        Some(0x20) => Command::Local,
        Some(0x21) => Command::Proxy,
        Some(other) => return Err(ProxyError::Command(*other)),
    };
    let Some(&family) = bytes.get(13) else { return Ok(ProxyParsed::Partial) };
    let addresses_bytes = match (command, addresses_bytes(family)) {
        (Command::Proxy, None) => return Err(ProxyError::Family(family)),
        (_, known) => known,
    };
    let Some(&[high, low]) = bytes.get(14..FIXED_BYTES) else { return Ok(ProxyParsed::Partial) };
    let block_bytes = usize::from(u16::from_be_bytes([high, low]));
    if block_bytes > PROXY_BLOCK_BYTES_MAX {
        return Err(ProxyError::TooLong(block_bytes));
    }
    let length = FIXED_BYTES + block_bytes;
    let Some(header) = bytes.get(..length) else { return Ok(ProxyParsed::Partial) };
    // LOCAL says nothing of an address, and the unspecified family may say it in any form: both are to be skipped,
    // but a checksum that can be found holds for them too.
    if command == Command::Local || family == 0 {
        let fields = addresses_bytes.and_then(|count| header.get(FIXED_BYTES + count..));
        return match fields.map(|fields| check_fields(header, fields)) {
            Some(Err(ProxyError::Checksum)) => Err(ProxyError::Checksum),
            _ => Ok(ProxyParsed::Whole { source: None, length }),
        };
    }
    let split = header[FIXED_BYTES..].split_at_checked(addresses_bytes.unwrap_or_default());
    let (addresses, fields) = split.ok_or(ProxyError::Addresses)?;
    check_fields(header, fields)?;
    Ok(ProxyParsed::Whole { source: source(family, addresses), length })
}

/// Bytes of a family's two addresses; `None` of one that there is not.
fn addresses_bytes(family: u8) -> Option<usize> {
    match family {
        0x00 => Some(0),
        0x11 | 0x12 => Some(12),
        0x21 | 0x22 => Some(36),
        0x31 | 0x32 => Some(216),
        _ => None,
    }
}

/// Where the client is. Datagrams and Unix sockets of the balancer are families that a receiver may take as
/// unspecified.
fn source(family: u8, addresses: &[u8]) -> Option<SocketAddr> {
    match (family, addresses) {
        (0x11, [a, b, c, d, _, _, _, _, high, low, ..]) => {
            let ip = Ipv4Addr::new(*a, *b, *c, *d);
            Some(SocketAddr::from((ip, u16::from_be_bytes([*high, *low]))))
        }
        (0x21, addresses) => {
            let (ip, rest) = addresses.split_first_chunk::<16>()?;
            let port = rest.get(16..)?.first_chunk::<2>()?;
            Some(SocketAddr::from((Ipv6Addr::from_octets(*ip), u16::from_be_bytes(*port))))
        }
        _ => None,
    }
}

/// Whether the fields that end `header` are whole, and their checksum holds if there is one.
fn check_fields(header: &[u8], mut fields: &[u8]) -> Result<(), ProxyError> {
    let mut checksum = None;
    while !fields.is_empty() {
        let (head, rest) =
            fields.split_first_chunk::<FIELD_HEAD_BYTES>().ok_or(ProxyError::Field)?;
        let value_bytes = usize::from(u16::from_be_bytes([head[1], head[2]]));
        let (value, after) = rest.split_at_checked(value_bytes).ok_or(ProxyError::Field)?;
        if head[0] == CHECKSUM_FIELD {
            let stated = <[u8; CHECKSUM_BYTES]>::try_from(value).map_err(|_| ProxyError::Field)?;
            if checksum.replace((stated, after.len())).is_some() {
                return Err(ProxyError::Field);
            }
        }
        fields = after;
    }
    let Some((stated, after_bytes)) = checksum else { return Ok(()) };
    let after = header.len() - after_bytes;
    let mut digest = crc_fast::Digest::new(CrcAlgorithm::Crc32Iscsi);
    for part in [&header[..after - CHECKSUM_BYTES], &[0; CHECKSUM_BYTES], &header[after..]] {
        digest.update(part);
    }
    let holds = digest.finalize() == u64::from(u32::from_be_bytes(stated));
    holds.then_some(()).ok_or(ProxyError::Checksum)
}
