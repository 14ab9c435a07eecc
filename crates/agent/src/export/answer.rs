//! What a receiver's answer means for the batch that it was sent.

use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use unhex_pprof::otlp::{PartialSuccess, partial_success};

use crate::metrics::RetryReason;

/// The longest wait that a receiver may ask for: the queue would be full behind it.
const RETRY_AFTER_SECONDS_MAX: u64 = 300;

/// What is to be done with a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It was taken.
    Delivered,
    /// It was taken but for some profiles, for this reason.
    Partial(PartialSuccess),
    /// It is to be sent again, not before this time has passed.
    Again(RetryReason, Option<Duration>),
    /// Sending it again is of no use.
    Refused,
}

/// What an answer means (OTLP specification, "OTLP/HTTP Response": 429, 502, 503 and 504 are repeated and nothing else; here 408, too, which
/// says that the body did not come).
pub(super) fn verdict(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Verdict {
    let again = |reason| Verdict::Again(reason, retry_after(headers));
    match status {
        StatusCode::REQUEST_TIMEOUT => again(RetryReason::Timeout),
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => again(RetryReason::Busy),
        StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT => again(RetryReason::BadGateway),
        status if status.is_success() => {
            // An answer that cannot be read says nothing against the batch.
            let partial = partial_success(body).ok().flatten();
            partial.map_or(Verdict::Delivered, Verdict::Partial)
        }
        _ => Verdict::Refused,
    }
}

/// The seconds that a receiver asks for; a date is left to the agent's own pauses.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?;
    let seconds: u64 = text.trim().parse().ok()?;
    Some(Duration::from_secs(seconds.min(RETRY_AFTER_SECONDS_MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_pass_is_repeated_and_nothing_else() {
        let headers = HeaderMap::new();
        for status in 200..=599 {
            let status = StatusCode::from_u16(status).unwrap();
            let is_again = matches!(verdict(status, &headers, b""), Verdict::Again(..));
            let expected = [408, 429, 502, 503, 504].contains(&status.as_u16());
            assert_eq!(is_again, expected, "{status}");
            let is_delivered = verdict(status, &headers, b"") == Verdict::Delivered;
            assert_eq!(is_delivered, status.is_success(), "{status}");
        }
    }

    #[test]
    fn the_wait_that_a_receiver_asks_for_is_bounded() {
        for (text, expected) in [
            ("7", Some(7)),
            ("100000", Some(RETRY_AFTER_SECONDS_MAX)),
            ("Fri, 31 Dec 1999 23:59:59 GMT", None),
            ("-1", None),
        ] {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, text.parse().unwrap())]);
            let found = verdict(StatusCode::SERVICE_UNAVAILABLE, &headers, b"");
            let wait = expected.map(Duration::from_secs);
            assert_eq!(found, Verdict::Again(RetryReason::Busy, wait), "{text}");
        }
    }
}
