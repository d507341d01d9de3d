//! A network: the addresses that begin alike. An IPv4 address that came over an IPv6 socket is an IPv4 address.

use std::fmt;
use std::net::IpAddr;

/// Addresses whose first bits are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix_bits: u32,
}

impl Network {
    /// The network that `text` names, such as `10.0.0.0/8`; an address alone is a network of one. `None` of what
    /// is none; of bits beyond the prefix, since nobody can tell which of the two is meant; and of IPv4 in IPv6.
    pub(super) fn parse(text: &str) -> Option<Network> {
        let (address, prefix) = text.split_once('/').unwrap_or((text, ""));
        let address: IpAddr = address.parse().ok()?;
        if address.to_canonical() != address {
            return None;
        }
        let (bits, bits_max) = bits(address);
        let prefix_bits = match prefix {
            "" if text.contains('/') => return None,
            "" => bits_max,
            prefix => prefix.parse().ok().filter(|bits| *bits <= bits_max)?,
        };
        let beyond = bits.checked_shl(128 - bits_max + prefix_bits).unwrap_or(0);
        (beyond == 0).then_some(Network { address, prefix_bits })
    }

    /// Whether an address is in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        let ((own, bits_max), (other, other_max)) =
            (bits(self.address), bits(address.to_canonical()));
        let differing = own ^ other;
        bits_max == other_max
            && differing.checked_shr(bits_max - self.prefix_bits).unwrap_or(0) == 0
    }
}

/// An address as a number, and how many bits it has.
fn bits(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(ip) => (u128::from(ip.to_bits()), 32),
        IpAddr::V6(ip) => (ip.to_bits(), 128),
    }
}

impl fmt::Display for Network {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.address, self.prefix_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn network(text: &str) -> Network {
        Network::parse(text).expect("a network")
    }

    #[test]
    fn a_network_holds_the_addresses_that_begin_as_it_does() {
        for (text, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.0"),
            ("10.1.2.3", "10.1.2.3", "10.1.2.4"),
            ("0.0.0.0/0", "203.0.113.7", "::"),
            ("::/0", "2001:db8::1", "127.0.0.1"),
            ("2001:db8::/32", "2001:db8:ffff::", "2001:db9::"),
            ("::1", "::1", "::2"),
            ("127.0.0.0/8", "::ffff:127.0.0.1", "::127.0.0.1"),
        ] {
            let address = |text: &str| text.parse::<IpAddr>().expect("an address");
            assert!(network(text).contains(address(inside)), "{text} {inside}");
            assert!(!network(text).contains(address(outside)), "{text} {outside}");
        }
        assert_eq!(network("10.1.2.3").to_string(), "10.1.2.3/32");
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in [
            "",
            "10.0.0.0/",
            "10.0.0.0/33",
            "10.0.0.1/8",
            "::/129",
            "10/8",
            "a",
            "10.0.0.0/-1",
            "::1/0",
            "::ffff:10.0.0.1",
        ] {
            assert_eq!(Network::parse(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back_and_holds_its_own(address: IpAddr) {
            let whole = Network::parse(&address.to_canonical().to_string()).expect("an address is one");
            prop_assert!(whole.contains(address));
            prop_assert_eq!(Network::parse(&whole.to_string()), Some(whole));
        }
    }
}
