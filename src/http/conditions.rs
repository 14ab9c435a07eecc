//! Which part of a file a GET gets: all, a range, or nothing new (RFC 9110 §13 and §14).

use std::ops::Range;
use std::time::SystemTime;

use http::HeaderMap;
use http::header::{self, HeaderName};
use httpdate::parse_http_date;

/// What the conditions compare with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Validators<'a> {
    /// The strong entity tag, with its quotes.
    pub(super) etag: &'a str,
    /// In whole seconds.
    pub(super) modified: SystemTime,
    /// The length of the whole.
    pub(super) size_bytes: u64,
}

/// What is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// 200: all of it.
    Whole,
    /// 206: these bytes of it.
    Range(Range<u64>),
    /// 304: the client has it.
    NotModified,
    /// 416: no byte of the range exists.
    Unsatisfiable,
}

impl Validators<'_> {
    /// Whether the client has it already. `If-Modified-Since` counts only without `If-None-Match`.
    pub(super) fn not_modified(&self, headers: &HeaderMap) -> bool {
        if headers.contains_key(header::IF_NONE_MATCH) {
            return headers
                .get_all(header::IF_NONE_MATCH)
                .iter()
                .filter_map(|value| value.to_str().ok())
                .flat_map(|value| value.split(','))
                .map(str::trim)
                .any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == self.etag);
        }
        date(headers, &header::IF_MODIFIED_SINCE).is_some_and(|since| self.modified <= since)
    }

    /// The part that a GET with these headers gets. Several ranges at once get the whole, which
    /// the RFC allows and no client of ours asks for.
    pub(super) fn part(&self, headers: &HeaderMap) -> Part {
        if self.not_modified(headers) {
            return Part::NotModified;
        }
        let Some(range) = text(headers, &header::RANGE) else {
            return Part::Whole;
        };
        if self.if_range_holds(headers) {
            range_of(range, self.size_bytes)
        } else {
            Part::Whole
        }
    }

    /// Whether the range is of the file that the client means: a strong tag or the exact date.
    fn if_range_holds(&self, headers: &HeaderMap) -> bool {
        match text(headers, &header::IF_RANGE) {
            None => !headers.contains_key(header::IF_RANGE),
            Some(tag) if tag.contains('"') => tag == self.etag,
            Some(date) => parse_http_date(date).is_ok_and(|date| date == self.modified),
        }
    }
}

/// The part that a `Range` header means; one that is not understood means the whole.
fn range_of(range: &str, size_bytes: u64) -> Part {
    let Some((first, last)) = range
        .strip_prefix("bytes=")
        .and_then(|spec| spec.trim().split_once('-'))
    else {
        return Part::Whole;
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(first) || !digits(last) {
        return Part::Whole;
    }
    // Digits only: what does not fit is larger than any file.
    let number = |text: &str| text.parse::<u64>().unwrap_or(u64::MAX);
    let range = match (first, last) {
        ("", "") => return Part::Whole,
        ("", suffix) => size_bytes.saturating_sub(number(suffix))..size_bytes,
        (first, "") => number(first)..size_bytes,
        (first, last) if number(last) < number(first) => return Part::Whole,
        (first, last) => number(first)..number(last).saturating_add(1).min(size_bytes),
    };
    if range.is_empty() {
        Part::Unsatisfiable
    } else {
        Part::Range(range)
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

fn date(headers: &HeaderMap, name: &HeaderName) -> Option<SystemTime> {
    parse_http_date(text(headers, name)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    fn part(pairs: &[(&'static str, &str)]) -> Part {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let validators = Validators {
            etag: "\"tag\"",
            modified,
            size_bytes: 10,
        };
        validators.part(&headers)
    }

    #[test]
    fn single_ranges_are_cut_to_the_file() {
        for (range, expected) in [
            ("bytes=0-0", Part::Range(0..1)),
            ("bytes=2-4", Part::Range(2..5)),
            ("bytes=5-", Part::Range(5..10)),
            ("bytes=5-99", Part::Range(5..10)),
            ("bytes=-3", Part::Range(7..10)),
            ("bytes=-99", Part::Range(0..10)),
            ("bytes=0-18446744073709551615", Part::Range(0..10)),
            ("bytes=10-", Part::Unsatisfiable),
            ("bytes=99999999999999999999999-", Part::Unsatisfiable),
            ("bytes=-0", Part::Unsatisfiable),
        ] {
            assert_eq!(part(&[("range", range)]), expected, "{range}");
        }
    }

    #[test]
    fn a_range_that_is_not_understood_gets_the_whole() {
        for range in [
            "bytes=4-2",
            "bytes=-",
            "bytes=a-b",
            "lines=1-2",
            "bytes=0-1,3-4",
            "bytes=+1-2",
        ] {
            assert_eq!(part(&[("range", range)]), Part::Whole, "{range}");
        }
    }

    #[test]
    fn a_range_of_another_version_gets_the_whole() {
        let range = ("range", "bytes=2-4");
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        assert_eq!(part(&[range, ("if-range", "\"tag\"")]), Part::Range(2..5));
        assert_eq!(part(&[range, ("if-range", date)]), Part::Range(2..5));
        for other in [
            "\"other\"",
            "W/\"tag\"",
            "Sun, 06 Nov 1994 08:49:38 GMT",
            "nonsense",
        ] {
            assert_eq!(part(&[range, ("if-range", other)]), Part::Whole, "{other}");
        }
    }

    #[test]
    fn a_client_that_has_it_gets_nothing_new() {
        for tags in ["\"tag\"", "W/\"tag\"", "\"a\", \"tag\"", "*"] {
            assert_eq!(
                part(&[("if-none-match", tags)]),
                Part::NotModified,
                "{tags}"
            );
        }
        let later = ("if-modified-since", "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(part(&[later]), Part::NotModified);
        assert_eq!(part(&[later, ("if-none-match", "\"other\"")]), Part::Whole);
        let earlier = ("if-modified-since", "Sun, 06 Nov 1994 08:49:36 GMT");
        assert_eq!(part(&[earlier]), Part::Whole);
    }

    proptest! {
        #[test]
        fn a_range_is_never_outside_the_file(text in "bytes=[0-9]{0,22}-[0-9]{0,22}", size in any::<u64>()) {
            if let Part::Range(range) = range_of(&text, size) {
                prop_assert!(range.start < range.end && range.end <= size);
            }
        }
    }
}
