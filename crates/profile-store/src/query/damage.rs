//! Which file explains a question without an answer.

use std::time::Duration;

use super::{Queries, QueryError, Window};
use crate::engine::EngineError;
use crate::files::{Looked, is_of_store, look_through};
use crate::table::fold::LiveFile;
use crate::table::names::FileKind;

/// How long files are looked through: whoever asks has waited already. Some hundred megabytes.
const LOOKING_MAX: Duration = Duration::from_secs(10);

impl Queries {
    /// The failure of a question about a window; the damaged file, if that is the reason and is found in time. To be asked for within
    /// the question's turn, since it reads as much as the question.
    pub async fn explained(&self, window: Window, error: QueryError) -> QueryError {
        let may_be_damage = match &error {
            QueryError::Engine(EngineError::Query(_) | EngineError::Panicked) => true,
            QueryError::Dictionary(error) => !error.is_absence(),
            _ => false,
        };
        // Of a store that is away nothing is learnt by reading more.
        if !may_be_damage || is_of_store(&error) {
            return error;
        }
        let source = Box::new(error);
        match tokio::time::timeout(LOOKING_MAX, self.looked_through(window)).await {
            Ok(Some(Looked::Damaged(damage))) => QueryError::Damaged { damage, source },
            Ok(Some(Looked::Away { key, why })) => QueryError::StoreAway { key, why, source },
            _ => *source,
        }
    }

    /// What the files of a window are like; `None` if nobody can say.
    async fn looked_through(&self, window: Window) -> Option<Looked> {
        let mut files = Vec::new();
        for hour in window.hours().iter() {
            // The dictionary first: what it has is small.
            for file in self.dictionary.files(hour).await.ok()? {
                files.push((file.name.to_string(), file.bytes));
            }
        }
        let reading = self.readings.read(window.hours()).await.ok()?;
        for hour in reading.hours() {
            let live = [FileKind::Samples, FileKind::Totals].map(|kind| hour.files(kind));
            let named = |(_, live): (_, &LiveFile)| (live.file.to_string(), live.bytes);
            files.extend(live.into_iter().flatten().map(named));
        }
        // Of a fresh hour totals are the segments, too.
        files.sort();
        files.dedup();
        let objects = self.dictionary.objects().clone();
        let looking = async move { look_through(&objects, files).await };
        self.engine.run(looking).await.ok()
    }
}
