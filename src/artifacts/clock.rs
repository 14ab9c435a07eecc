//! What time it is and what is random, passed in so that tests decide.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::layout::UploadId;

/// A source of time and of unique upload IDs.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> SystemTime + Send + Sync>);

impl Clock {
    /// The clock of this machine.
    pub fn system() -> Self {
        Self::new(SystemTime::now)
    }

    /// A clock that answers what `now` answers.
    pub fn new(now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// The time.
    pub fn now(&self) -> SystemTime {
        (self.0)()
    }

    /// The time in whole seconds since 1970.
    pub fn unix_seconds(&self) -> u64 {
        self.now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs()
    }

    /// A new upload ID.
    pub fn upload_id(&self) -> UploadId {
        UploadId::new(self.now(), rand::random())
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({:?})", self.now())
    }
}
