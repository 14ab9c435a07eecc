//! Where somebody lines up who does not know yet whether it will have to.

use std::time::Duration;

use tokio::time::Instant;

use super::{ClientKey, FairQueue, QueueError, Share};

/// A queue, for whom, and for how long: enough to line up later, in another task.
#[derive(Clone, Debug)]
pub struct Place {
    /// Where.
    pub queue: FairQueue,
    /// In whose line.
    pub client: ClientKey,
    /// How long a turn is waited for, from when one lines up.
    pub patience: Duration,
}

impl Place {
    /// One of what the queue hands out, once it is this client's turn.
    ///
    /// # Errors
    /// If it is not in time, or too many wait.
    pub async fn turn(&self) -> Result<Share, QueueError> {
        let until = Instant::now() + self.patience;
        self.queue.take(self.client, 1, Some(until)).await
    }
}
