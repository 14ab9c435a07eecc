//! Rounds at intervals, each a little earlier or later, so that replicas that were started together do not stay together.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::Maintenance;
use super::failure::shown;
use crate::table::names::Hour;

/// From one look at the hours that ended a moment ago to the next.
const RECENT_EVERY: Duration = Duration::from_mins(1);

/// From one round through all hours to the next: late rows and deletions are compacted so much later.
const ALL_EVERY: Duration = Duration::from_mins(15);

impl Maintenance {
    /// Keeps the table small until it is told to stop. Whatever is at work then is let go of, which the table bears at any moment.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let recent = async {
            loop {
                pause(RECENT_EVERY).await;
                let round = self.round_of_recent().await;
                debug!(?round, "looked at recent hours");
            }
        };
        let all = async {
            // The first one soon: what was left behind when the program ended waits.
            pause(RECENT_EVERY).await;
            loop {
                match self.round().await {
                    Ok(round) => debug!(?round, "went through all hours"),
                    Err(error) => {
                        self.counters.failed(&error);
                        warn!("maintenance: {}", shown(&error));
                    }
                }
                pause(ALL_EVERY).await;
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = recent => {}
            () = all => {}
        }
    }

    /// How much longer this replica waits with an hour than the first that may compact it.
    pub(super) fn own_delay(&self, hour: Hour) -> SignedDuration {
        let mut hash = DefaultHasher::new();
        (self.seed, hour).hash(&mut hash);
        let spread = u64::try_from(self.options.spread.as_secs()).unwrap_or(0);
        let seconds = hash.finish() % spread.saturating_add(1);
        SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(0))
    }
}

/// Three to five quarters of it.
async fn pause(every: Duration) {
    let part = rand::random_range(0.75..1.25);
    tokio::time::sleep(every.mul_f64(part)).await;
}
