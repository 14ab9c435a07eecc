//! Removes what counts for nothing, in the order that the fold says: records before what they name.

use futures_util::FutureExt as _;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};

use super::{MaintainError, Maintenance};
use crate::objects::ObjectsError;
use crate::table::fold::HourState;
use crate::table::names::ObjectName;

/// Objects that are removed at once: a day of one replica has 86,400.
const REMOVALS_AT_ONCE: usize = 32;

impl Maintenance {
    /// Removes what may go of an hour of which all three folders were listed.
    pub(super) async fn sweep(&self, state: &HourState) -> Result<usize, MaintainError> {
        let names = state.sweepable();
        let count = names.len();
        // One kind after the other: an output that is removed before its record would be missed by whoever sees the record.
        for names in names.chunk_by(|a, b| folder(a) == folder(b)) {
            let removals: Vec<_> = names
                .iter()
                .map(|name| self.remove(name.to_string()).boxed())
                .collect();
            let removals = stream::iter(removals).buffer_unordered(REMOVALS_AT_ONCE);
            removals.try_collect::<()>().await?;
        }
        Ok(count)
    }

    pub(super) async fn remove(&self, key: String) -> Result<(), ObjectsError> {
        self.objects.delete(&key).await?;
        self.counters.swept(1);
        Ok(())
    }
}

fn folder(name: &ObjectName) -> u8 {
    match name {
        ObjectName::Segment(_) => 0,
        ObjectName::Output(_) => 1,
        ObjectName::Record(_) => 2,
    }
}
