//! What lies in the store, hour by hour.

use super::Queries;
use super::failure::QueryError;
use super::window::Window;
use crate::answers::{FilesOfHour, SegmentHour};
use crate::reading::{HourRange, HourReading, ReadingError};
use crate::table::dictionary::DictionaryFile;
use crate::table::fold::{File, LiveFile};
use crate::table::names::Hour;

impl Queries {
    /// The hours that a window has something of, as far as there is anything. An hour that cannot be read says why.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn segments(&self, window: Window) -> Result<Vec<SegmentHour>, QueryError> {
        let hours: Vec<Hour> = window.hours().iter().collect();
        let read = match self.readings.read(window.hours()).await {
            Ok(reading) => {
                let all = reading.hours().iter();
                all.map(|hour| Ok(HourReading::clone(hour))).collect()
            }
            Err(ReadingError::Hour { .. }) => self.one_by_one(&hours).await?,
            Err(error) => return Err(error.into()),
        };
        let mut told = Vec::new();
        for (hour, read) in hours.iter().zip(read) {
            let mut one = match read {
                Ok(reading) => shown(&reading),
                Err(problem) => SegmentHour {
                    problem: Some(problem),
                    ..SegmentHour::default()
                },
            };
            one.hour = hour.to_string();
            one.dictionary = summed(&self.dictionary.files(*hour).await?);
            if (SegmentHour {
                hour: String::new(),
                ..one.clone()
            }) != SegmentHour::default()
            {
                told.push(one);
            }
        }
        Ok(told)
    }

    async fn one_by_one(
        &self,
        hours: &[Hour],
    ) -> Result<Vec<Result<HourReading, String>>, QueryError> {
        let mut all = Vec::new();
        for hour in hours {
            let Ok(range) = HourRange::new(*hour, *hour) else {
                continue;
            };
            all.push(match self.readings.read(range).await {
                Ok(reading) => {
                    let mut hours = reading.hours().iter();
                    let hour = hours.next().map(|hour| HourReading::clone(hour));
                    hour.ok_or_else(|| "it was not read".to_owned())
                }
                Err(ReadingError::Hour { source, .. }) => Err(source.to_string()),
                Err(error) => return Err(error.into()),
            });
        }
        Ok(all)
    }
}

fn shown(reading: &HourReading) -> SegmentHour {
    let is_output = |file: &&LiveFile| matches!(file.file, File::Output(_));
    let is_segment = |file: &&LiveFile| matches!(file.file, File::Segment(_));
    // Segments are among both, unless one kind has expired.
    let fresh = if reading.is_without_samples {
        &reading.totals
    } else {
        &reading.samples
    };
    let all = reading.samples.iter().chain(&reading.totals);
    let mut deletions: Vec<_> = all
        .flat_map(|file| file.unapplied.iter().map(|tombstone| tombstone.id))
        .collect();
    deletions.sort_unstable();
    deletions.dedup();
    let keys = |files: &[LiveFile]| files.iter().map(|file| file.file.to_string()).collect();
    SegmentHour {
        hour: String::new(),
        fresh: files(fresh.iter().filter(is_segment)),
        samples: files(reading.samples.iter().filter(is_output)),
        totals: files(reading.totals.iter().filter(is_output)),
        dictionary: FilesOfHour::default(),
        deletions: whole(deletions.len()),
        sample_files: keys(&reading.samples),
        total_files: keys(&reading.totals),
        problem: None,
    }
}

fn files<'f>(live: impl Iterator<Item = &'f LiveFile>) -> FilesOfHour {
    let mut sum = FilesOfHour::default();
    for file in live {
        sum.files += 1;
        sum.rows = sum.rows.saturating_add(file.file.rows());
        sum.bytes = sum.bytes.saturating_add(file.bytes);
    }
    sum
}

fn summed(dictionary: &[DictionaryFile]) -> FilesOfHour {
    let rows = dictionary.iter().map(|file| file.name.rows);
    let bytes = dictionary.iter().map(|file| file.bytes);
    FilesOfHour {
        files: whole(dictionary.len()),
        rows: rows.fold(0, u64::saturating_add),
        bytes: bytes.fold(0, u64::saturating_add),
    }
}

fn whole(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
