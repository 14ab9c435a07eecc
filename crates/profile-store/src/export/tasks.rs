//! Exports at intervals: the last hours every few seconds, all of them every some minutes.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use jiff::SignedDuration;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::{ExportError, Exported, Exporter};
use crate::reading::{Place, READ, look};
use crate::table::names::Hour;

/// From one export of the last hours to the next: what was sent is shown so much later. A day has 5,760 commits at most, whatever the number of replicas.
const RECENT_EVERY: Duration = Duration::from_secs(15);

/// Of so many exports one is of all hours: late rows, deletions and what has expired are shown so much later.
const ALL_EVERY: u32 = 40;

/// Hours before this one that are the last hours: they are compacted in that time.
const RECENT_HOURS: i64 = 3;

impl Exporter {
    /// Exports until it is told to stop. A commit that is at work then is there or not.
    pub async fn run(mut self, stop: CancellationToken) {
        let exporting = async {
            for round in 0_u32.. {
                let is_all = round.is_multiple_of(ALL_EVERY);
                let exported = if is_all {
                    self.export_all().await
                } else {
                    self.export_recent().await
                };
                let counted = match exported {
                    Ok(_) => &self.counters.written,
                    Err(ExportError::Busy) => &self.counters.busy,
                    Err(_) => &self.counters.failed,
                };
                counted.fetch_add(1, Relaxed);
                match exported {
                    Ok(exported) => debug!(?exported, "wrote the Delta log"),
                    Err(ExportError::Busy) => debug!("other replicas write the Delta log"),
                    Err(error) => {
                        let source = std::error::Error::source(&error);
                        warn!(source, "the Delta log was not written: {error}");
                    }
                }
                let part = rand::random_range(0.75..1.25);
                tokio::time::sleep(RECENT_EVERY.mul_f64(part)).await;
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = exporting => {}
        }
    }

    /// Exports the hours that rows mostly come for: this one, some before, and the next one, since clocks differ.
    ///
    /// # Errors
    /// If the store fails, or other replicas are faster.
    pub async fn export_recent(&mut self) -> Result<Exported, ExportError> {
        let now = self.clock.now();
        let hours = (-1..=RECENT_HOURS).map(|ago| Hour::of(now - SignedDuration::from_hours(ago)));
        let hours = hours.filter_map(Result::ok).collect();
        self.export_hours(&hours).await
    }

    /// Exports all hours, date by date.
    ///
    /// # Errors
    /// If the store fails, or other replicas are faster; dates before that are exported.
    pub async fn export_all(&mut self) -> Result<Exported, ExportError> {
        let mut all = self.export_recent().await?;
        let mut dates: BTreeSet<String> = self.hours()?.into_iter().map(date_of).collect();
        for folder in READ {
            let found = self.objects.folders(folder).await;
            dates.extend(found.map_err(crate::reading::ReadingError::from)?);
        }
        for date in dates {
            let hours = (0..24).filter_map(|hour| format!("{date}/{hour:02}").parse().ok());
            let exported = self.export_hours(&hours.collect()).await?;
            all = Exported {
                version: exported.version,
                added: all.added + exported.added,
                removed: all.removed + exported.removed,
                hours_left_out: all.hours_left_out + exported.hours_left_out,
                conflicts: all.conflicts + exported.conflicts,
            };
        }
        Ok(all)
    }

    async fn export_hours(&mut self, hours: &BTreeSet<Hour>) -> Result<Exported, ExportError> {
        let places = Place::all_of(hours, self.clock.now());
        let seen = look(&self.objects, &self.records, &self.clock, &places, READ).await?;
        self.export(hours, &seen.states).await
    }
}

fn date_of(hour: Hour) -> String {
    let text = hour.to_string();
    text.split_once('/')
        .map_or_else(String::new, |(date, _)| date.to_owned())
}
