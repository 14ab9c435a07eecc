//! Sorting the keys of a batch: address in the high 32 bits, place in the request in the low ones.
//!
//! Only the high half is sorted by; equal addresses may come in any order, since all get the same
//! answer. A radix sort costs a few nanoseconds a key where comparing costs tens.

use super::bits::{low32, width_of};

/// Below this many keys a comparison sort is quicker than clearing the counters.
const RADIX_KEYS_MIN: usize = 3_000;
const DIGIT_BITS: u32 = 11;
const DIGITS: usize = 1 << DIGIT_BITS;

/// Sorts `keys` by their high half; `spare` is memory to work in.
pub(super) fn sort(keys: &mut Vec<u64>, spare: &mut Vec<u64>) {
    if keys.len() < RADIX_KEYS_MIN {
        keys.sort_unstable();
        return;
    }
    let highest = keys.iter().fold(0, |all, key| all | key) >> 32;
    spare.clear();
    spare.resize(keys.len(), 0);
    for shift in (0..width_of(highest)).step_by(DIGIT_BITS as usize) {
        scatter(keys, spare, shift + 32);
        std::mem::swap(keys, spare);
    }
}

/// Puts `keys` into `sorted` by one digit, keeping the order of equals.
fn scatter(keys: &[u64], sorted: &mut [u64], shift: u32) {
    let digit = |key: u64| low32(key >> shift) as usize % DIGITS;
    let mut places = [0u32; DIGITS];
    for &key in keys {
        if let Some(count) = places.get_mut(digit(key)) {
            *count = count.wrapping_add(1);
        }
    }
    let mut next = 0;
    for place in &mut places {
        next += std::mem::replace(place, next);
    }
    for &key in keys {
        if let Some(place) = places.get_mut(digit(key)) {
            if let Some(slot) = sorted.get_mut(*place as usize) {
                *slot = key;
            }
            *place = place.wrapping_add(1);
        }
    }
}

/// A key of the offset of an address and its place in the request.
#[inline]
pub(super) fn key(offset: u32, place: u32) -> u64 {
    u64::from(offset) << 32 | u64::from(place)
}

/// Offset and place of a key.
#[inline]
pub(super) fn parts(key: u64) -> (u32, u32) {
    (low32(key >> 32), low32(key))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn keys_are_sorted_however_many_there_are(
            offsets in prop::collection::vec(any::<u32>(), 0..8_000),
            cut in 0u32..32,
        ) {
            let keys = offsets.iter().zip(0..).map(|(offset, place)| key(offset >> cut, place));
            let mut sorted: Vec<u64> = keys.collect();
            let mut expected = sorted.clone();
            sort(&mut sorted, &mut Vec::new());
            expected.sort_by_key(|key| key >> 32);
            prop_assert_eq!(sorted, expected);
        }
    }
}
