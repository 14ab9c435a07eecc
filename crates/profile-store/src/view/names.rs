//! The text by which people see each function, and an order of functions that does not depend on how they were numbered.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::merged::{FrameNumber, Merged};
use super::shown::{ShownFunction, ShownKind};

/// The functions of a query in the order of their texts.
#[derive(Clone, Debug)]
pub(super) struct Names {
    /// By rank. Two places without names never have the same text: where the binaries have one file name, the identity is said.
    pub(super) functions: Vec<ShownFunction>,
    /// The rank of each function, by its number.
    pub(super) ranks: Vec<u32>,
}

impl Names {
    pub(super) fn of(merged: &Merged) -> Self {
        let mut functions = merged.functions().to_vec();
        tell_apart(merged, &mut functions);
        let mut order: Vec<usize> = (0..functions.len()).collect();
        order.sort_by(|one, other| key(&functions, *one).cmp(&key(&functions, *other)));
        let mut ranks = vec![0; functions.len()];
        for (rank, place) in (0..).zip(&order) {
            if let Some(of) = ranks.get_mut(*place) {
                *of = rank;
            }
        }
        let ordered = order.iter().filter_map(|place| functions.get(*place));
        Self {
            functions: ordered.cloned().collect(),
            ranks,
        }
    }
}

fn key(functions: &[ShownFunction], place: usize) -> Option<(&str, &str, &str, ShownKind)> {
    let function = functions.get(place)?;
    Some((
        &function.name,
        &function.binary,
        &function.file,
        function.kind,
    ))
}

/// Says the identity of the binary where two functions without names would read alike.
fn tell_apart(merged: &Merged, functions: &mut [ShownFunction]) {
    let is_a_place = |kind| matches!(kind, ShownKind::Unresolved | ShownKind::Vdso);
    let mut seen: FxHashMap<Arc<str>, u32> = FxHashMap::default();
    for function in functions
        .iter()
        .filter(|function| is_a_place(function.kind))
    {
        *seen.entry(Arc::clone(&function.name)).or_default() += 1;
    }
    seen.retain(|_, times| *times > 1);
    if seen.is_empty() {
        return;
    }
    for frame in merged.frames() {
        let (Some(binary), [call]) = (frame.binary, merged.calls_of(frame)) else {
            continue;
        };
        let binary = merged.binaries().get(binary.index());
        let function = functions.get_mut(call.function.index());
        let (Some(binary), Some(function)) = (binary, function) else {
            continue;
        };
        // Once: afterwards it has another name.
        if is_a_place(function.kind) && seen.contains_key(&function.name) {
            let whose = match &binary.identity {
                Some(identity) => identity.to_string(),
                None => binary.file_name.to_string(),
            };
            function.name = format!("{} [{whose}]", function.name).into();
        }
    }
}

/// Numbers for each frame's functions, innermost first: small, since it is looked at for each frame of each stack.
#[derive(Debug)]
pub(super) struct FrameFunctions {
    pool: Vec<u32>,
    /// Where each frame ends in the pool.
    ends: Vec<u32>,
}

impl FrameFunctions {
    /// From a number for each function.
    pub(super) fn of(merged: &Merged, numbers: &[u32]) -> Self {
        let mut all = Self {
            pool: Vec::new(),
            ends: Vec::with_capacity(merged.frames().len()),
        };
        for frame in merged.frames() {
            let calls = merged.calls_of(frame).iter();
            let of = calls.filter_map(|call| numbers.get(call.function.index()));
            all.pool.extend(of);
            all.ends
                .push(u32::try_from(all.pool.len()).unwrap_or(u32::MAX));
        }
        all
    }

    #[inline]
    pub(super) fn of_frame(&self, frame: FrameNumber) -> &[u32] {
        let place = frame.index();
        let Some(end) = self.ends.get(place) else {
            return &[];
        };
        let before = place.checked_sub(1);
        let start = before.and_then(|before| self.ends.get(before));
        let start = start.copied().unwrap_or_default();
        let range = start as usize..*end as usize;
        self.pool.get(range).unwrap_or_default()
    }
}
