//! What the numbers of stacks stand for, and the names of their frames: all that a query needs beside its sums.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use unhex_pprof::{FrameHash, StackHash};

use super::question::StackFilter;
use super::sums::{Interned, Sums};
use crate::rows::{FrameContent, NativeFrame};
use crate::symbols::{Names, Wanted};
use crate::view::{FrameNumber, Merged, ProfileType};

/// What a stack reads that is in no dictionary, which only damage explains.
const NOT_FOUND: &str = "stack not found";

/// The stacks of a query.
#[derive(Clone, Debug, Default)]
pub struct Stacks {
    frames: Vec<Arc<FrameContent>>,
    numbers: Interned<FrameHash>,
    stacks: FxHashMap<StackHash, Box<[u32]>>,
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
            all.stacks.insert(stack, frames);
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
        self.stacks.get(&stack).unwrap_or(&self.lost)
    }

    /// The places that the symbol server is to be asked for.
    pub(super) fn wanted(&self) -> Wanted {
        let mut wanted = Wanted::default();
        for native in self.frames.iter().filter_map(|frame| native(frame)) {
            wanted.add(native);
        }
        wanted
    }

    /// The sums with their names, as far as their stacks pass.
    pub fn merged(
        &self,
        profile_type: ProfileType,
        sums: &Sums,
        (names, filter): (&Names, &StackFilter),
    ) -> Merged {
        let mut merged = Merged::new(profile_type);
        if let Some(lacking) = names.lacking() {
            merged.lack_names(lacking.clone());
        }
        let frames = self.named(&mut merged, names);
        let passing = Passing::of(&merged, &frames, filter);
        let mut numbers = Vec::new();
        for (_, stack, weight) in sums.iter() {
            let of_stack = self.of(stack);
            if passing.has(of_stack) {
                numbers.clear();
                let all = of_stack.iter().filter_map(|frame| at(&frames, *frame));
                numbers.extend(all.copied());
                merged.stack(&numbers, weight);
            }
        }
        merged
    }

    /// All frames with their names, in order of their numbers.
    fn named(&self, merged: &mut Merged, names: &Names) -> Vec<FrameNumber> {
        let frames = self.frames.iter().map(|frame| {
            let calls = native(frame).map_or(&[][..], |native| names.calls(native));
            merged.frame(frame, calls)
        });
        frames.collect()
    }

    /// The stacks that pass.
    pub(super) fn passing(&self, names: &Names, filter: &StackFilter) -> FxHashSet<StackHash> {
        let mut merged = Merged::new(ProfileType::cpu());
        let frames = self.named(&mut merged, names);
        let passing = Passing::of(&merged, &frames, filter);
        let all = self.stacks.iter();
        all.filter(|(_, frames)| passing.has(frames))
            .map(|(stack, _)| *stack)
            .collect()
    }
}

/// Which frames make a stack pass.
struct Passing {
    functions: Option<Vec<bool>>,
    binaries: Option<Vec<bool>>,
}

impl Passing {
    fn of(merged: &Merged, frames: &[FrameNumber], filter: &StackFilter) -> Self {
        let function = |number: &FrameNumber, passes: &dyn Fn(&str) -> bool| {
            let calls = merged.calls(*number).iter();
            let mut names = calls.filter_map(|call| merged.functions().get(call.function.index()));
            names.any(|function| passes(&function.name))
        };
        let binary = |number: &FrameNumber, passes: &dyn Fn(&str) -> bool| {
            let calls = merged.calls(*number).iter();
            let mut of = calls.filter_map(|call| merged.functions().get(call.function.index()));
            if of.any(|function| !function.binary.is_empty() && passes(&function.binary)) {
                return true;
            }
            let frame = merged.frames().get(number.index());
            let of = frame.and_then(|frame| merged.binaries().get(frame.binary?.index()));
            let identity = of.and_then(|binary| binary.identity.as_ref());
            identity.is_some_and(|identity| passes(&identity.to_string()))
        };
        Self {
            functions: filter.function.as_ref().map(|wanted| {
                let passes = |text: &str| wanted.passes(text);
                frames.iter().map(|f| function(f, &passes)).collect()
            }),
            binaries: filter.binary.as_ref().map(|wanted| {
                let passes = |text: &str| wanted.passes(text);
                frames.iter().map(|f| binary(f, &passes)).collect()
            }),
        }
    }

    fn has(&self, frames: &[u32]) -> bool {
        [&self.functions, &self.binaries].into_iter().all(|passing| {
            passing.as_ref().is_none_or(|passing| {
                let mut of_stack = frames.iter().filter_map(|frame| at(passing, *frame));
                of_stack.any(|passes| *passes)
            })
        })
    }
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
