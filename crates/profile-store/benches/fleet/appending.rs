//! Rows made durable as ingest does it, a message at a time, at the times that they speak of.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::SignedDuration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use unhex_profile_store::append::{Appender, AppenderParts, Message, RequestHash};
use unhex_profile_store::clock::Clock;
use unhex_profile_store::limits::Limits;
use unhex_profile_store::metrics::Metrics;
use unhex_profile_store::objects::Objects;
use unhex_profile_store::rows::{Batch, SampleRow};

use crate::compaction::hour;

const LABEL_SETS_MAX: usize = 100;

/// One replica that writes.
pub(crate) struct Appending {
    appender: Appender,
    second: Arc<AtomicU64>,
    tasks: TaskTracker,
    stopping: CancellationToken,
}

impl Appending {
    pub(crate) fn to(objects: &Objects) -> Self {
        let second = Arc::new(AtomicU64::new(0));
        let now = Arc::clone(&second);
        let clock = Clock::new(move || {
            let second = i64::try_from(now.load(Ordering::Relaxed)).expect("small");
            hour().start() + SignedDuration::from_secs(second)
        });
        let limits = Limits {
            window_millis_max: Duration::from_millis(1),
            ..Limits::default()
        };
        let appender = Appender::new(AppenderParts {
            objects: objects.clone(),
            clock,
            metrics: Arc::new(Metrics::new(LABEL_SETS_MAX)),
            limits,
        });
        let (tasks, stopping) = (TaskTracker::new(), CancellationToken::new());
        appender.run(&tasks, stopping.clone(), stopping.clone());
        Self {
            appender,
            second,
            tasks,
            stopping,
        }
    }

    /// Returns when the rows are durable.
    pub(crate) async fn append(&self, second: u64, rows: Vec<SampleRow>) {
        self.second.store(second, Ordering::Relaxed);
        let series = rows
            .iter()
            .map(|row| (row.series.id(), Arc::clone(&row.series)));
        let batch = Batch {
            series: series.collect(),
            rows,
            ..Batch::default()
        };
        let mut hash = [0; 32];
        hash[..8].copy_from_slice(&second.to_le_bytes());
        let hash = RequestHash(hash);
        let appended = self.appender.append(Message { hash, batch }, Box::new(()));
        appended.await.expect("durable rows");
    }

    pub(crate) async fn end(self) {
        self.stopping.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}
