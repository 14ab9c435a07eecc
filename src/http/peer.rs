//! Who asks, and whether a proxy stands between.
//!
//! A proxy that is trusted says in `X-Forwarded-For` for whom it asks: then that is the client in the
//! log, in records and in queues, and the proxy is no hop. What others say there is only passed on.
//! Whether anybody stands between decides how a client learns that nothing is known: a proxy turns
//! a reset into a status, and clients remember every status.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use axum::extract::Request;
use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, Version};

use crate::artifacts::Asker;
use crate::config::TrustedProxies;
use crate::queue::ClientKey;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Who makes a request, as an extension of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    ip: IpAddr,
    /// Of its socket; `None` behind a proxy, which does not say it.
    port: Option<u16>,
    /// The entries of `X-Forwarded-For` that name those for whom this client asks in turn.
    hops: usize,
    connection: Connection,
}

/// What a request came over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Connection {
    /// The client's own, over HTTP/1.1, as far as anybody can tell.
    Direct,
    /// One that has other requests on it, or that of a proxy.
    Shared,
}

impl Peer {
    /// Who sends `request` from `socket`.
    pub(super) fn of<B>(
        socket: SocketAddr,
        request: &Request<B>,
        trusted: &TrustedProxies,
    ) -> Self {
        let headers = request.headers();
        let ip = socket.ip().to_canonical();
        let is_proxy = trusted.contain(ip);
        // Proxies speak HTTP/1.0 by default, debuginfod clients never do.
        let is_direct = request.version() == Version::HTTP_11
            && !is_proxy
            && ![X_FORWARDED_FOR, header::FORWARDED, header::VIA]
                .iter()
                .any(|name| headers.contains_key(name));
        let hops = entries(headers).count();
        let mut peer = Self {
            ip,
            port: Some(socket.port()),
            hops,
            connection: if is_direct {
                Connection::Direct
            } else {
                Connection::Shared
            },
        };
        let mut said = entries(headers).rev();
        while trusted.contain(peer.ip)
            && let Some(address) = said.next().and_then(address_in)
        {
            peer.ip = address;
            peer.port = None;
            peer.hops = peer.hops.saturating_sub(1);
        }
        peer
    }

    /// Its address.
    pub fn ip(&self) -> IpAddr {
        self.ip
    }

    pub(super) fn connection(&self) -> Connection {
        self.connection
    }

    /// Whose turn it is in a queue.
    pub(super) fn key(&self) -> ClientKey {
        ClientKey::of(self.ip)
    }

    /// Whom an upstream server is told of.
    pub(super) fn asker(&self, headers: &HeaderMap) -> Asker {
        Asker::client(self.ip, entries(headers).take(self.hops))
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => SocketAddr::new(self.ip, port).fmt(f),
            None => self.ip.fmt(f),
        }
    }
}

/// The entries of `X-Forwarded-For`, the first proxy's first.
fn entries(headers: &HeaderMap) -> impl DoubleEndedIterator<Item = &[u8]> {
    let lines = headers.get_all(X_FORWARDED_FOR).into_iter();
    lines
        .map(HeaderValue::as_bytes)
        .flat_map(|line| line.split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
        .filter(|entry| !entry.is_empty())
}

/// The address in an entry, which some proxies write with a port.
fn address_in(entry: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(entry).ok()?;
    let in_brackets = || text.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    let with_port = || text.parse::<SocketAddr>().ok().map(|socket| socket.ip());
    let address = text.parse().ok().or_else(with_port).or_else(in_brackets);
    address.map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(socket: &str, headers: &[(&str, &str)]) -> Peer {
        let trusted = ["10.0.0.0/8", "::1"].map(|range| range.parse().unwrap());
        let mut request = Request::builder();
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(()).unwrap();
        let trusted = TrustedProxies(trusted.to_vec());
        Peer::of(socket.parse().unwrap(), &request, &trusted)
    }

    fn seen(socket: &str, forwarded_for: &str) -> (String, usize) {
        let peer = peer(socket, &[("x-forwarded-for", forwarded_for)]);
        assert_eq!(peer.connection(), Connection::Shared);
        (peer.to_string(), peer.hops)
    }

    #[test]
    fn the_client_is_the_last_that_no_trusted_proxy_is() {
        let seen = |socket, entries| seen(socket, entries);
        let is = |client: &str, hops| (client.to_owned(), hops);
        assert_eq!(seen("10.0.0.1:9", "192.0.2.7"), is("192.0.2.7", 0));
        assert_eq!(
            seen("10.0.0.1:9", "192.0.2.7, 10.0.0.2"),
            is("192.0.2.7", 0)
        );
        assert_eq!(seen("10.0.0.1:9", "x, 192.0.2.7:80"), is("192.0.2.7", 1));
        assert_eq!(seen("[::1]:9", "[2001:db8::1]"), is("2001:db8::1", 0));
        // All of them are trusted: the farthest is the client.
        assert_eq!(seen("10.0.0.1:9", "10.0.0.3, 10.0.0.2"), is("10.0.0.3", 0));
    }

    #[test]
    fn what_others_say_is_passed_on_and_not_believed() {
        let is = |client: &str, hops| (client.to_owned(), hops);
        assert_eq!(seen("192.0.2.1:9", "10.0.0.1"), is("192.0.2.1:9", 1));
        // Whoever a trusted proxy cannot name is one more entry, and the proxy asks.
        assert_eq!(seen("10.0.0.1:9", "1.2.3.4, unknown"), is("10.0.0.1:9", 2));
        assert_eq!(
            seen("10.0.0.1:9", "198.51.100.1, 192.0.2.7, 10.0.0.2"),
            is("192.0.2.7", 1)
        );
    }

    #[test]
    fn a_trusted_proxy_is_no_entry_in_what_an_upstream_server_gets() {
        let headers = [("x-forwarded-for", "1.1.1.1, 192.0.2.7,10.0.0.2")];
        let peer = peer("10.0.0.1:9", &headers);
        let mut map = HeaderMap::new();
        map.insert(X_FORWARDED_FOR, headers[0].1.parse().unwrap());
        let expected = Asker::client("192.0.2.7".parse().unwrap(), [b"1.1.1.1".as_slice()]);
        assert_eq!(peer.asker(&map), expected);
    }

    #[test]
    fn a_connection_is_direct_when_nothing_speaks_of_a_proxy() {
        let connection = |socket, headers: &[_]| peer(socket, headers).connection();
        assert_eq!(connection("192.0.2.1:9", &[]), Connection::Direct);
        assert_eq!(connection("10.0.0.1:9", &[]), Connection::Shared);
        for header in ["via", "forwarded", "x-forwarded-for"] {
            let headers = [(header, "1.1 proxy")];
            assert_eq!(connection("192.0.2.1:9", &headers), Connection::Shared);
        }
        for version in [Version::HTTP_10, Version::HTTP_2] {
            let request = Request::builder().version(version).body(()).unwrap();
            let trusted = TrustedProxies::default();
            let peer = Peer::of("192.0.2.1:9".parse().unwrap(), &request, &trusted);
            assert_eq!(peer.connection(), Connection::Shared, "{version:?}");
        }
    }
}
