//! Which proxies are believed when they say for whom they ask.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use serde::Deserialize;

/// The proxies that may say for whom they ask.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedProxies(pub Vec<AddressRange>);

impl TrustedProxies {
    /// Whether the one at `address` is believed.
    pub fn contain(&self, address: IpAddr) -> bool {
        self.0.iter().any(|range| range.contains(address))
    }
}

/// Addresses that begin with the same bits: `10.0.0.0/8`, `2001:db8::/32`, or one address alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct AddressRange {
    first: IpAddr,
    prefix_bits: u32,
}

/// A text that is no [`AddressRange`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no address or range of addresses, such as 10.0.0.0/8 or ::1")]
pub struct ParseAddressRangeError(String);

impl AddressRange {
    /// Whether an address is in it; IPv4 addresses that are written as IPv6 count as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let shift = bits(address).saturating_sub(self.prefix_bits);
        let head = |address| number(address).checked_shr(shift).unwrap_or_default();
        address.is_ipv4() == self.first.is_ipv4() && head(address) == head(self.first)
    }
}

fn bits(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

impl FromStr for AddressRange {
    type Err = ParseAddressRangeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || ParseAddressRangeError(text.to_owned());
        let (first, prefix_bits) = match text.trim().split_once('/') {
            Some((first, bits)) => (first, Some(bits)),
            None => (text.trim(), None),
        };
        let first: IpAddr = first.parse().ok().ok_or_else(refused)?;
        let bits_max = bits(first);
        let prefix_bits = match prefix_bits {
            None => bits_max,
            Some(bits) => bits.parse().ok().ok_or_else(refused)?,
        };
        let is_number = text
            .rsplit('/')
            .next()
            .is_some_and(|bits| !bits.starts_with('+'));
        if prefix_bits > bits_max || !is_number {
            return Err(refused());
        }
        // Requests come with IPv4 addresses as such, however the socket writes them.
        let range = match first {
            IpAddr::V6(address) if is_mapped(address) && prefix_bits >= 96 => Self {
                first: first.to_canonical(),
                prefix_bits: prefix_bits.saturating_sub(96),
            },
            first => Self { first, prefix_bits },
        };
        Ok(range)
    }
}

fn is_mapped(address: Ipv6Addr) -> bool {
    address.to_ipv4_mapped().is_some()
}

impl TryFrom<String> for AddressRange {
    type Error = ParseAddressRangeError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.prefix_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(range: &str, address: &str) -> bool {
        let range: AddressRange = range.parse().unwrap();
        assert_eq!(range.to_string().parse(), Ok(range));
        range.contains(address.parse().unwrap())
    }

    #[test]
    fn a_range_holds_the_addresses_with_its_first_bits() {
        for (range, address) in [
            ("10.0.0.0/8", "10.255.0.1"),
            ("10.1.2.3", "10.1.2.3"),
            ("0.0.0.0/0", "203.0.113.9"),
            ("10.0.0.0/8", "::ffff:10.0.0.1"),
            ("::ffff:10.0.0.0/104", "10.9.9.9"),
            ("2001:db8::/32", "2001:db8:1::2"),
            ("::/0", "::1"),
            ("::1", "::1"),
        ] {
            assert!(holds(range, address), "{address} in {range}");
        }
        for (range, address) in [
            ("10.0.0.0/8", "11.0.0.1"),
            ("10.1.2.3", "10.1.2.4"),
            ("0.0.0.0/0", "::1"),
            ("::/0", "10.0.0.1"),
            ("2001:db8::/32", "2001:db9::"),
        ] {
            assert!(!holds(range, address), "{address} in {range}");
        }
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for text in [
            "",
            "proxy.example.org",
            "10.0.0.0/33",
            "::/129",
            "10.0.0.0/",
            "10.0.0.0/-1",
            "10.0.0.0/+1",
            "10.0.0.0/8/8",
            "10.0.0.1:80",
        ] {
            assert!(text.parse::<AddressRange>().is_err(), "{text:?}");
        }
    }
}
