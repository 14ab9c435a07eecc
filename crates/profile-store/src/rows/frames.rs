//! What the table keeps of a frame: enough to ask for its names, or the names where nobody could be asked.
//!
//! A native frame of a binary with an identity has no names here, also if the profiler gave some: the symbol server's are found when somebody looks, and are
//! better the later that is.

use std::sync::Arc;

use unhex_build_id::Identity;
use unhex_pprof::{BinaryRole, CodeAddress, Frame, FrameKind, Line, Profiles, StringId};

use super::text::Texts;

/// Bytes of a name or path of a frame, which is cut there: paths have 4,096 at most, and longer names of
/// templates differ in front of that.
pub const FRAME_TEXT_BYTES_MAX: usize = 4_096;

/// A frame as it is kept. Which of several with one number is kept does not depend on their order: the least.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FrameContent {
    /// Code of a file, to be named by the symbol server; without an identity it cannot be.
    Native(NativeFrame),
    /// Code that the kernel gives every process: nobody uploads its debug information.
    Vdso(NativeFrame),
    /// Names that are final: interpreted code, and native code that nobody can identify but has names.
    Named {
        /// The word of `profile.frame.type`, empty if the profiler has not said.
        language: Arc<str>,
        /// Innermost first.
        names: Vec<FrameName>,
    },
    /// The kernel, or the module of it that is the file name; the names are final.
    Kernel {
        /// The module.
        file_name: Arc<str>,
        /// Innermost first.
        names: Vec<FrameName>,
    },
    /// The profiler cannot unwind this runtime.
    MissingUnwinder {
        /// The runtime, as `python`.
        runtime: Arc<str>,
    },
    /// The profiler stopped here.
    Truncated {
        /// Why, as `[truncated: max depth]`.
        reason: Arc<str>,
    },
    /// Code that nobody can name: memory without a file, or outside of all mappings. The file name is empty if there is none.
    Unplaced {
        /// The file whose mapping the address should have been in.
        file_name: Arc<str>,
    },
}

/// A place in a binary.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NativeFrame {
    /// What the symbol server knows the binary by.
    pub identity: Option<Identity>,
    /// Its file name, for people.
    pub file_name: Arc<str>,
    /// The place.
    pub address: CodeAddress,
}

/// A function that the profiler named.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FrameName {
    /// Its name for people, or else the one for linkers.
    pub function: Arc<str>,
    /// The source file, empty if unknown.
    pub file_name: Arc<str>,
    /// The line in it, 0 if unknown.
    pub line: i64,
}

/// What is known of a frame's name before anybody asks the symbol server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FrameCoverage {
    /// The symbol server is to be asked.
    ToAsk,
    /// Native code without an identity: the profiler found no build ID.
    NoIdentity,
    /// It has its final names.
    Named,
    /// The kernel's, with a name or without: no missing symbols, since its names come from the host.
    Kernel,
    /// The vdso's: no missing symbols.
    Vdso,
    /// Memory without a file, or no mapping: no missing symbols either.
    Unplaced,
    /// The profiler cannot unwind this runtime.
    MissingUnwinder(Arc<str>),
    /// The stack ends here, for this reason.
    Truncated(Arc<str>),
}

impl FrameContent {
    /// What is known of its name.
    pub fn coverage(&self) -> FrameCoverage {
        match self {
            Self::Native(native) if native.identity.is_some() => FrameCoverage::ToAsk,
            Self::Native(_) => FrameCoverage::NoIdentity,
            Self::Vdso(_) => FrameCoverage::Vdso,
            Self::Named { .. } => FrameCoverage::Named,
            Self::Kernel { .. } => FrameCoverage::Kernel,
            Self::Unplaced { .. } => FrameCoverage::Unplaced,
            Self::MissingUnwinder { runtime } => {
                FrameCoverage::MissingUnwinder(Arc::clone(runtime))
            }
            Self::Truncated { reason } => FrameCoverage::Truncated(Arc::clone(reason)),
        }
    }
}

/// Reads the frames of a message as what is kept.
#[derive(Debug)]
pub(super) struct FrameReader<'m, 'a> {
    model: &'m Profiles<'a>,
    texts: Texts<'m, 'a>,
}

impl<'m, 'a> FrameReader<'m, 'a> {
    pub(super) fn new(model: &'m Profiles<'a>) -> Self {
        Self {
            model,
            texts: Texts::new(model, FRAME_TEXT_BYTES_MAX),
        }
    }

    pub(super) fn content(&mut self, frame: &Frame) -> FrameContent {
        let binary = frame.binary.and_then(|id| self.model.binary(id));
        let identity = binary.and_then(|binary| binary.identity.clone());
        let role = binary.map(|binary| binary.role);
        let file_name = binary.map_or(StringId::EMPTY, |binary| binary.file_name);
        let has_names = !self.model.lines(frame).is_empty();
        match frame.kind {
            FrameKind::Native(_) if identity.is_none() && has_names => self.named(frame),
            FrameKind::Native(address) => {
                let file_name = self.text(file_name);
                let native = NativeFrame {
                    identity,
                    file_name,
                    address,
                };
                if role == Some(BinaryRole::Vdso) {
                    FrameContent::Vdso(native)
                } else {
                    FrameContent::Native(native)
                }
            }
            FrameKind::Named => self.named(frame),
            FrameKind::Kernel => FrameContent::Kernel {
                file_name: self.text(file_name),
                names: self.names(frame),
            },
            FrameKind::MissingUnwinder => FrameContent::MissingUnwinder {
                runtime: self.runtime(frame),
            },
            FrameKind::Truncated => FrameContent::Truncated {
                reason: self.outermost_name(frame),
            },
            FrameKind::Unplaced => {
                let is_file = role == Some(BinaryRole::File);
                let file_name = if is_file { file_name } else { StringId::EMPTY };
                FrameContent::Unplaced {
                    file_name: self.text(file_name),
                }
            }
        }
    }

    fn named(&mut self, frame: &Frame) -> FrameContent {
        FrameContent::Named {
            language: self.text(frame.language),
            names: self.names(frame),
        }
    }

    fn names(&mut self, frame: &Frame) -> Vec<FrameName> {
        let lines = self.model.lines(frame).iter();
        lines.map(|line| self.name(line)).collect()
    }

    fn name(&mut self, line: &Line) -> FrameName {
        let function = self.model.function(line.function).copied();
        let function = function.unwrap_or_default();
        let name = self.text(function.name);
        let function_name = if name.is_empty() {
            self.text(function.system_name)
        } else {
            name
        };
        FrameName {
            function: function_name,
            file_name: self.text(function.file_name),
            line: line.line,
        }
    }

    fn outermost_name(&mut self, frame: &Frame) -> Arc<str> {
        let line = self.model.lines(frame).last().copied();
        line.map_or_else(|| "".into(), |line| self.name(&line).function)
    }

    /// The name without its brackets, or the frame's type where there is none.
    fn runtime(&mut self, frame: &Frame) -> Arc<str> {
        let name = self.outermost_name(frame);
        let bare = name.trim_matches(['[', ']']);
        if bare.is_empty() {
            self.text(frame.language)
        } else {
            bare.into()
        }
    }

    fn text(&mut self, id: StringId) -> Arc<str> {
        self.texts.get(id).0
    }
}
