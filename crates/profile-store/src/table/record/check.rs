//! Bounds that both kinds of record have.

use std::collections::BTreeSet;
use std::fmt::Display;

use super::UnsoundRecordError;

/// Refuses more than `max` of something.
pub(in crate::table) fn at_most(
    what: &'static str,
    count: usize,
    max: usize,
) -> Result<(), UnsoundRecordError> {
    if count > max {
        return Err(UnsoundRecordError::TooMany { what, count, max });
    }
    Ok(())
}

/// Refuses what stands there twice.
pub(in crate::table) fn distinct<T: Ord + Display>(
    all: impl IntoIterator<Item = T>,
) -> Result<BTreeSet<T>, UnsoundRecordError> {
    let mut seen = BTreeSet::new();
    for one in all {
        if seen.contains(&one) {
            return Err(UnsoundRecordError::Repeated(one.to_string()));
        }
        seen.insert(one);
    }
    Ok(seen)
}
