//! How long rows are kept, of all services and of single ones.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::Deserialize;

use crate::limits::Days;
use crate::table::plan::Retention;

/// What may be said of the time that rows are kept; in the file under `[retention]`.
#[derive(Clone, Debug, Default, clap::Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetentionSettings {
    /// How long samples are kept [default: 21d].
    #[arg(
        long = "retention",
        env = "UNHEX_STORE_RETENTION",
        value_name = "DAYS",
        help_heading = "Retention"
    )]
    #[serde(rename = "samples")]
    pub retention: Option<Days>,
    /// How long hourly totals are kept, for comparisons [default: 90d].
    #[arg(
        long,
        env = "UNHEX_STORE_RETENTION_TOTALS",
        value_name = "DAYS",
        help_heading = "Retention"
    )]
    #[serde(rename = "totals")]
    pub retention_totals: Option<Days>,
    /// How long samples of one service are kept; may be given several times.
    ///
    /// In the file a table: `[retention.services]` with `"checkout" = "60d"`.
    #[arg(
        long,
        env = "UNHEX_STORE_RETENTION_OF",
        value_name = "SERVICE=DAYS",
        value_delimiter = ',',
        help_heading = "Retention"
    )]
    #[serde(skip)]
    pub retention_of: Option<Vec<ServiceDays>>,
    /// The same, as the file has it.
    #[arg(skip)]
    pub services: Option<BTreeMap<String, Days>>,
}

/// `SERVICE=DAYS`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceDays {
    service: String,
    days: Days,
}

/// A text that is no [`ServiceDays`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no SERVICE=DAYS, such as checkout=60d")]
pub struct ParseServiceDaysError(String);

impl FromStr for ServiceDays {
    type Err = ParseServiceDaysError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || ParseServiceDaysError(text.to_owned());
        // A service may have `=` in its name, days have not.
        let (service, days) = text.rsplit_once('=').ok_or_else(refused)?;
        let days = days.parse().ok().ok_or_else(refused)?;
        if service.is_empty() {
            return Err(refused());
        }
        Ok(Self {
            service: service.to_owned(),
            days,
        })
    }
}

impl RetentionSettings {
    pub(super) fn over(self, under: Self) -> Self {
        Self {
            retention: self.retention.or(under.retention),
            retention_totals: self.retention_totals.or(under.retention_totals),
            retention_of: self.retention_of.or(under.retention_of),
            services: self.services.or(under.services),
        }
    }

    /// What was said, else the defaults; of one service a flag wins over the file.
    pub(super) fn resolve(self) -> Retention {
        let defaults = Retention::default();
        let filed = self.services.unwrap_or_default().into_iter();
        let flagged = self.retention_of.unwrap_or_default().into_iter();
        let all = filed.chain(flagged.map(|of| (of.service, of.days)));
        Retention {
            samples_days: self.retention.map_or(defaults.samples_days, Days::number),
            totals_days: self
                .retention_totals
                .map_or(defaults.totals_days, Days::number),
            samples_days_by_service: all
                .map(|(service, days)| (service, days.number()))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_kept_as_the_flag_says_and_else_as_the_file_says() {
        let file = "samples = '2w'\n[services]\na = 60\n\"b=c\" = '1d'";
        let file: RetentionSettings = toml::from_str(file).unwrap();
        let flags = RetentionSettings {
            retention_of: Some(vec!["a=3d".parse().unwrap()]),
            ..RetentionSettings::default()
        };
        let kept = flags.over(file).resolve();
        assert_eq!((kept.samples_days, kept.totals_days), (14, 90));
        let services: Vec<_> = kept.samples_days_by_service.into_iter().collect();
        assert_eq!(services, [("a".to_owned(), 3), ("b=c".to_owned(), 1)]);
        for text in ["a", "=3", "a=", "a=3x"] {
            assert!(text.parse::<ServiceDays>().is_err(), "{text}");
        }
    }
}
