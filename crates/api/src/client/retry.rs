//! When a request is sent again, and how long is waited before.
//!
//! Waits grow and are jittered, since a build farm whose jobs end together must not come back
//! together; a server that says `Retry-After` is believed, up to a bound.

use std::time::{Duration, SystemTime};

use reqwest::StatusCode;
use reqwest::header::{HeaderMap, RETRY_AFTER};

/// How often and how patiently a request is repeated.
#[derive(Clone, Copy, Debug)]
pub struct RetryPolicy {
    /// Requests at most, the first one included; at least 1.
    pub attempts_max: u32,
    /// The wait after the first failure; it doubles after each.
    pub wait_first: Duration,
    /// No wait is longer, whatever the server says.
    pub wait_max: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts_max: 5,
            wait_first: Duration::from_millis(500),
            wait_max: Duration::from_secs(30),
        }
    }
}

impl RetryPolicy {
    /// The wait after `failed` attempts, when another one is allowed. `fraction` is a random number
    /// from 0 to 1, `asked` the server's wish.
    pub(super) fn wait(
        &self,
        failed: u32,
        fraction: f64,
        asked: Option<Duration>,
    ) -> Option<Duration> {
        if failed >= self.attempts_max {
            return None;
        }
        let doublings = failed.saturating_sub(1).min(16);
        let full = self
            .wait_first
            .saturating_mul(1 << doublings)
            .min(self.wait_max);
        let jittered = full.mul_f64(0.5 + fraction.clamp(0.0, 1.0) / 2.0);
        Some(asked.map_or(jittered, |asked| asked.max(jittered).min(self.wait_max)))
    }
}

/// What it means to send a request again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repetition {
    /// Nothing: it asks, or what it does is done once however often it comes.
    Idempotent,
    /// It may count twice, so it is not sent again when the server may have done it and failed after.
    CountsAgain,
}

/// How a POST is waited for and repeated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// How long one attempt may take.
    pub(super) timeout: Duration,
    /// What it means to send it again.
    pub(super) repetition: Repetition,
}

impl Repetition {
    /// Whether a server that answers so may answer otherwise soon.
    pub(super) fn is_passing(self, status: StatusCode) -> bool {
        match status {
            StatusCode::REQUEST_TIMEOUT
            | StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => true,
            StatusCode::INTERNAL_SERVER_ERROR => self == Self::Idempotent,
            _ => false,
        }
    }
}

/// The wait that a server asks for: seconds or a date (RFC 9110 §10.2.3).
pub(super) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    httpdate::parse_http_date(text)
        .ok()?
        .duration_since(now)
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_bound_and_end_with_the_attempts() {
        let policy = RetryPolicy {
            attempts_max: 4,
            wait_first: Duration::from_secs(1),
            wait_max: Duration::from_secs(3),
        };
        let waits: Vec<_> = (1..=4)
            .map(|failed| policy.wait(failed, 1.0, None))
            .collect();
        let seconds = |n| Some(Duration::from_secs(n));
        assert_eq!(waits, [seconds(1), seconds(2), seconds(3), None]);
        assert_eq!(policy.wait(1, 0.0, None), Some(Duration::from_millis(500)));
    }

    #[test]
    fn the_servers_wish_counts_but_not_beyond_the_bound() {
        let policy = RetryPolicy::default();
        let asked = |n| policy.wait(1, 0.0, Some(Duration::from_secs(n)));
        assert_eq!(asked(7), Some(Duration::from_secs(7)));
        assert_eq!(asked(86_400), Some(policy.wait_max));
        assert_eq!(asked(0), Some(Duration::from_millis(250)));
    }

    #[test]
    fn a_mistake_of_the_server_is_only_repeated_where_nothing_counts_twice() {
        let passing = |repetition: Repetition| {
            let all = (100..600).filter_map(|code| StatusCode::from_u16(code).ok());
            let passing = all.filter(|status| repetition.is_passing(*status));
            passing.map(|status| status.as_u16()).collect::<Vec<_>>()
        };
        let always = [408, 429, 502, 503, 504];
        assert_eq!(passing(Repetition::CountsAgain), always);
        assert_eq!(
            passing(Repetition::Idempotent),
            [408, 429, 500, 502, 503, 504]
        );
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let parse = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, text.parse().unwrap());
            retry_after(&headers, now)
        };
        assert_eq!(parse("12"), Some(Duration::from_secs(12)));
        let date = httpdate::fmt_http_date(now + Duration::from_secs(90));
        assert_eq!(parse(&date), Some(Duration::from_secs(90)));
        assert_eq!(parse("soon"), None);
    }
}
