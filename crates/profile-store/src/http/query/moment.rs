//! Times as people write them: RFC 3339, seconds since 1970, or so long before now.

use jiff::{SignedDuration, Timestamp};

/// Characters of a time; RFC 3339 with nanoseconds has 35.
const MOMENT_BYTES_MAX: usize = 64;

/// The moment that a text names; `None` if it names none.
pub(super) fn moment(text: &str, now: Timestamp) -> Option<Timestamp> {
    let text = text.trim();
    if text.len() > MOMENT_BYTES_MAX {
        return None;
    }
    if let Some(before) = text
        .strip_prefix("now")
        .or(text.starts_with('-').then_some(text))
    {
        let before = match before {
            "" => SignedDuration::ZERO,
            before => span(before.strip_prefix('-')?)?,
        };
        return now.checked_sub(before).ok();
    }
    let is_number = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    if is_number {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let seconds: i64 = whole.parse().ok()?;
        // Rows have no more than microseconds.
        let micros: String = fraction.chars().chain("000000".chars()).take(6).collect();
        let micros: i64 = micros.parse().ok()?;
        let all = seconds.checked_mul(1_000_000)?.checked_add(micros)?;
        return Timestamp::from_microsecond(all).ok();
    }
    text.parse().ok()
}

/// How long a text like `90m` is: seconds, minutes, hours, days and weeks.
pub(super) fn span(text: &str) -> Option<SignedDuration> {
    let unit = text.chars().next_back()?;
    let (digits, seconds) = match unit {
        's' => (text.strip_suffix('s')?, 1),
        'm' => (text.strip_suffix('m')?, 60),
        'h' => (text.strip_suffix('h')?, 3_600),
        'd' => (text.strip_suffix('d')?, 86_400),
        'w' => (text.strip_suffix('w')?, 604_800),
        _ => (text, 1),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let count: i64 = digits.parse().ok()?;
    Some(SignedDuration::from_secs(count.checked_mul(seconds)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_date_a_number_or_so_long_before_now() {
        let now: Timestamp = "2026-12-01T12:00:00Z".parse().unwrap();
        let read = |text: &str| moment(text, now).map(|time| time.to_string());
        let noon = Some("2026-12-01T12:00:00Z".to_owned());
        assert_eq!(read("2026-12-01T13:00:00+01:00"), noon);
        assert_eq!(read("1796126400"), noon);
        assert_eq!(
            read("1796126400.5"),
            Some("2026-12-01T12:00:00.5Z".to_owned())
        );
        assert_eq!(read("now"), noon);
        assert_eq!(read("-90m"), Some("2026-12-01T10:30:00Z".to_owned()));
        assert_eq!(read("now-2d"), Some("2026-11-29T12:00:00Z".to_owned()));
        for wrong in [
            "",
            "yesterday",
            "now+1h",
            "-",
            "-1y",
            "1.2.3",
            "12:00",
            "-99999999999999w",
            "9999999999999999",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
