//! Which stacks the numbers are that writers gave them: rows of segments have those, and compacted rows have none.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::try_join_all;
use rustc_hash::FxHashMap;
use unhex_pprof::StackHash;

use super::{Dictionary, widening};
use crate::files::{FileError, NumberRow, StackNumber, read_numbers};
use crate::reading::HourRange;
use crate::table::dictionary::{DictionaryFile, DictionaryTable};
use crate::table::names::Hour;

/// The stacks of some rows.
#[derive(Clone, Debug, Default)]
pub(in crate::query) struct Numbered(FxHashMap<StackNumber, StackHash>);

impl Numbered {
    /// The stack that a row has, if need be by its number. What no dictionary has stays what it is.
    pub(in crate::query) fn stack(&self, in_row: StackHash) -> StackHash {
        if self.0.is_empty() {
            return in_row;
        }
        let number = StackNumber::in_place_of(in_row);
        let stack = number.and_then(|number| self.0.get(&number));
        stack.copied().unwrap_or(in_row)
    }
}

impl Dictionary {
    /// What some numbers stand for.
    pub(in crate::query) async fn numbered(
        &self,
        hours: HourRange,
        mut wanted: Vec<StackNumber>,
    ) -> Result<Numbered, FileError> {
        wanted.sort_unstable();
        wanted.dedup();
        let mut newest_first: Vec<Hour> = hours.iter().collect();
        newest_first.reverse();
        let mut found = self.stacks_of_numbers(&newest_first, &wanted).await?;
        if found.len() < wanted.len() {
            // They came after the listings.
            self.look_again();
            found = self.stacks_of_numbers(&newest_first, &wanted).await?;
            let lost = wanted.len().saturating_sub(found.len());
            if lost > 0 {
                tracing::warn!(
                    lost,
                    "numbers of stacks are in no dictionary of their hours"
                );
            }
        }
        Ok(Numbered(found))
    }

    async fn stacks_of_numbers(
        &self,
        hours: &[Hour],
        wanted: &[StackNumber],
    ) -> Result<FxHashMap<StackNumber, StackHash>, FileError> {
        let mut found = FxHashMap::default();
        let mut missing = wanted.to_vec();
        for some in widening(hours) {
            if missing.is_empty() {
                break;
            }
            let read = some.iter().map(|hour| self.numbers_of_hour(*hour));
            for file in try_join_all(read).await?.into_iter().flatten() {
                found.extend(among(&file, &missing));
            }
            missing.retain(|number| !found.contains_key(number));
        }
        Ok(found)
    }

    async fn numbers_of_hour(&self, hour: Hour) -> Result<Vec<Arc<[NumberRow]>>, FileError> {
        let read = |files: Vec<DictionaryFile>| {
            let reading = async move {
                let mut all = Vec::new();
                for file in files {
                    all.push(self.numbers_of_file(file).await?);
                }
                Ok(all)
            };
            reading.boxed()
        };
        self.listed(hour, DictionaryTable::Numbers, read).await
    }

    async fn numbers_of_file(&self, file: DictionaryFile) -> Result<Arc<[NumberRow]>, FileError> {
        if let Some(numbers) = self.numbers.get(&file.name) {
            return Ok(numbers);
        }
        let numbers: Arc<[NumberRow]> = read_numbers(self.objects(), &[file]).await?.into();
        self.numbers.insert(file.name, Arc::clone(&numbers));
        Ok(numbers)
    }
}

/// Those of the numbers that a file has; both are in order.
fn among<'f>(
    file: &'f [NumberRow],
    wanted: &'f [StackNumber],
) -> impl Iterator<Item = (StackNumber, StackHash)> + 'f {
    let first = file.first().map(|row| row.number);
    let last = file.last().map(|row| row.number);
    let from = wanted.partition_point(|number| Some(*number) < first);
    let wanted = wanted.get(from..).unwrap_or_default();
    let wanted = wanted
        .iter()
        .take_while(move |number| Some(**number) <= last);
    wanted.filter_map(|number| {
        let at = file.binary_search_by_key(number, |row| row.number).ok()?;
        Some((*number, file.get(at)?.stack))
    })
}
