//! Which prefixes to list for some hours: dates that are long over in one LIST, younger hours one by one.
//!
//! A day of segments that were compacted and not swept yet is some hundred pages, which come one after another; 24 hours are listed at
//! once. Of older dates only records are left, and 24 LISTs would be 24 requests.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::table::names::Hour;

/// Hours from the end of a date to when its segments are swept: 24, and those that the sweeper takes.
const SWEPT_HOURS: i64 = 30;

/// Hours of one date that are listed one by one rather than with the whole date.
const SINGLE_HOURS_MAX: usize = 2;

/// What one LIST is of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// `2026-12-01/13/` or `2026-12-01/`.
    pub(crate) prefix: String,
    /// The hours in it that matter.
    pub(crate) hours: BTreeSet<Hour>,
}

impl Place {
    /// One hour.
    pub(crate) fn of_hour(hour: Hour) -> Self {
        Self {
            prefix: format!("{hour}/"),
            hours: BTreeSet::from([hour]),
        }
    }

    /// The places of all of the hours, each in one of them.
    pub(crate) fn all_of(hours: &BTreeSet<Hour>, now: Timestamp) -> Vec<Self> {
        let mut dates: BTreeMap<String, BTreeSet<Hour>> = BTreeMap::new();
        for &hour in hours {
            dates.entry(date(hour)).or_default().insert(hour);
        }
        let mut places = Vec::new();
        for (date, hours) in dates {
            let ended = hours.last().map(|hour| hour.since_end(now));
            let is_swept = ended >= Some(SignedDuration::from_hours(SWEPT_HOURS));
            if is_swept && hours.len() > SINGLE_HOURS_MAX {
                let prefix = format!("{date}/");
                places.push(Self { prefix, hours });
            } else {
                places.extend(hours.into_iter().map(Self::of_hour));
            }
        }
        places
    }
}

fn date(hour: Hour) -> String {
    let text = hour.to_string();
    text.split_once('/')
        .map_or_else(String::new, |(date, _)| date.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hours(texts: &[&str]) -> BTreeSet<Hour> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn old_dates_are_listed_as_a_whole_and_young_hours_one_by_one() {
        let wanted = hours(&[
            "2026-11-01/00",
            "2026-11-01/01",
            "2026-11-01/23",
            "2026-11-30/22",
            "2026-11-30/23",
            "2026-12-01/00",
        ]);
        let now = "2026-12-01T00:30:00Z".parse().unwrap();
        let places = Place::all_of(&wanted, now);
        let prefixes: Vec<&str> = places.iter().map(|place| place.prefix.as_str()).collect();
        assert_eq!(
            prefixes,
            [
                "2026-11-01/",
                "2026-11-30/22/",
                "2026-11-30/23/",
                "2026-12-01/00/"
            ]
        );
        let all: BTreeSet<Hour> = places.into_iter().flat_map(|place| place.hours).collect();
        assert_eq!(all, wanted);
    }

    #[test]
    fn one_old_hour_does_not_cost_its_whole_date() {
        let now = "2026-12-01T00:30:00Z".parse().unwrap();
        let places = Place::all_of(&hours(&["2026-11-01/05"]), now);
        assert_eq!(places[0].prefix, "2026-11-01/05/");
    }
}
