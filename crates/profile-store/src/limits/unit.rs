//! The units of limits: how a size, a time or a number is written, and what it is to the program.

use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;

/// How a limit is written and what it is to the program.
pub trait Unit: Sized {
    /// What the program works with.
    type Value;
    /// What stands for the value in `--help`.
    const PLACEHOLDER: &'static str;

    /// The value of a plain number in the unit's base.
    fn value(number: u64) -> Self::Value;

    /// The number as documentation shows it.
    fn show(number: u64) -> String;
}

/// A setting that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseLimitError {
    /// No number at the start, or one beyond 2^64-1.
    #[error("{0:?} is no whole number with an optional unit")]
    NotANumber(String),
    /// A unit that is not known.
    #[error("unknown unit {unit:?}: known are {known}")]
    UnknownUnit {
        /// What was found behind the number.
        unit: String,
        /// What may stand there.
        known: &'static str,
    },
    /// A number beyond what the unit can be.
    #[error("{number} is more than {max}, the most that can be set")]
    TooLarge {
        /// The number in the unit's base.
        number: u64,
        /// The most that can be set.
        max: u64,
    },
}

/// Longest time that can be set, 100 years: clocks cannot be moved by 2^64 seconds.
const SECONDS_MAX: u64 = 100 * 366 * 24 * 3600;
/// Longest window: whoever sends profiles waits so long for each answer.
const MILLIS_MAX: u64 = 1_000;
/// Longest retention, 100 years.
const DAYS_MAX: u64 = 36_500;

/// Splits `text` into its number and its unit, and multiplies.
fn parse_scaled(
    text: &str,
    scales: &[(&str, u64)],
    known: &'static str,
) -> Result<u64, ParseLimitError> {
    let text = text.trim();
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let digits = text.strip_suffix(unit).unwrap_or_default();
    let not_a_number = || ParseLimitError::NotANumber(text.to_owned());
    let number = digits.parse::<u64>().ok().ok_or_else(not_a_number)?;
    let unit = unit.trim();
    let scale = scales
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(unit))
        .ok_or_else(|| ParseLimitError::UnknownUnit {
            unit: unit.to_owned(),
            known,
        })?;
    number.checked_mul(scale.1).ok_or_else(not_a_number)
}

fn within(number: u64, max: u64) -> Result<u64, ParseLimitError> {
    if number > max {
        return Err(ParseLimitError::TooLarge { number, max });
    }
    Ok(number)
}

/// A number, or a text with a unit, as `unhex-store.toml` may have it.
#[derive(Deserialize)]
#[serde(untagged)]
enum NumberOrText {
    Number(u64),
    Text(String),
}

macro_rules! unit {
    ($(#[$meta:meta])* $name:ident, $scales:expr, $known:literal, $max:expr) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
        #[serde(try_from = "NumberOrText")]
        pub struct $name(pub(super) u64);

        impl FromStr for $name {
            type Err = ParseLimitError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::within(parse_scaled(text, $scales, $known)?)
            }
        }

        impl $name {
            fn within(number: u64) -> Result<Self, ParseLimitError> {
                within(number, $max).map(Self)
            }
        }

        impl TryFrom<NumberOrText> for $name {
            type Error = ParseLimitError;

            fn try_from(value: NumberOrText) -> Result<Self, Self::Error> {
                match value {
                    NumberOrText::Number(number) => Self::within(number),
                    NumberOrText::Text(text) => text.parse(),
                }
            }
        }
    };
}

unit!(
    /// A size: `512`, `64KiB`, `8GiB`.
    Bytes,
    &[("", 1), ("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)],
    "B, KiB, MiB, GiB, TiB",
    u64::MAX
);
unit!(
    /// A time: `30`, `30s`, `10m`, `1h`, `7d`.
    Seconds,
    &[("", 1), ("s", 1), ("m", 60), ("min", 60), ("h", 3600), ("d", 86_400), ("w", 604_800)],
    "s, m, h, d, w",
    SECONDS_MAX
);
unit!(
    /// A short time: `500`, `500ms`, `1s`.
    Millis,
    &[("", 1), ("ms", 1), ("s", 1_000)],
    "ms, s",
    MILLIS_MAX
);
unit!(
    /// A time in days: `21`, `21d`, `3w`.
    Days,
    &[("", 1), ("d", 1), ("w", 7)],
    "d, w",
    DAYS_MAX
);
unit!(
    /// A plain number.
    Count, &[("", 1)], "none", u64::MAX
);

impl Unit for Bytes {
    type Value = u64;
    const PLACEHOLDER: &'static str = "SIZE";

    fn value(number: u64) -> u64 {
        number
    }

    fn show(number: u64) -> String {
        [
            (1 << 40, "TiB"),
            (1 << 30, "GiB"),
            (1 << 20, "MiB"),
            (1 << 10, "KiB"),
        ]
        .into_iter()
        .find(|(scale, _)| number >= *scale && number.is_multiple_of(*scale))
        .map_or_else(
            || format!("{number} B"),
            |(scale, unit)| format!("{} {unit}", number / scale),
        )
    }
}

impl Unit for Seconds {
    type Value = Duration;
    const PLACEHOLDER: &'static str = "TIME";

    fn value(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    fn show(number: u64) -> String {
        format!("{number} s")
    }
}

impl Unit for Millis {
    type Value = Duration;
    const PLACEHOLDER: &'static str = "TIME";

    fn value(number: u64) -> Duration {
        Duration::from_millis(number)
    }

    fn show(number: u64) -> String {
        format!("{number} ms")
    }
}

impl Days {
    /// How many there are.
    pub fn number(self) -> u32 {
        u32::try_from(self.0).unwrap_or(u32::MAX)
    }
}

impl Seconds {
    /// The time that was set.
    pub fn duration(self) -> Duration {
        Self::value(self.0)
    }
}

impl Unit for Count {
    type Value = usize;
    const PLACEHOLDER: &'static str = "N";

    fn value(number: u64) -> usize {
        usize::try_from(number).unwrap_or(usize::MAX)
    }

    fn show(number: u64) -> String {
        number.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_read_with_their_units() {
        assert_eq!("8GiB".parse(), Ok(Bytes(8 << 30)));
        assert_eq!("512".parse(), Ok(Bytes(512)));
        assert_eq!("10 m".parse(), Ok(Seconds(600)));
        assert_eq!("7".parse(), Ok(Count(7)));
        assert_eq!("3w".parse(), Ok(Days(21)));
        assert_eq!("1s".parse(), Ok(Millis(1_000)));
    }

    #[test]
    fn nonsense_is_refused_with_the_known_units() {
        for text in ["", "GiB", "-1", "18446744073709551616", "99999999TiB"] {
            assert!(text.parse::<Bytes>().is_err(), "{text:?}");
        }
        let error = "3 parsecs".parse::<Seconds>().unwrap_err().to_string();
        assert_eq!(error, "unknown unit \"parsecs\": known are s, m, h, d, w");
    }

    #[test]
    fn a_time_that_no_clock_can_be_moved_by_is_refused() {
        assert_eq!("876000h".parse(), Ok(Seconds(876_000 * 3600)));
        for text in ["18446744073709551615", "5124095576030431h"] {
            let error = text.parse::<Seconds>().unwrap_err();
            assert!(matches!(error, ParseLimitError::TooLarge { .. }), "{error}");
        }
    }

    #[test]
    fn defaults_are_shown_in_their_largest_unit() {
        assert_eq!(Bytes::show(8 << 30), "8 GiB");
        assert_eq!(Bytes::show(3), "3 B");
        assert_eq!(Seconds::show(600), "600 s");
    }
}
