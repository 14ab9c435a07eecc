//! Where a redirect may lead: public addresses only, unless more is allowed.
//!
//! An upstream server may not make this one ask what only this one can reach: a cloud's metadata
//! service, a database on loopback, a router. Names are judged by what they resolve to, in the same
//! look-up that the connection uses, so that no second answer of a name server can differ.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Whether an address is of the public Internet.
///
/// Addresses of IPv4 within IPv6 (mapped, NAT64, 6to4) are judged as what they lead to.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    // This network, shared address space (RFC 6598), protocol assignments, benchmarks (RFC 2544);
    // multicast and all behind it.
    let special = matches!(
        (a, b, c),
        (0 | 224.., ..) | (100, 64..=127, _) | (192, 0, 0) | (198, 18 | 19, _)
    );
    !(special
        || address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_documentation())
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, c, ..] = address.segments();
    let within = |high: u16, low: u16| {
        let ([h1, h2], [l1, l2]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(h1, h2, l1, l2))
    };
    match (a, b) {
        // NAT64 (RFC 6052) ends in an IPv4 address; 6to4 (RFC 3056) has one behind its prefix.
        (0x64, 0xff9b) => {
            let [.., high, low] = address.segments();
            within(high, low)
        }
        (0x2002, _) => within(b, c),
        // Teredo, and documentation.
        (0x2001, 0 | 0xdb8) => false,
        // Only 2000::/3 is given out: ULA, link-local, multicast, loopback lie outside.
        _ => a & 0xe000 == 0x2000,
    }
}

/// Resolves names to public addresses only.
#[derive(Debug)]
pub(super) struct PublicOnly;

/// A name that leads nowhere else.
#[derive(Debug, thiserror::Error)]
#[error("{0} has no public address")]
struct NoPublicAddress(String);

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let public: Vec<SocketAddr> = found.filter(|at| is_public(at.ip())).collect();
            if public.is_empty() {
                return Err(NoPublicAddress(name.as_str().to_owned()).into());
            }
            let addresses: Addrs = Box::new(public.into_iter());
            Ok(addresses)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_public_internet_are_public() {
        for public in [
            "1.1.1.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "100.128.0.1",
            "2606:4700::1111",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "2002:808:808::1",
        ] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
        for other in [
            "127.0.0.1",
            "127.9.9.9",
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "192.0.0.8",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "fc00::1",
            "fd12::1",
            "ff02::1",
            "2001:db8::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "2002:7f00:1::1",
            "2002:a00:1::1",
        ] {
            assert!(!is_public(other.parse().unwrap()), "{other}");
        }
    }

    #[tokio::test]
    async fn a_name_of_this_machine_has_no_public_address() {
        let found = PublicOnly.resolve("localhost".parse().unwrap()).await;
        let said = found.map(|_| ()).unwrap_err().to_string();
        assert_eq!(said, "localhost has no public address");
    }
}
