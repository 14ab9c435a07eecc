//! How much of the store each service takes: files are of hours and not of services, so that each service has the part of a file's bytes that
//! it has of its rows.
//!
//! Which rows a file has is asked once: the column of services alone is read, some hundred bytes, and files never change.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::array::{Array as _, Int64Array, StringViewArray};
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::{ident, lit};
use parking_lot::Mutex;

use super::counters::{Found, Usage};
use super::{MaintainError, Maintenance};
use crate::engine::{EngineError, live_rows};
use crate::table::fold::{File, HourState, LiveFile};
use crate::table::names::{FileKind, Hour};

/// Services of one file that are told apart; the rows of the others count for `_other`.
const SERVICES_MAX: usize = 4_096;

/// The rest of the services.
const OTHER: &str = "_other";

type ByService = Arc<[(String, u64)]>;

/// The rows of each output, by service.
#[derive(Debug, Default)]
pub(super) struct KnownRows(Mutex<HashMap<String, ByService>>);

impl KnownRows {
    /// Forgets files that the last round did not see.
    pub(super) fn keep(&self, is_seen: impl Fn(&str) -> bool) {
        self.0.lock().retain(|key, _| is_seen(key));
    }
}

impl Maintenance {
    /// Adds what an hour has.
    pub(super) async fn measure(
        &self,
        state: &HourState,
        found: &mut Found,
    ) -> Result<Vec<String>, MaintainError> {
        for segment in state.fresh() {
            found.fresh.add(Usage {
                objects: 1,
                rows: segment.name.rows,
                bytes: segment.bytes,
            });
        }
        let mut seen = Vec::new();
        for kind in FileKind::ALL {
            let live = state.live(kind);
            let outputs = live
                .iter()
                .filter(|live| matches!(live.file, File::Output(_)));
            for live in outputs {
                let rows = self.rows_by_service(state.hour(), kind, live).await?;
                add(&mut found.by_service, &rows, live);
                seen.push(live.file.to_string());
            }
        }
        Ok(seen)
    }

    async fn rows_by_service(
        &self,
        hour: Hour,
        kind: FileKind,
        live: &LiveFile,
    ) -> Result<ByService, MaintainError> {
        let key = live.file.to_string();
        if let Some(known) = self.known.0.lock().get(&key) {
            return Ok(Arc::clone(known));
        }
        let whole = LiveFile {
            unapplied: Vec::new(),
            ..live.clone()
        };
        let frame = live_rows(&self.engine, kind, [(hour, &whole)])?;
        let work = async move {
            let rows = vec![count(lit(1)).alias("rows")];
            let frame = frame.aggregate(vec![ident("service")], rows)?;
            Ok::<_, EngineError>(frame.collect().await?)
        };
        let batches = self.engine.run(work).await??;
        let mut services: BTreeMap<String, u64> = BTreeMap::new();
        for batch in &batches {
            let names = batch.column(0).as_any().downcast_ref::<StringViewArray>();
            let rows = batch.column(1).as_any().downcast_ref::<Int64Array>();
            let (Some(names), Some(rows)) = (names, rows) else {
                continue;
            };
            for (name, rows) in names.iter().zip(rows.values()) {
                let name = name.unwrap_or(OTHER);
                let is_room = services.len() < SERVICES_MAX || services.contains_key(name);
                let name = if is_room { name } else { OTHER };
                *services.entry(name.to_owned()).or_default() += u64::try_from(*rows).unwrap_or(0);
            }
        }
        let services: ByService = services.into_iter().collect();
        self.known.0.lock().insert(key, Arc::clone(&services));
        Ok(services)
    }
}

fn add(all: &mut BTreeMap<String, Usage>, services: &ByService, live: &LiveFile) {
    let rows_of_file = u128::from(live.file.rows().max(1));
    for (service, rows) in services.iter() {
        let bytes = u128::from(live.bytes) * u128::from(*rows) / rows_of_file;
        all.entry(service.clone()).or_default().add(Usage {
            objects: 1,
            rows: *rows,
            bytes: u64::try_from(bytes).unwrap_or(u64::MAX),
        });
    }
}
