//! When a build ID without symbols counts, and how often the ledger of them is written and compared.

use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;

use crate::limits::Seconds;

/// What can be set of the signal.
#[derive(Clone, Debug, PartialEq)]
pub struct SignalConfig {
    /// How long CI may take to upload what is running already, before anybody is told.
    pub grace: Duration,
    /// What is less of its service than this bothers nobody.
    pub share_min: Share,
    /// Patterns of file names that never count.
    pub ignore_modules: Vec<String>,
    /// How often the ledger is written to the store, and the others' read.
    pub write_every: Duration,
    /// How often what is listed is looked for in the store.
    pub check_every: Duration,
}

impl Default for SignalConfig {
    fn default() -> Self {
        Self {
            grace: Duration::from_mins(10),
            share_min: Share(0.01),
            ignore_modules: Vec::new(),
            write_every: Duration::from_secs(10),
            check_every: Duration::from_secs(30),
        }
    }
}

/// A part of a whole: `1%`, `0.5%`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub struct Share(f64);

/// A text that is no [`Share`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no share: a number from 0 to 100 and %, such as 1% or 0.5%")]
pub struct ParseShareError(String);

impl Share {
    /// As a number from 0 to 1.
    pub fn fraction(self) -> f64 {
        self.0
    }
}

impl FromStr for Share {
    type Err = ParseShareError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let percent = text
            .strip_suffix('%')
            .and_then(|number| number.trim().parse::<f64>().ok());
        let percent = percent.filter(|percent| (0.0..=100.0).contains(percent));
        percent
            .map(|percent| Self(percent / 100.0))
            .ok_or_else(|| ParseShareError(text.to_owned()))
    }
}

impl TryFrom<String> for Share {
    type Error = ParseShareError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

/// The flags, variables and settings of the file.
#[derive(Clone, Debug, Default, clap::Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[command(next_help_heading = "Missing symbols")]
pub struct SignalSettings {
    /// How long a build ID may have no symbols before it is alerted on [default: 10 m].
    ///
    /// CI may upload in this time what is running already.
    #[arg(long, env = "UNHEX_UNKNOWN_GRACE", value_name = "TIME")]
    pub unknown_grace: Option<Seconds>,
    /// The least share of a service's addresses or samples that is alerted on [default: 1%].
    #[arg(long, env = "UNHEX_UNKNOWN_MIN_SHARE", value_name = "PERCENT")]
    pub unknown_min_share: Option<Share>,
    /// File names that are never alerted on, such as 'libnvidia-*.so*'; may be given several times.
    ///
    /// `*` is any characters, `?` is one; compared with the last part of the name, or with all of it
    /// when there is a `/` in the pattern. The kernel's vDSO is never alerted on.
    #[arg(
        long = "ignore-module",
        env = "UNHEX_IGNORE_MODULE",
        value_name = "GLOB",
        value_delimiter = ','
    )]
    #[serde(rename = "ignore_module")]
    pub ignore_modules: Option<Vec<String>>,
    /// How often the ledger of build IDs without symbols is written and read [default: 10 s].
    #[arg(
        long,
        env = "UNHEX_LEDGER_WRITE_SECONDS",
        value_name = "TIME",
        hide_short_help = true
    )]
    pub ledger_write_seconds: Option<Seconds>,
    /// How often those are looked for in the store, whoever uploaded [default: 30 s].
    #[arg(
        long,
        env = "UNHEX_LEDGER_CHECK_SECONDS",
        value_name = "TIME",
        hide_short_help = true
    )]
    pub ledger_check_seconds: Option<Seconds>,
}

/// No interval is shorter: a loop without a pause would do nothing else.
const INTERVAL_MIN: Duration = Duration::from_secs(1);

impl SignalSettings {
    /// These settings, and those of `under` where these have none.
    #[must_use]
    pub fn over(self, under: Self) -> Self {
        Self {
            unknown_grace: self.unknown_grace.or(under.unknown_grace),
            unknown_min_share: self.unknown_min_share.or(under.unknown_min_share),
            ignore_modules: self.ignore_modules.or(under.ignore_modules),
            ledger_write_seconds: self.ledger_write_seconds.or(under.ledger_write_seconds),
            ledger_check_seconds: self.ledger_check_seconds.or(under.ledger_check_seconds),
        }
    }

    /// What was set, else the defaults.
    pub fn resolve(self) -> SignalConfig {
        let defaults = SignalConfig::default();
        let interval = |set: Option<Seconds>, default: Duration| {
            set.map_or(default, |set| set.duration().max(INTERVAL_MIN))
        };
        SignalConfig {
            grace: self.unknown_grace.map_or(defaults.grace, Seconds::duration),
            share_min: self.unknown_min_share.unwrap_or(defaults.share_min),
            ignore_modules: self.ignore_modules.unwrap_or_default(),
            write_every: interval(self.ledger_write_seconds, defaults.write_every),
            check_every: interval(self.ledger_check_seconds, defaults.check_every),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_has_the_names_of_the_flags() {
        let text = "unknown_grace = '5m'\nunknown_min_share = '2%'\nignore_module = ['a*']";
        let set: SignalSettings = toml::from_str(text).unwrap();
        let config = set.over(SignalSettings::default()).resolve();
        let expected = SignalConfig {
            grace: Duration::from_mins(5),
            share_min: Share(0.02),
            ignore_modules: vec!["a*".to_owned()],
            ..SignalConfig::default()
        };
        assert_eq!(config, expected);
    }

    #[test]
    fn a_share_has_a_percent_sign() {
        let half: Share = "0.5%".parse().unwrap();
        assert!((half.fraction() - 0.005).abs() < 1e-12);
        for text in ["1", "", "%", "-1%", "101%", "nan%", "1 percent"] {
            assert!(text.parse::<Share>().is_err(), "{text:?}");
        }
    }
}
