//! Asks an index, sound or not, for everything that can be asked; shared by fuzzing and the tests
//! that replay its corpus.

use unhex_symbols::address::LinkAddress;
use unhex_symbols::index::{
    Batch, FunctionId, NameBuffer, NameSet, ResolveOptions, SourceFileId, SymbolIndex,
};

/// Opens `data` and asks for facts, single addresses, names and a batch.
pub(crate) fn exercise(data: &[u8]) {
    let Ok(index) = SymbolIndex::parse(data) else {
        return;
    };
    let _verified = index.verify();
    let facts = index.facts();
    let addresses = addresses_for(data);
    let mut buffer = NameBuffer::default();
    for address in &addresses {
        for frame in index.frames(*address).unwrap_or_default() {
            let _names = index.function(frame.function, NameSet::All, &mut buffer);
            if let Some(file) = frame.file {
                let _path = index.path(file, &mut buffer);
            }
        }
    }
    let functions = facts.map_or(9, |facts| facts.functions.min(99));
    for number in 0..functions {
        let _names = index.function(FunctionId(number), NameSet::Short, &mut buffer);
        let _path = index.path(SourceFileId(number), &mut buffer);
    }
    let mut batch = Batch::default();
    for names in [NameSet::All, NameSet::Linkage] {
        let _answered = index.resolve(&addresses, ResolveOptions { names }, &mut batch);
        for place in 0..addresses.len() {
            for frame in batch.frames_of(place) {
                let _names = batch.function(frame.function);
                let _path = batch.path(frame.file);
            }
        }
    }
}

/// The code of the seeds, and whatever numbers the input itself has: fuzzing can steer them.
fn addresses_for(data: &[u8]) -> Vec<LinkAddress> {
    let seeded = (0..400).map(|step| LinkAddress(0x40_1000 + step * 9));
    let far = (0..100).map(|step| LinkAddress(0x12_3496_8890 + step * 19));
    let numbers = data.as_chunks::<8>().0.iter().take(200);
    let numbers = numbers.map(|bytes| LinkAddress(u64::from_le_bytes(*bytes)));
    seeded.chain(far).chain(numbers).collect()
}
