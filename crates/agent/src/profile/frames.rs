//! The frames, binaries and stacks of a message that grows, each once.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use unhex_pprof::{
    Binary as SentBinary, BinaryId, BinaryRole, Builder, CodeAddress, Extent, Frame, FrameId,
    FrameKind, Function, Line, StackId,
};
use unhex_symbols::address::{LinkAddress, ProcessAddress};
use unhex_symbols::segments::LoadSegment;

use super::KernelSymbol;
use crate::processes::{Binary, BinaryKind, Region};
use crate::runtimes::Runtime;
use crate::sample::{ProcessId, Stop};
use crate::upload::Sampled;

/// The word of `profile.frame.type` for code that the symbol server knows.
const NATIVE: &str = "native";
/// That of the kernel.
const KERNEL: &str = "kernel";
/// How the kernel itself is called, as opposed to its modules.
pub(super) const KERNEL_PROPER: &str = "vmlinux";
/// What code is called that was made while the process ran, nobody knows by whom.
const UNKNOWN_RUNTIME: &str = "[jit]";

/// How files are called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileNames {
    /// Without their folders: in a container a file has another path than outside.
    #[default]
    Base,
    /// With them, for readers on this host, which find symbols there.
    Path,
}

/// Frames that are sent, each once.
#[derive(Debug, Default)]
pub(super) struct Frames {
    pub(super) builder: Builder<'static>,
    file_names: FileNames,
    /// Bytes of names.
    pub(super) text_bytes: usize,
    known: FxHashMap<Key, FrameId>,
    binaries: FxHashMap<Place, BinaryId>,
    modules: FxHashMap<Box<str>, BinaryId>,
    /// What is in the keys by its address stays there until they are gone.
    held: Vec<Sampled>,
}

/// A part of a binary that is mapped as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Place {
    /// Where the [`Binary`] lies, which all that have it mapped share.
    binary: usize,
    extent: Extent,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Native(BinaryId, u64),
    Kernel(Box<str>, u64),
    NamelessKernel,
    Named(Option<Runtime>, Box<str>),
    Missing(Option<Runtime>),
    Unplaced,
    Stopped(Stop),
}

impl Frames {
    /// None yet; files are to be called so.
    pub(super) fn new(file_names: FileNames) -> Self {
        Self {
            file_names,
            ..Self::default()
        }
    }

    /// Code of a file or of the vdso; `address` is what ran or called.
    pub(super) fn native(
        &mut self,
        process: ProcessId,
        (region, address): (&Region, ProcessAddress),
    ) -> FrameId {
        let (extent, address) = placed(region, address);
        let binary = self.binary(process, &region.binary, extent);
        let kind = FrameKind::Native(CodeAddress::Link(address));
        self.frame(Key::Native(binary, address), |frames| Frame {
            kind,
            binary: Some(binary),
            address,
            language: frames.builder.string(NATIVE),
            ..Frame::default()
        })
    }

    /// Code of the kernel, with its name if that may be known.
    pub(super) fn kernel(&mut self, symbol: Option<KernelSymbol<'_>>) -> FrameId {
        let Some(symbol) = symbol else {
            return self.frame(Key::NamelessKernel, |frames| Frame {
                kind: FrameKind::Kernel,
                binary: Some(frames.module(KERNEL_PROPER)),
                language: frames.builder.string(KERNEL),
                ..Frame::default()
            });
        };
        let key = Key::Kernel(symbol.module.into(), symbol.offset);
        self.named_frame(key, symbol.name, |frames| Frame {
            kind: FrameKind::Kernel,
            binary: Some(frames.module(symbol.module)),
            address: symbol.offset,
            language: frames.builder.string(KERNEL),
            ..Frame::default()
        })
    }

    /// A function that its runtime named.
    pub(super) fn named(&mut self, runtime: Option<Runtime>, name: &str) -> FrameId {
        let key = Key::Named(runtime, name.into());
        self.named_frame(key, name, |frames| Frame {
            kind: FrameKind::Named,
            language: frames
                .builder
                .string(runtime.map_or("", Runtime::frame_type)),
            ..Frame::default()
        })
    }

    /// Any number of frames that nobody can unwind but their runtime.
    pub(super) fn missing(&mut self, runtime: Option<Runtime>) -> FrameId {
        let name = runtime.map_or(UNKNOWN_RUNTIME, Runtime::marker);
        self.named_frame(Key::Missing(runtime), name, |frames| Frame {
            kind: FrameKind::MissingUnwinder,
            language: frames
                .builder
                .string(runtime.map_or("", Runtime::frame_type)),
            ..Frame::default()
        })
    }

    /// An address in no mapping. What it is differs in every process, and is not sent.
    pub(super) fn unplaced(&mut self) -> FrameId {
        self.frame(Key::Unplaced, |frames| Frame {
            kind: FrameKind::Unplaced,
            language: frames.builder.string(NATIVE),
            ..Frame::default()
        })
    }

    /// The end of a stack that is not complete.
    pub(super) fn stopped(&mut self, stop: Stop) -> FrameId {
        let name = format!("[truncated: {}]", stop.as_str());
        self.named_frame(Key::Stopped(stop), &name, |_frames| Frame {
            kind: FrameKind::Truncated,
            ..Frame::default()
        })
    }

    /// The binaries that have frames, each as often as it has parts.
    pub(super) fn binaries(&self) -> &[Sampled] {
        &self.held
    }

    pub(super) fn stack(&mut self, frames: &[FrameId]) -> StackId {
        self.builder.stack(frames)
    }

    fn frame(&mut self, key: Key, make: impl FnOnce(&mut Self) -> Frame) -> FrameId {
        if let Some(id) = self.known.get(&key) {
            return *id;
        }
        let frame = make(self);
        let id = self.builder.frame(frame, &[]);
        self.known.insert(key, id);
        id
    }

    fn named_frame(
        &mut self,
        key: Key,
        name: &str,
        make: impl FnOnce(&mut Self) -> Frame,
    ) -> FrameId {
        if let Some(id) = self.known.get(&key) {
            return *id;
        }
        let frame = make(self);
        self.text_bytes += name.len();
        let function = Function {
            name: self.builder.string(name.to_owned()),
            ..Function::default()
        };
        let line = Line {
            function: self.builder.function(function),
            ..Line::default()
        };
        let id = self.builder.frame(frame, &[line]);
        self.known.insert(key, id);
        id
    }

    fn binary(&mut self, process: ProcessId, binary: &Arc<Binary>, extent: Extent) -> BinaryId {
        let place = Place {
            binary: Arc::as_ptr(binary).addr(),
            extent,
        };
        if let Some(id) = self.binaries.get(&place) {
            return *id;
        }
        self.held.push(Sampled {
            process,
            binary: Arc::clone(binary),
        });
        let path = binary.name.trim_end_matches(" (deleted)");
        let name = match self.file_names {
            FileNames::Base => path.rsplit('/').next().unwrap_or(path),
            FileNames::Path => path,
        };
        let id = SentBinary {
            file_name: self.builder.string(name.to_owned()),
            identity: binary.identity.clone(),
            role: match binary.kind {
                BinaryKind::Vdso => BinaryRole::Vdso,
                BinaryKind::File | BinaryKind::Anonymous => BinaryRole::File,
            },
            extent,
            ..SentBinary::default()
        };
        let id = self.builder.binary(id);
        self.binaries.insert(place, id);
        id
    }

    /// The kernel proper, or a module of it.
    fn module(&mut self, name: &str) -> BinaryId {
        if let Some(id) = self.modules.get(name) {
            return *id;
        }
        let file_name = self.builder.string(name.to_owned());
        let id = self.builder.binary(SentBinary {
            file_name,
            role: BinaryRole::Kernel,
            ..SentBinary::default()
        });
        self.modules.insert(name.into(), id);
        id
    }
}

/// An address as it is sent, and the range of such addresses that it lies in.
fn placed(region: &Region, address: ProcessAddress) -> (Extent, u64) {
    if let Some(linked) = region.link_address(address) {
        let mut segments = region.binary.segments.0.iter();
        let segment = segments.find(|segment| has(segment, linked));
        let extent = segment.map(|segment| Extent {
            start: segment.address,
            limit: segment.address.saturating_add(segment.memory_size_bytes),
            file_offset: segment.file_offset,
        });
        return (extent.unwrap_or_default(), linked.0);
    }
    // Of a file that could not be read nobody knows how it is linked. Its offsets are the same in every process.
    let mapping = region.mapping;
    let start = mapping.file_offset.0;
    let bytes = mapping.end.0.saturating_sub(mapping.start.0);
    let extent = Extent {
        start,
        limit: start.saturating_add(bytes),
        file_offset: start,
    };
    let within = address.0.saturating_sub(mapping.start.0);
    (extent, start.saturating_add(within))
}

fn has(segment: &LoadSegment, address: LinkAddress) -> bool {
    let within = address.0.checked_sub(segment.address);
    within.is_some_and(|within| within < segment.memory_size_bytes)
}
