//! The stacks of a query, each once with what was counted there, and the names of their frames.
//!
//! A frame is a place in a binary, as the profiler saw it; its calls are the functions that are there, inlined ones first. Functions are what people look at: the
//! same function of two builds is one, and a place that nobody could name is a function of its own, so that no two such places are ever added up.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use unhex_pprof::CodeAddress;

use super::profile_type::ProfileType;
use super::shown::{Call, ShownBinary, ShownFunction, ShownKind, Weight};
use crate::rows::{FrameContent, FrameName, NativeFrame};

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u32);

        impl $name {
            /// The place in its table.
            #[inline]
            pub fn index(self) -> usize {
                self.0 as usize
            }

            fn of_next<T>(table: &[T]) -> Self {
                // The limits of a query are far below 2^32; one beyond would be in no table.
                Self(u32::try_from(table.len()).unwrap_or(u32::MAX))
            }
        }
    };
}

number! {
    /// A frame of a [`Merged`].
    FrameNumber
}
number! {
    /// A function of a [`Merged`], what trees and tables are made of.
    FunctionNumber
}
number! {
    /// A binary of a [`Merged`].
    BinaryNumber
}

/// A function of a frame, and where in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShownCall {
    /// The function.
    pub function: FunctionNumber,
    /// The line in its file, 0 if unknown.
    pub line: u32,
}

/// A frame: a place with its functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownFrame {
    /// What it is.
    pub kind: ShownKind,
    /// What its code was loaded from, if it is known.
    pub binary: Option<BinaryNumber>,
    /// The place in it.
    pub address: Option<CodeAddress>,
    calls: (usize, usize),
}

/// A stack and what was counted there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stack<'m> {
    /// Leaf first.
    pub frames: &'m [FrameNumber],
    /// What was counted.
    pub weight: Weight,
}

/// Names that are not there because nobody could be asked; they may be there a moment later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamesLacking {
    /// Frames that were not asked for, or not answered.
    pub frames: u64,
    /// Why, for people.
    pub detail: Arc<str>,
}

/// What a query found.
///
/// ```
/// use unhex_profile_store::rows::FrameContent;
/// use unhex_profile_store::view::{Merged, ProfileType, Weight};
///
/// let mut merged = Merged::new(ProfileType::cpu());
/// let python = merged.frame(&FrameContent::MissingUnwinder { runtime: "python".into() }, &[]);
/// merged.stack(&[python], Weight { count: 2, value: 100 });
/// assert_eq!(merged.total(), Weight { count: 2, value: 100 });
/// assert_eq!(&*merged.functions()[0].name, "[python]");
/// ```
#[derive(Clone, Debug)]
pub struct Merged {
    profile_type: ProfileType,
    binaries: Vec<ShownBinary>,
    functions: Vec<ShownFunction>,
    frames: Vec<ShownFrame>,
    calls: Vec<ShownCall>,
    stack_frames: Vec<FrameNumber>,
    /// Where each stack ends in `stack_frames`.
    stacks: Vec<(usize, Weight)>,
    total: Weight,
    names_lacking: Option<NamesLacking>,
    function_numbers: FxHashMap<FunctionKey, FunctionNumber>,
    binary_numbers: FxHashMap<ShownBinary, BinaryNumber>,
}

/// By what functions are one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct FunctionKey {
    shown: ShownFunction,
    /// Of code without a name.
    place: Option<(Option<BinaryNumber>, Option<CodeAddress>)>,
}

impl Merged {
    /// Without stacks yet.
    pub fn new(profile_type: ProfileType) -> Self {
        Self {
            profile_type,
            binaries: Vec::new(),
            functions: Vec::new(),
            frames: Vec::new(),
            calls: Vec::new(),
            stack_frames: Vec::new(),
            stacks: Vec::new(),
            total: Weight::default(),
            names_lacking: None,
            function_numbers: FxHashMap::default(),
            binary_numbers: FxHashMap::default(),
        }
    }

    /// A frame as the table keeps it, with the names that the symbol server has for it: innermost first, that is inlined calls and then the function that
    /// was really called; empty if it has none. Names are only taken for native frames and the vdso's; all others have theirs.
    ///
    /// Each frame is to be given once; what is given twice is two frames of the same functions.
    pub fn frame(&mut self, content: &FrameContent, names: &[Call]) -> FrameNumber {
        match content {
            FrameContent::Native(native) => self.native(native, ShownKind::Native, names),
            FrameContent::Vdso(native) => self.native(native, ShownKind::Vdso, names),
            FrameContent::Named { language, names } => {
                let names = calls_of(names, || bracketed(language, "unnamed"));
                self.without_place(ShownKind::Named, "", &names)
            }
            FrameContent::Kernel { file_name, names } => {
                let names = calls_of(names, || bracketed(base_name(file_name), "kernel"));
                self.without_place(ShownKind::Kernel, file_name, &names)
            }
            FrameContent::MissingUnwinder { runtime } => {
                let name = named(bracketed(runtime, "unknown runtime"));
                self.without_place(ShownKind::MissingUnwinder, "", &[name])
            }
            FrameContent::Truncated { reason } => {
                let name = named(bracketed(reason, "truncated"));
                self.without_place(ShownKind::Truncated, "", &[name])
            }
            FrameContent::Unplaced { file_name } => {
                let name = match base_name(file_name) {
                    "" => "[unplaced]".into(),
                    file => format!("[unplaced: {file}]").into(),
                };
                self.without_place(ShownKind::Unplaced, file_name, &[named(name)])
            }
        }
    }

    /// A stack, leaf first. The same stack may be given several times; its weights add up in whatever is made of it.
    pub fn stack(&mut self, frames: &[FrameNumber], weight: Weight) {
        self.stack_frames.extend_from_slice(frames);
        self.stacks.push((self.stack_frames.len(), weight));
        self.total += weight;
    }

    /// Says that names are not complete, and why; what is said later replaces it.
    pub fn lack_names(&mut self, lacking: NamesLacking) {
        self.names_lacking = Some(lacking);
    }

    /// What is counted.
    pub fn profile_type(&self) -> &ProfileType {
        &self.profile_type
    }

    /// The sum over all stacks.
    pub fn total(&self) -> Weight {
        self.total
    }

    /// None if everybody who may know names was asked and has answered.
    pub fn names_lacking(&self) -> Option<&NamesLacking> {
        self.names_lacking.as_ref()
    }

    /// All functions, by their numbers.
    pub fn functions(&self) -> &[ShownFunction] {
        &self.functions
    }

    /// All frames, by their numbers.
    pub fn frames(&self) -> &[ShownFrame] {
        &self.frames
    }

    /// All binaries, by their numbers.
    pub fn binaries(&self) -> &[ShownBinary] {
        &self.binaries
    }

    /// The functions of a frame, innermost first: all but the last are inlined. Never empty for a frame of this.
    #[inline]
    pub fn calls(&self, frame: FrameNumber) -> &[ShownCall] {
        let frame = self.frames.get(frame.index());
        frame.map_or(&[], |frame| self.calls_of(frame))
    }

    /// All stacks, in the order in which they were given.
    pub fn stacks(&self) -> impl ExactSizeIterator<Item = Stack<'_>> {
        let mut start = 0;
        self.stacks.iter().map(move |(end, weight)| {
            let frames = self.stack_frames.get(start..*end).unwrap_or_default();
            start = *end;
            Stack {
                frames,
                weight: *weight,
            }
        })
    }

    /// The functions of a frame of this.
    pub(super) fn calls_of(&self, frame: &ShownFrame) -> &[ShownCall] {
        let (start, end) = frame.calls;
        self.calls.get(start..end).unwrap_or_default()
    }

    /// This with those stacks alone that are wanted by their frames, the leaf's first.
    pub(super) fn with_stacks(mut self, is_wanted: impl Fn(&[FrameNumber]) -> bool) -> Self {
        let kept: Vec<bool> = self.stacks().map(|stack| is_wanted(stack.frames)).collect();
        let (frames, stacks) = (
            std::mem::take(&mut self.stack_frames),
            std::mem::take(&mut self.stacks),
        );
        self.total = Weight::default();
        let mut start = 0;
        for ((end, weight), is_kept) in stacks.into_iter().zip(kept) {
            if is_kept {
                self.stack(frames.get(start..end).unwrap_or_default(), weight);
            }
            start = end;
        }
        self
    }

    fn native(&mut self, native: &NativeFrame, kind: ShownKind, names: &[Call]) -> FrameNumber {
        let binary = self.binary(ShownBinary {
            identity: native.identity.clone(),
            file_name: Arc::clone(&native.file_name),
        });
        let place = (Some(binary), Some(native.address));
        if !names.is_empty() {
            return self.push_frame(kind, place, &native.file_name, names, false);
        }
        let kind = match kind {
            ShownKind::Vdso => ShownKind::Vdso,
            _ => ShownKind::Unresolved,
        };
        let name = named(unresolved(native).into());
        self.push_frame(kind, place, &native.file_name, &[name], true)
    }

    fn without_place(&mut self, kind: ShownKind, file_name: &str, names: &[Call]) -> FrameNumber {
        self.push_frame(kind, (None, None), file_name, names, false)
    }

    fn push_frame(
        &mut self,
        kind: ShownKind,
        place: (Option<BinaryNumber>, Option<CodeAddress>),
        file_name: &str,
        names: &[Call],
        is_unnamed: bool,
    ) -> FrameNumber {
        let start = self.calls.len();
        for name in names {
            let function = self.function(FunctionKey {
                shown: ShownFunction {
                    name: Arc::clone(&name.function),
                    file: Arc::clone(&name.file),
                    binary: base_name(file_name).into(),
                    kind,
                },
                place: is_unnamed.then_some(place),
            });
            let line = name.line;
            self.calls.push(ShownCall { function, line });
        }
        let number = FrameNumber::of_next(&self.frames);
        let (binary, address) = place;
        self.frames.push(ShownFrame {
            kind,
            binary,
            address,
            calls: (start, self.calls.len()),
        });
        number
    }

    fn function(&mut self, key: FunctionKey) -> FunctionNumber {
        if let Some(number) = self.function_numbers.get(&key) {
            return *number;
        }
        let number = FunctionNumber::of_next(&self.functions);
        self.functions.push(key.shown.clone());
        self.function_numbers.insert(key, number);
        number
    }

    fn binary(&mut self, binary: ShownBinary) -> BinaryNumber {
        if let Some(number) = self.binary_numbers.get(&binary) {
            return *number;
        }
        let number = BinaryNumber::of_next(&self.binaries);
        self.binaries.push(binary.clone());
        self.binary_numbers.insert(binary, number);
        number
    }
}

fn named(function: Arc<str>) -> Call {
    Call {
        function,
        ..Call::default()
    }
}

/// The names that a frame came with, or the one that stands for them.
fn calls_of(names: &[FrameName], otherwise: impl FnOnce() -> Arc<str>) -> Vec<Call> {
    let calls = names.iter().filter(|name| !name.function.is_empty());
    let mut calls: Vec<Call> = calls
        .map(|name| Call {
            function: Arc::clone(&name.function),
            file: Arc::clone(&name.file_name),
            line: u32::try_from(name.line).unwrap_or_default(),
        })
        .collect();
    if calls.is_empty() {
        calls.push(named(otherwise()));
    }
    calls
}

/// `[word]`, whether the word has its brackets or not.
fn bracketed(word: &str, otherwise: &str) -> Arc<str> {
    let bare = word.trim_matches(['[', ']']);
    let bare = if bare.is_empty() { otherwise } else { bare };
    format!("[{bare}]").into()
}

/// `libfoo.so+0x1a2b`; `@` instead of `+` for an offset into the file, which is another number.
fn unresolved(native: &NativeFrame) -> String {
    let file = match base_name(&native.file_name) {
        "" => "[unknown]",
        file => file,
    };
    match native.address {
        CodeAddress::Link(address) => format!("{file}+{address:#x}"),
        CodeAddress::FileOffset(offset) => format!("{file}@{offset:#x}"),
    }
}

fn base_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

#[cfg(test)]
mod tests;
