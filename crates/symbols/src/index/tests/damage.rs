//! Damaged bytes: errors or wrong answers, never a panic, an endless loop or a huge allocation.

use proptest::prelude::*;

use super::models::{addresses, model};
use super::round_trip::index_of;
use crate::address::LinkAddress;
use crate::index::{
    Batch, FunctionId, IndexError, NameBuffer, NameSet, ResolveOptions, SourceFileId, SymbolIndex,
};

/// Asks an index for everything that can be asked.
pub(crate) fn exercise(bytes: &[u8], addresses: &[LinkAddress]) -> Result<(), IndexError> {
    let index = SymbolIndex::parse(bytes)?;
    let _verified = index.verify();
    let facts = index.facts();
    let mut buffer = NameBuffer::default();
    for address in addresses {
        for frame in index.frames(*address).unwrap_or_default() {
            let _names = index.function(frame.function, NameSet::All, &mut buffer);
            if let Some(file) = frame.file {
                let _path = index.path(file, &mut buffer);
            }
        }
    }
    let count = facts.map_or(9, |facts| facts.functions.min(200));
    for number in 0..count {
        let _names = index.function(FunctionId(number), NameSet::Short, &mut buffer);
        let _path = index.path(SourceFileId(number), &mut buffer);
    }
    let mut batch = Batch::default();
    for names in [NameSet::All, NameSet::Linkage] {
        let _answered = index.resolve(addresses, ResolveOptions { names }, &mut batch);
        for place in 0..addresses.len() {
            for frame in batch.frames_of(place) {
                let _names = batch.function(frame.function);
                let _path = batch.path(frame.file);
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn damaged_bytes_never_panic(
        model in model(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        zone in 0u8..3,
    ) {
        let index = index_of(&model);
        let mut bytes = index.into_inner();
        let mut addresses: Vec<LinkAddress> = addresses(&model).into_iter().map(LinkAddress).collect();
        addresses.truncate(300);
        // Half of the damage goes to the front, where it hurts most.
        let reach = if zone == 0 { bytes.len().min(600) } else { bytes.len() };
        for (place, byte) in damage {
            let place = place.index(reach);
            bytes[place] = byte;
        }
        let _opened = exercise(&bytes, &addresses);
    }

    #[test]
    fn an_index_that_is_cut_short_never_panics_and_is_not_verified(
        model in model(),
        end in any::<prop::sample::Index>(),
    ) {
        let bytes = index_of(&model).into_inner();
        let cut = &bytes[..end.index(bytes.len())];
        prop_assert!(exercise(cut, &[LinkAddress(0x1000)]).is_err());
    }

    #[test]
    fn noise_is_no_index(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(exercise(&bytes, &[LinkAddress(0x1000)]).is_err());
    }

    #[test]
    fn a_changed_byte_is_noticed_by_the_checksums(
        model in model(),
        place in any::<prop::sample::Index>(),
        change in 1u8..,
    ) {
        let mut bytes = index_of(&model).into_inner();
        let sound = bytes.clone();
        let place = place.index(bytes.len());
        bytes[place] ^= change;
        let noticed = SymbolIndex::parse(&bytes[..]).and_then(|index| index.verify());
        // Bytes between sections are covered by nothing and read by nothing.
        let padding = sound[place] == 0 && noticed.is_ok();
        prop_assert!(noticed.is_err() || padding, "byte {place} of {}", bytes.len());
    }
}
