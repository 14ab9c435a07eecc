//! What time it is and what is random, passed in so that tests decide.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

use crate::table::names::PublishId;

/// A source of time and of unique publish IDs. Clones are handles to the same.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// The clock of this machine.
    pub fn system() -> Self {
        Self::new(Timestamp::now)
    }

    /// A clock that answers what `now` answers.
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        (self.0)()
    }

    /// The ID of a publish that begins now.
    pub fn publish_id(&self) -> PublishId {
        PublishId::new(self.now(), rand::random())
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({})", self.now())
    }
}
