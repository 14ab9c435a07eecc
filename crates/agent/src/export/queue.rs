//! Messages that wait to be delivered, the oldest first, bounded in bytes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::Message;
use crate::metrics::{BatchOutcome, Metrics};

/// A queue; clones share it.
#[derive(Clone, Debug)]
pub struct Queue(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    waiting: Mutex<Waiting>,
    more: Notify,
    bytes_max: usize,
    metrics: Arc<Metrics>,
}

#[derive(Debug, Default)]
struct Waiting {
    messages: VecDeque<Arc<Message>>,
    bytes: usize,
    ended: bool,
}

impl Queue {
    /// An empty queue for so many bytes.
    pub fn new(bytes_max: usize, metrics: Arc<Metrics>) -> Self {
        Self(Arc::new(Shared {
            waiting: Mutex::default(),
            more: Notify::new(),
            bytes_max,
            metrics,
        }))
    }

    /// Adds a message; the oldest go for it when there is no room, and one that is larger than the whole queue goes itself. Never waits.
    pub fn push(&self, message: Message) {
        let mut waiting = self.lock();
        waiting.bytes = waiting.bytes.saturating_add(message.body.len());
        waiting.messages.push_back(Arc::new(message));
        while waiting.bytes > self.0.bytes_max {
            let Some(oldest) = waiting.pop() else { break };
            self.0.metrics.batch(BatchOutcome::Dropped, oldest.samples);
        }
        self.show(&waiting);
        drop(waiting);
        self.0.more.notify_one();
    }

    /// No more messages come.
    pub fn end(&self) {
        self.lock().ended = true;
        self.0.more.notify_one();
    }

    /// The oldest message, which stays until [`Self::remove`]; waits for one. None at the end, when all are gone.
    pub async fn first(&self) -> Option<Arc<Message>> {
        loop {
            {
                let waiting = self.lock();
                if let Some(first) = waiting.messages.front() {
                    return Some(Arc::clone(first));
                }
                if waiting.ended {
                    return None;
                }
            }
            self.0.more.notified().await;
        }
    }

    /// Takes a message out that was dealt with. Whether it was still there: it may have had to go meanwhile, and was counted so.
    pub fn remove(&self, message: &Arc<Message>) -> bool {
        let mut waiting = self.lock();
        let is_first = |first: &Arc<Message>| Arc::ptr_eq(first, message);
        if !waiting.messages.front().is_some_and(is_first) {
            return false;
        }
        waiting.pop();
        self.show(&waiting);
        true
    }

    /// Counts what is left as dropped: nobody will deliver it.
    pub fn abandon(&self) {
        let mut waiting = self.lock();
        while let Some(message) = waiting.pop() {
            self.0.metrics.batch(BatchOutcome::Dropped, message.samples);
        }
        self.show(&waiting);
    }

    fn show(&self, waiting: &Waiting) {
        let count = waiting.messages.len();
        self.0.metrics.queue(count, waiting.bytes);
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        let waiting = &self.0.waiting;
        waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn pop(&mut self) -> Option<Arc<Message>> {
        let message = self.messages.pop_front()?;
        self.bytes = self.bytes.saturating_sub(message.body.len());
        Some(message)
    }
}
