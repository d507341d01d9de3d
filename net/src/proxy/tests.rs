//! Headers as balancers write them, cut, spoilt one thing at a time, and at random. The naive oracle that any
//! bytes are held against is in `fuzz/targets/proxy.rs`.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const PROXY: u8 = 0x21;
const LOCAL: u8 = 0x20;

/// A header as a balancer writes it.
fn written(command: u8, family: u8, block: &[u8]) -> Vec<u8> {
    let length = u16::try_from(block.len()).expect("a header's length has two bytes");
    [&SIGNATURE[..], &[command, family], &length.to_be_bytes(), block].concat()
}

fn field(kind: u8, value: &[u8]) -> Vec<u8> {
    [&[kind][..], &(value.len() as u16).to_be_bytes(), value].concat()
}

fn addresses_v4() -> Vec<u8> {
    [&[203, 0, 113, 7, 10, 0, 0, 1][..], &41_000_u16.to_be_bytes(), &9000_u16.to_be_bytes()]
        .concat()
}

/// CRC-32C bit by bit.
fn naive_checksum(bytes: &[u8]) -> u32 {
    let mut state = !0_u32;
    for byte in bytes {
        state ^= u32::from(*byte);
        for _ in 0..8 {
            state = if state & 1 == 1 { state >> 1 ^ 0x82F6_3B78 } else { state >> 1 };
        }
    }
    !state
}

/// A header that ends with its own checksum.
fn sealed(command: u8, family: u8, block: &[u8]) -> Vec<u8> {
    let mut header = written(command, family, &[block, &field(CHECKSUM_FIELD, &[0; 4])].concat());
    let checksum = naive_checksum(&header).to_be_bytes();
    let at = header.len() - checksum.len();
    header[at..].copy_from_slice(&checksum);
    header
}

fn refused(bytes: &[u8]) -> ProxyError {
    parse_proxy(bytes).expect_err("it is refused")
}

fn source_of(bytes: &[u8]) -> Option<SocketAddr> {
    match parse_proxy(bytes) {
        Ok(ProxyParsed::Whole { source, .. }) => source,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_client_is_where_the_header_says() {
    let header = written(PROXY, 0x11, &addresses_v4());
    let expected = "203.0.113.7:41000".parse().expect("an address");
    let whole = ProxyParsed::Whole { source: Some(expected), length: 28 };
    assert_eq!(parse_proxy(&header), Ok(whole));
    assert_eq!(parse_proxy(&[&header[..], b"GET / HTTP/1.1"].concat()), Ok(whole));
    let mut addresses = [0; 36];
    addresses[..2].copy_from_slice(&[0x20, 0x01]);
    addresses[15] = 9;
    addresses[32..34].copy_from_slice(&443_u16.to_be_bytes());
    let expected = "[2001::9]:443".parse().expect("an address");
    assert_eq!(source_of(&written(PROXY, 0x21, &addresses)), Some(expected));
}

#[test]
fn a_balancer_that_speaks_for_itself_says_nothing_of_a_client() {
    for (command, family, block) in [
        (LOCAL, 0x00, vec![]),
        (LOCAL, 0x11, addresses_v4()),
        // Skipped unread: neither a family nor fields.
        (LOCAL, 0xff, vec![1, 2, 3]),
        (LOCAL, 0x11, vec![1, 2, 3]),
        (PROXY, 0x00, vec![]),
        (PROXY, 0x00, vec![9; 40]),
        (PROXY, 0x12, addresses_v4()),
        (PROXY, 0x22, vec![0; 36]),
        (PROXY, 0x31, vec![0; 216]),
        (PROXY, 0x32, vec![0; 216]),
    ] {
        let header = written(command, family, &block);
        let length = header.len();
        let expected = ProxyParsed::Whole { source: None, length };
        assert_eq!(parse_proxy(&header), Ok(expected), "{command:#x} {family:#x}");
    }
}

#[test]
fn what_begins_otherwise_is_refused_with_its_first_byte() {
    for text in
        [&b"G"[..], b"PROXY TCP4 203.0.113.7 10.0.0.1 41000 9000\r\n", b"\r\n\r\n\0\r\nQUIT\r"]
    {
        assert_eq!(refused(text), ProxyError::Signature);
    }
    let header = written(PROXY, 0x11, &addresses_v4());
    for at in 0..SIGNATURE.len() {
        let mut spoilt = header[..=at].to_vec();
        spoilt[at] ^= 1;
        assert_eq!(refused(&spoilt), ProxyError::Signature, "byte {at}");
    }
    assert_eq!(refused(&written(0x11, 0x11, &addresses_v4())), ProxyError::Command(0x11));
    assert_eq!(refused(&written(0x22, 0x11, &addresses_v4())[..13]), ProxyError::Command(0x22));
    assert_eq!(refused(&written(PROXY, 0x41, &addresses_v4())[..14]), ProxyError::Family(0x41));
    assert_eq!(refused(&written(PROXY, 0x10, &addresses_v4())), ProxyError::Family(0x10));
}

#[test]
fn addresses_and_fields_end_within_the_header() {
    for (family, bytes) in [(0x11, 12), (0x12, 12), (0x21, 36), (0x22, 36), (0x31, 216)] {
        let short = written(PROXY, family, &vec![0; bytes - 1]);
        assert_eq!(refused(&short), ProxyError::Addresses, "{family:#x}");
    }
    for fields in [&[4][..], &[4, 0], &[4, 0, 1], &[4, 0, 0, 4, 1, 0, 7]] {
        let block = [&addresses_v4(), fields].concat();
        assert_eq!(refused(&written(PROXY, 0x11, &block)), ProxyError::Field, "{fields:?}");
    }
}

#[test]
fn what_follows_the_fixed_part_has_a_limit() {
    let of = |bytes: usize| {
        let rest = bytes - addresses_v4().len() - FIELD_HEAD_BYTES;
        written(PROXY, 0x11, &[addresses_v4(), field(4, &vec![0; rest])].concat())
    };
    assert!(source_of(&of(PROXY_BLOCK_BYTES_MAX)).is_some());
    let too_long = of(PROXY_BLOCK_BYTES_MAX + 1);
    let expected = ProxyError::TooLong(PROXY_BLOCK_BYTES_MAX + 1);
    assert_eq!(refused(&too_long), expected);
    assert_eq!(refused(&too_long[..FIXED_BYTES]), expected, "before any of it has come");
}

#[test]
fn a_checksum_holds_or_the_header_is_refused() {
    // The check value that the CRC catalogue gives for CRC-32C.
    assert_eq!(naive_checksum(b"123456789"), 0xE306_9283);
    let header = sealed(PROXY, 0x11, &addresses_v4());
    assert!(source_of(&header).is_some());
    for at in FIXED_BYTES..FIXED_BYTES + 12 {
        let mut spoilt = header.clone();
        spoilt[at] ^= 4;
        assert_eq!(refused(&spoilt), ProxyError::Checksum, "byte {at}");
    }
    for command in [LOCAL, PROXY] {
        let mut spoilt = sealed(command, 0x00, &[]);
        assert_eq!(source_of(&spoilt), None);
        spoilt[22] ^= 1;
        assert_eq!(refused(&spoilt), ProxyError::Checksum);
    }
    let block = [addresses_v4(), field(CHECKSUM_FIELD, &[0; 3])].concat();
    assert_eq!(refused(&written(PROXY, 0x11, &block)), ProxyError::Field);
    let twice = [addresses_v4(), field(CHECKSUM_FIELD, &[0; 4])].concat();
    assert_eq!(refused(&sealed(PROXY, 0x11, &twice)), ProxyError::Field);
}

fn any_field() -> impl Strategy<Value = Vec<u8>> {
    let kinds =
        prop_oneof![Just(1_u8), Just(2), Just(4), Just(5), Just(0x20), Just(0x30), 0x40_u8..];
    (kinds, vec(any::<u8>(), 0..40)).prop_map(|(kind, value)| field(kind, &value))
}

proptest! {
    #[test]
    fn what_a_balancer_writes_reads_back_however_it_is_cut(
        source: SocketAddr,
        fields in vec(any_field(), 0..8),
        is_sealed: bool,
        payload in vec(any::<u8>(), 0..40),
    ) {
        let port = source.port().to_be_bytes();
        let (family, addresses) = match source.ip() {
            std::net::IpAddr::V4(ip) => (0x11, [&ip.octets()[..], &[1; 4], &port, &[2; 2]].concat()),
            std::net::IpAddr::V6(ip) => (0x21, [&ip.octets()[..], &[1; 16], &port, &[2; 2]].concat()),
        };
        let block = [addresses, fields.concat()].concat();
        let write = if is_sealed { sealed } else { written };
        let header = write(PROXY, family, &block);
        for cut in 0..header.len() {
            prop_assert_eq!(parse_proxy(&header[..cut]), Ok(ProxyParsed::Partial), "cut at {}", cut);
        }
        let expected = SocketAddr::new(source.ip(), source.port());
        let whole = ProxyParsed::Whole { source: Some(expected), length: header.len() };
        prop_assert_eq!(parse_proxy(&[header, payload].concat()), Ok(whole));
    }
}
