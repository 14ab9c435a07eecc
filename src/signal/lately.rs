//! Sums in which what is old counts less, for shares of what a service sent lately.
//!
//! Everything halves in twelve hours, so that a day is about what is looked at, and a binary that was
//! rolled out a quarter of an hour ago is more than 1 % of its service. Two numbers instead of a
//! series of buckets; sums of several replicas are the sum of their parts.

use serde::{Deserialize, Serialize};

/// After so long something counts half.
const HALF_LIFE_MILLIS: f64 = 12.0 * 3_600_000.0;

/// Addresses and weight that were sent lately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lately {
    addresses: f64,
    weight: f64,
    at_millis: u64,
    /// When the first of it was sent; 0 when that is not known, as in parts of older versions.
    #[serde(default)]
    since_millis: u64,
}

/// What one profile adds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Addresses, or 0 when only the weight is known.
    pub addresses: u64,
    /// How often they were seen.
    pub weight: u64,
}

impl Lately {
    /// Adds what was sent at a time, in milliseconds since 1970.
    pub fn add(&mut self, sent: Sent, at_millis: u64) {
        *self = self.merged(Self {
            addresses: number(sent.addresses),
            weight: number(sent.weight),
            at_millis,
            since_millis: at_millis,
        });
    }

    /// Both together.
    #[must_use]
    pub fn merged(self, other: Self) -> Self {
        let at_millis = self.at_millis.max(other.at_millis);
        let (one, two) = (self.faded(at_millis), other.faded(at_millis));
        Self {
            addresses: one.addresses + two.addresses,
            weight: one.weight + two.weight,
            at_millis,
            since_millis: match (self.since_millis, other.since_millis) {
                (0, since) | (since, 0) => since,
                (one, two) => one.min(two),
            },
        }
    }

    /// How much this is of `total`, from 0 to 1: of its addresses or of its weight, whichever is more.
    /// Of a total without either nothing is known, and it may be all.
    pub fn share_of(self, total: Self) -> f64 {
        let at_millis = self.at_millis.max(total.at_millis);
        let (own, total) = (self.faded(at_millis), total.faded(at_millis));
        let sums = [own.addresses, own.weight, total.addresses, total.weight];
        if sums.iter().all(|sum| *sum <= 0.0) {
            return 1.0;
        }
        let ratio = |own: f64, total: f64| if own > 0.0 { own / total.max(own) } else { 0.0 };
        ratio(own.addresses, total.addresses).max(ratio(own.weight, total.weight))
    }

    /// When something was added last, in milliseconds since 1970.
    pub(super) fn last(self) -> u64 {
        self.at_millis
    }

    /// When the first of it was sent, if that is known.
    pub(super) fn since(self) -> Option<u64> {
        Some(self.since_millis).filter(|since| *since > 0)
    }

    /// The same, as of a time that is no later than `latest`.
    pub(super) fn no_later_than(self, latest: u64) -> Self {
        Self {
            at_millis: self.at_millis.min(latest),
            since_millis: self.since_millis.min(latest),
            ..self
        }
    }

    fn faded(self, at_millis: u64) -> Self {
        let age = number(at_millis.saturating_sub(self.at_millis));
        let rest = (-age / HALF_LIFE_MILLIS).exp2();
        Self {
            addresses: self.addresses * rest,
            weight: self.weight * rest,
            at_millis,
            ..self
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "shares need a few digits, not sixteen"
)]
fn number(whole: u64) -> f64 {
    whole as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;

    fn sent(weight: u64, at_millis: u64) -> Lately {
        let mut lately = Lately::default();
        let addresses = 1;
        lately.add(Sent { addresses, weight }, at_millis);
        lately
    }

    #[test]
    fn a_share_stays_when_nothing_more_is_sent() {
        let (own, mut total) = (sent(25, 0), sent(25, 0));
        let addresses = 3;
        total.add(
            Sent {
                addresses,
                weight: 75,
            },
            0,
        );
        assert!((own.share_of(total) - 0.25).abs() < 1e-9);
    }

    #[test]
    fn what_is_old_counts_less() {
        let mut total = sent(1_000, 0);
        total.add(
            Sent {
                addresses: 0,
                weight: 1_000,
            },
            48 * HOUR,
        );
        let share = sent(1_000, 48 * HOUR).share_of(total);
        assert!(share > 0.9, "{share}");
    }

    #[test]
    fn a_total_that_was_lost_makes_the_share_whole() {
        assert!((sent(5, 9).share_of(Lately::default()) - 1.0).abs() < 1e-9);
        assert!(Lately::default().share_of(sent(5, 9)).abs() < 1e-9);
    }

    #[test]
    fn a_service_that_weighs_nothing_is_all_of_itself() {
        let nothing = Lately::default();
        assert!((nothing.share_of(nothing) - 1.0).abs() < 1e-9);
    }
}
