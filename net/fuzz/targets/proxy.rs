//! Any bytes as the PROXY header of a connection, against an oracle that reads it field by field from a reader
//! and computes its checksum bit by bit; and cut anywhere, the verdict never goes back.

use std::io::{Cursor, Read};
use std::net::{IpAddr, SocketAddr};

use nilas_net::proxy::{PROXY_BLOCK_BYTES_MAX, ProxyParsed, parse_proxy};

pub fn run(data: &[u8]) {
    let verdict = parse_proxy(data);
    match verdict {
        Ok(ProxyParsed::Whole { source, length }) => {
            assert!((16..=16 + PROXY_BLOCK_BYTES_MAX).contains(&length));
            assert_eq!(oracle(&data[..length]), Some(source));
            for cut in 0..length {
                assert_eq!(parse_proxy(&data[..cut]), Ok(ProxyParsed::Partial));
            }
            assert_eq!(parse_proxy(&data[..length]), verdict);
        }
        Ok(ProxyParsed::Partial) => {
            assert!(data.len() < 16 + PROXY_BLOCK_BYTES_MAX && announced(data) != Some(data.len()));
            let shorter = data.len().saturating_sub(1);
            assert_eq!(parse_proxy(&data[..shorter]), Ok(ProxyParsed::Partial));
        }
        Err(error) => {
            assert!(error.to_string().len() > 10);
            assert_eq!(parse_proxy(&[data, b"more"].concat()), Err(error));
            if let Some(whole) = announced(data).and_then(|length| data.get(..length)) {
                assert_eq!(oracle(whole), None);
            }
        }
    }
}

/// How long the header says that it is.
fn announced(data: &[u8]) -> Option<usize> {
    let length = data.get(14..16)?;
    Some(16 + usize::from(length[0]) * 256 + usize::from(length[1]))
}

/// Whose connection a header that is all there says it is; `None` where it is no header.
fn oracle(header: &[u8]) -> Option<Option<SocketAddr>> {
    let mut rest = Cursor::new(header);
    let signature: [u8; 12] = next(&mut rest)?;
    let [command, family, _, _]: [u8; 4] = next(&mut rest)?;
    let is_local = command == b' ';
    if signature.escape_ascii().to_string() != "\\r\\n\\r\\n\\x00\\r\\nQUIT\\n"
        || !(is_local || command == b'!')
        || header.len() > 16 + 4096
    {
        return None;
    }
    if is_local || family == 0 {
        let skipped =
            [(0x00, 0), (0x11, 12), (0x12, 12), (0x21, 36), (0x22, 36), (0x31, 216), (0x32, 216)];
        let skipped = skipped.iter().find(|(known, _)| *known == family);
        let has_bad_checksum = skipped
            .and_then(|(_, skipped)| fields(header, 16 + skipped))
            .is_some_and(|fields| !holds(header, &fields));
        return (!has_bad_checksum).then_some(None);
    }
    let (source, at) = match (family >> 4, family & 15) {
        (1, 1 | 2) => {
            let ip: [u8; 4] = next(&mut rest)?;
            let _: [u8; 4] = next(&mut rest)?;
            (IpAddr::from(ip), 28)
        }
        (2, 1 | 2) => {
            let ip: [u8; 16] = next(&mut rest)?;
            let _: [u8; 16] = next(&mut rest)?;
            (IpAddr::from(ip), 52)
        }
        (3, 1 | 2) => (IpAddr::from([0; 4]), 232),
        _ => return None,
    };
    let [high, low]: [u8; 2] = next(&mut rest)?;
    let port = u16::from(high) * 256 + u16::from(low);
    let is_known = family >> 4 < 3 && family & 15 == 1;
    holds(header, &fields(header, at)?).then_some(is_known.then_some(SocketAddr::new(source, port)))
}

fn next<const N: usize>(rest: &mut Cursor<&[u8]>) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    rest.read_exact(&mut bytes).ok().map(|()| bytes)
}

/// Types, and where their values begin and end; `None` where they do not end with the header.
fn fields(header: &[u8], mut at: usize) -> Option<Vec<(u8, usize, usize)>> {
    let mut found = Vec::new();
    if at > header.len() {
        return None;
    }
    while at != header.len() {
        let kind = *header.get(at)?;
        let length = usize::from(*header.get(at + 1)?) << 8 | usize::from(*header.get(at + 2)?);
        let end = at + 3 + length;
        if end > header.len() {
            return None;
        }
        found.push((kind, at + 3, end));
        at = end;
    }
    let mut checksums = found.iter().filter(|(kind, ..)| *kind == 3);
    let is_right = checksums.next().is_none_or(|(_, from, to)| to - from == 4);
    (is_right && checksums.next().is_none()).then_some(found)
}

/// Whether the checksum holds, if there is one.
fn holds(header: &[u8], fields: &[(u8, usize, usize)]) -> bool {
    let Some(&(_, from, to)) = fields.iter().find(|(kind, ..)| *kind == 3) else { return true };
    let mut state = u32::MAX;
    for (at, byte) in header.iter().enumerate() {
        let byte = if (from..to).contains(&at) { 0 } else { *byte };
        for bit in 0..8 {
            let differs = (state ^ u32::from(byte) >> bit) & 1 == 1;
            state = state >> 1 ^ if differs { 0x82F6_3B78 } else { 0 };
        }
    }
    header[from..to].iter().fold(0, |stated: u32, byte| stated << 8 | u32::from(*byte)) == !state
}
