//! Who asks, as far as an upstream server is told: `X-Forwarded-For` and its limit.
//!
//! Servers may be each other's upstream. Each adds the address of whoever asked it, and none asks
//! further once the list has eight entries: so every loop ends, as among reference servers.

use std::net::{IpAddr, Ipv4Addr};

use super::super::located::LocateError;
use crate::queue::{ClientKey, FairQueue, Share};

/// Entries of `X-Forwarded-For` at which nobody is asked any more, the reference server's default.
const HOPS_MAX: usize = 8;

/// Longest entry that is passed on: an IPv6 address with brackets and a port fits.
const ENTRY_BYTES_MAX: usize = 64;

/// Who asks for a file.
#[derive(Clone, Debug, Default)]
pub struct Asker {
    /// The entries that the question came with.
    hops: usize,
    /// Those of them that are passed on, each with a comma behind it.
    before: String,
    /// Who asks this server; `None` when it asks by itself.
    client: Option<IpAddr>,
    /// Where it waits for its turn before a server is asked, and as whom.
    turns: Option<(FairQueue, ClientKey)>,
}

impl PartialEq for Asker {
    fn eq(&self, other: &Self) -> bool {
        self.hops == other.hops && self.forwarded_for() == other.forwarded_for()
    }
}

impl Asker {
    /// A client at `address` whose request had these values of `X-Forwarded-For`.
    pub fn client<'a>(address: IpAddr, forwarded_for: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let lines = forwarded_for.into_iter();
        let entries = lines.flat_map(|line| line.split(|byte| *byte == b','));
        let entries = entries.map(<[u8]>::trim_ascii);
        let mut hops = 0;
        let mut text = String::new();
        for entry in entries.filter(|entry| !entry.is_empty()) {
            hops += 1;
            // Behind the limit nothing is passed on.
            if hops < HOPS_MAX {
                text.push_str(shown(entry));
                text.push_str(", ");
            }
        }
        Self {
            hops,
            before: text,
            client: Some(address.to_canonical()),
            turns: None,
        }
    }

    /// A client whose address is not known.
    pub fn nobody() -> Self {
        Self::client(IpAddr::V4(Ipv4Addr::UNSPECIFIED), [])
    }

    /// The same, that waits for its turn before a server is asked.
    #[must_use]
    pub fn in_turn(mut self, queue: FairQueue, client: ClientKey) -> Self {
        self.turns = Some((queue, client));
        self
    }

    /// The right to have a server asked, once it is its turn.
    pub(super) async fn turn(&self) -> Result<Option<Share>, LocateError> {
        let Some((queue, client)) = &self.turns else {
            return Ok(None);
        };
        let share = queue.take(*client, 1, None).await;
        let busy = |error| LocateError::Upstream {
            detail: format!("no turn to ask them: {error}"),
        };
        share.map(Some).map_err(busy)
    }

    /// This server itself, on behalf of a batch.
    pub fn this_server() -> Self {
        Self::default()
    }

    /// How many servers and proxies the question has come through.
    pub(super) fn hops(&self) -> usize {
        self.hops
    }

    /// Whether it has come through too many to be asked any further.
    pub(super) fn is_at_the_limit(&self) -> bool {
        self.hops >= HOPS_MAX
    }

    /// The `X-Forwarded-For` that an upstream server gets.
    pub(super) fn forwarded_for(&self) -> Option<String> {
        let client = self.client?;
        Some(format!("{}{client}", self.before))
    }
}

/// An entry as it may be passed on, `unknown` (RFC 7239 §6.2) for what is none.
fn shown(entry: &[u8]) -> &str {
    let is_sound = entry.len() <= ENTRY_BYTES_MAX && entry.iter().all(u8::is_ascii_graphic);
    let text = std::str::from_utf8(entry).ok().filter(|_| is_sound);
    text.unwrap_or("unknown")
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 9));

    #[test]
    fn the_client_is_added_to_whom_it_asks_for() {
        let direct = Asker::client(CLIENT, []);
        assert_eq!(direct.forwarded_for().as_deref(), Some("192.0.2.9"));
        let mapped = Asker::client("::ffff:192.0.2.9".parse().unwrap(), []);
        assert_eq!(mapped, direct);
        let lines: [&[u8]; 2] = [b"198.51.100.1, 2001:db8::1", b" unknown "];
        let behind = Asker::client(CLIENT, lines);
        assert_eq!(behind.hops(), 3);
        assert_eq!(
            behind.forwarded_for().as_deref(),
            Some("198.51.100.1, 2001:db8::1, unknown, 192.0.2.9")
        );
        assert_eq!(Asker::this_server().forwarded_for(), None);
    }

    #[test]
    fn eight_entries_are_the_limit() {
        let seven: &[u8] = b"1,2,3,4,5,6,7";
        assert!(!Asker::client(CLIENT, [seven]).is_at_the_limit());
        assert!(Asker::client(CLIENT, [seven, b"8"]).is_at_the_limit());
        assert!(Asker::client(CLIENT, [b"1,".repeat(100_000).as_slice()]).is_at_the_limit());
    }

    #[test]
    fn what_no_header_can_carry_is_not_passed_on() {
        let long = [b'a'; 65];
        let lines: [&[u8]; 3] = [b"a b", &long, b"\xff,\x01"];
        let asker = Asker::client(CLIENT, lines);
        let expected = "unknown, unknown, unknown, unknown, 192.0.2.9";
        assert_eq!(asker.forwarded_for().as_deref(), Some(expected));
    }
}
