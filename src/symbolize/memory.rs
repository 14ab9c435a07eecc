//! How much memory all `/symbolize` requests may hold at once, from their bodies to their answers.
//!
//! Each request is within its own limits, but clients open thousands of streams, and who reads
//! slowly holds an answer for long. So each reserves the most that it may take before its body is
//! read, and gives back what it does not need once it is understood.

use std::time::Duration;

use tokio::time::Instant;
use unhex_api::symbolize::SymbolizeRequest;

use crate::limits::Limits;
use crate::metrics::QueueMeter;
use crate::queue::{ClientKey, FairQueue, Share, Supply};

/// What an address takes at most: parsed, its row in the answer, its share of the answer's text.
const BYTES_PER_ADDRESS: u64 = 512;
/// What a module takes beside its addresses.
const BYTES_PER_MODULE: u64 = 1 << 10;
/// An address in a list takes two bytes of JSON at least.
const ADDRESS_TEXT_BYTES_MIN: u64 = 2;
/// The request itself, and the piece of its answer that is being sent.
const BASE_BYTES: u64 = 1 << 20;

/// The memory for all requests, handed out in turns by client; clones share it.
#[derive(Clone, Debug)]
pub struct RequestMemory {
    queue: FairQueue,
    patience: Duration,
    body_bytes_max: u64,
    addresses_max: u64,
}

/// A share of the memory; it is given back when this is dropped.
#[derive(Debug)]
pub struct ReservedMemory(Share);

impl RequestMemory {
    /// As much memory as the limits say.
    pub fn new(limits: &Limits, meter: QueueMeter) -> Self {
        let supply = Supply::of(limits.symbolize_memory_bytes_total_max);
        Self {
            queue: FairQueue::new(supply, meter),
            patience: limits.symbolize_queue_seconds_max,
            body_bytes_max: limits.symbolize_body_bytes_max,
            addresses_max: u64::try_from(limits.symbolize_addresses_max).unwrap_or(u64::MAX),
        }
    }

    /// Reserves the most that a body of at most `body_bytes` (after decompression; `None` when that
    /// is not known) may take. `None` when it was not this client's turn in time, or too many wait.
    pub async fn reserve(
        &self,
        client: ClientKey,
        body_bytes: Option<u64>,
    ) -> Option<ReservedMemory> {
        let body_bytes = body_bytes
            .unwrap_or(self.body_bytes_max)
            .min(self.body_bytes_max);
        let addresses = (body_bytes / ADDRESS_TEXT_BYTES_MIN).min(self.addresses_max);
        let bytes = addresses
            .saturating_mul(BYTES_PER_ADDRESS)
            .saturating_add(body_bytes)
            .saturating_add(BASE_BYTES);
        let until = Instant::now() + self.patience;
        let share = self.queue.take(client, bytes, Some(until)).await;
        share.ok().map(ReservedMemory)
    }
}

impl ReservedMemory {
    /// Gives back what `request` does not need, now that its body is no longer held.
    pub fn shrink_to(&mut self, request: &SymbolizeRequest) {
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let addresses = request.modules.iter().map(|m| count(m.addresses.len()));
        let bytes = addresses
            .sum::<u64>()
            .saturating_mul(BYTES_PER_ADDRESS)
            .saturating_add(count(request.modules.len()).saturating_mul(BYTES_PER_MODULE))
            .saturating_add(BASE_BYTES);
        self.0.shrink_to(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Metrics, QueueClass};

    #[tokio::test]
    async fn who_finds_no_memory_waits_until_some_is_given_back_or_the_time_is_over() {
        let limits = Limits {
            symbolize_memory_bytes_total_max: 8 << 20,
            symbolize_queue_seconds_max: Duration::from_millis(50),
            ..Limits::default()
        };
        let memory = RequestMemory::new(&limits, Metrics::new().queue(QueueClass::Symbolize));
        let reserve = |body_bytes| memory.reserve(ClientKey::SERVER, body_bytes);
        // Its length is not known, so it may need all.
        let mut large = reserve(None).await.unwrap();
        assert!(reserve(Some(0)).await.is_none());
        large.shrink_to(&serde_json::from_str(r#"{"modules":[]}"#).unwrap());
        let small = reserve(Some(0)).await;
        assert!(small.is_some());
        let (again, ()) = tokio::join!(reserve(None), async { drop((large, small)) });
        assert!(again.is_some());
    }
}
