//! How much memory all `/symbolize` requests may hold at once, from their bodies to their answers.
//!
//! Each request is within its own limits, but clients open thousands of streams, and who reads
//! slowly holds an answer for long. So each reserves the most that it may take before its body is
//! read, and gives back what it does not need once it is understood.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use unhex_api::symbolize::SymbolizeRequest;

use crate::limits::Limits;

/// Memory is counted in this unit, so that any sum fits a semaphore.
const PERMIT_BYTES: u64 = 64 << 10;
/// What an address takes at most: parsed, its row in the answer, its share of the answer's text.
const BYTES_PER_ADDRESS: u64 = 512;
/// What a module takes beside its addresses.
const BYTES_PER_MODULE: u64 = 1 << 10;
/// An address in a list takes two bytes of JSON at least.
const ADDRESS_TEXT_BYTES_MIN: u64 = 2;
/// The request itself, and the piece of its answer that is being sent.
const BASE_BYTES: u64 = 1 << 20;

/// The memory for all requests; clones share it.
#[derive(Clone, Debug)]
pub struct RequestMemory {
    free: Arc<Semaphore>,
    permits_max: u32,
    patience: Duration,
    body_bytes_max: u64,
    addresses_max: u64,
}

/// A share of the memory; it is given back when this is dropped.
#[derive(Debug)]
pub struct ReservedMemory(OwnedSemaphorePermit);

impl RequestMemory {
    /// As much memory as the limits say.
    pub fn new(limits: &Limits) -> Self {
        let permits_max = permits(limits.symbolize_memory_bytes_total_max);
        Self {
            free: Arc::new(Semaphore::new(
                usize::try_from(permits_max).unwrap_or(Semaphore::MAX_PERMITS),
            )),
            permits_max,
            patience: limits.symbolize_queue_seconds_max,
            body_bytes_max: limits.symbolize_body_bytes_max,
            addresses_max: u64::try_from(limits.symbolize_addresses_max).unwrap_or(u64::MAX),
        }
    }

    /// Reserves the most that a body of at most `body_bytes` (after decompression; `None` when that
    /// is not known) may take, in the order of asking. `None` when too little came free in time.
    pub async fn reserve(&self, body_bytes: Option<u64>) -> Option<ReservedMemory> {
        let body_bytes = body_bytes
            .unwrap_or(self.body_bytes_max)
            .min(self.body_bytes_max);
        let addresses = (body_bytes / ADDRESS_TEXT_BYTES_MIN).min(self.addresses_max);
        let bytes = addresses
            .saturating_mul(BYTES_PER_ADDRESS)
            .saturating_add(body_bytes)
            .saturating_add(BASE_BYTES);
        let permits = permits(bytes).min(self.permits_max);
        let reserving = Arc::clone(&self.free).acquire_many_owned(permits);
        let reserved = tokio::time::timeout(self.patience, reserving).await;
        Some(ReservedMemory(reserved.ok()?.ok()?))
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
        let needed = usize::try_from(permits(bytes)).unwrap_or(usize::MAX);
        let spare = self.0.num_permits().saturating_sub(needed);
        drop(self.0.split(spare));
    }
}

/// Permits for so many bytes, at least one.
fn permits(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(PERMIT_BYTES))
        .unwrap_or(u32::MAX)
        .min(u32::try_from(Semaphore::MAX_PERMITS).unwrap_or(u32::MAX))
        .max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_finds_no_memory_waits_until_some_is_given_back_or_the_time_is_over() {
        let memory = RequestMemory::new(&Limits {
            symbolize_memory_bytes_total_max: 8 << 20,
            symbolize_queue_seconds_max: Duration::from_millis(50),
            ..Limits::default()
        });
        // Its length is not known, so it may need all.
        let mut large = memory.reserve(None).await.unwrap();
        assert!(memory.reserve(Some(0)).await.is_none());
        large.shrink_to(&serde_json::from_str(r#"{"modules":[]}"#).unwrap());
        let small = memory.reserve(Some(0)).await;
        assert!(small.is_some());
        let (again, ()) = tokio::join!(memory.reserve(None), async { drop((large, small)) });
        assert!(again.is_some());
    }
}
