//! What the numbers of stacks stand for, and the names of their frames: all that a query needs beside its sums.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use unhex_pprof::{FrameHash, StackHash};

use super::sums::{Interned, Sums};
use crate::rows::{FrameContent, NativeFrame};
use crate::symbols::{Names, Wanted};
use crate::view::{FrameNumber, Merged, ProfileType, StackFilter, Weight};

/// What a stack reads that is in no dictionary, which only damage explains.
const NOT_FOUND: &str = "stack not found";

/// The stacks of a query.
#[derive(Clone, Debug, Default)]
pub struct Stacks {
    frames: Vec<Arc<FrameContent>>,
    numbers: Interned<FrameHash>,
    frames_of: FxHashMap<StackHash, Box<[u32]>>,
    lost: Box<[u32]>,
}

impl Stacks {
    /// Stacks as the dictionary has them, and what it has of their frames.
    pub(super) fn new(
        stacks: impl IntoIterator<Item = (StackHash, Arc<[FrameHash]>)>,
        contents: &FxHashMap<FrameHash, Arc<FrameContent>>,
    ) -> Self {
        let lost: Arc<FrameContent> = Arc::new(FrameContent::Unplaced {
            file_name: NOT_FOUND.into(),
        });
        let mut all = Self::default();
        for (stack, frames) in stacks {
            let frames = frames.iter().map(|frame| {
                let number = all.numbers.number(frame);
                if all.frames.len() < all.numbers.items().len() {
                    let content = contents.get(frame).unwrap_or(&lost);
                    all.frames.push(Arc::clone(content));
                }
                number
            });
            let frames = frames.collect();
            all.frames_of.insert(stack, frames);
        }
        let number = u32::try_from(all.frames.len()).unwrap_or(u32::MAX);
        all.frames.push(lost);
        all.lost = Box::from([number]);
        all
    }

    /// The distinct frames, by their numbers.
    pub fn frames(&self) -> &[Arc<FrameContent>] {
        &self.frames
    }

    /// The frames of a stack, leaf first.
    pub fn of(&self, stack: StackHash) -> &[u32] {
        self.frames_of.get(&stack).unwrap_or(&self.lost)
    }

    /// The places that the symbol server is to be asked for.
    pub(super) fn wanted(&self) -> Wanted {
        let mut wanted = Wanted::default();
        for native in self.frames.iter().filter_map(|frame| native(frame)) {
            wanted.add(native);
        }
        wanted
    }

    /// The sums with their names.
    pub fn merged(&self, profile_type: ProfileType, sums: &Sums, names: &Names) -> Merged {
        let mut merged = Merged::new(profile_type);
        if let Some(lacking) = names.lacking() {
            merged.lack_names(lacking.clone());
        }
        let frames = self.named(&mut merged, names);
        for (_, stack, weight) in sums.iter() {
            merged.stack(&numbers(&frames, self.of(stack)), weight);
        }
        merged
    }

    /// The stacks that a filter keeps, sorted.
    pub(super) fn kept(&self, names: &Names, filter: &StackFilter) -> Arc<[StackHash]> {
        let mut merged = Merged::new(ProfileType::cpu());
        let frames = self.named(&mut merged, names);
        let all: Vec<(&StackHash, &Box<[u32]>)> = self.frames_of.iter().collect();
        for (place, (_, stack)) in (0_i128..).zip(&all) {
            // By its weight a stack is known again.
            let weight = Weight {
                count: place,
                value: 0,
            };
            merged.stack(&numbers(&frames, stack), weight);
        }
        let kept = filter.apply(merged);
        let places = kept
            .stacks()
            .map(|stack| usize::try_from(stack.weight.count));
        let stacks = places.filter_map(|place| all.get(place.ok()?));
        let mut stacks: Vec<StackHash> = stacks.map(|(stack, _)| **stack).collect();
        stacks.sort_unstable();
        stacks.into()
    }

    /// All frames with their names, in order of their numbers.
    fn named(&self, merged: &mut Merged, names: &Names) -> Vec<FrameNumber> {
        let frames = self.frames.iter().map(|frame| {
            let calls = native(frame).map_or(&[][..], |native| names.calls(native));
            merged.frame(frame, calls)
        });
        frames.collect()
    }
}

fn numbers(frames: &[FrameNumber], stack: &[u32]) -> Vec<FrameNumber> {
    let frames = stack.iter().filter_map(|frame| at(frames, *frame));
    frames.copied().collect()
}

/// The place that a frame is, if it is one.
pub(super) fn native(frame: &FrameContent) -> Option<&NativeFrame> {
    match frame {
        FrameContent::Native(native) | FrameContent::Vdso(native) => Some(native),
        _ => None,
    }
}

pub(super) fn at<T>(items: &[T], number: u32) -> Option<&T> {
    items.get(usize::try_from(number).ok()?)
}
