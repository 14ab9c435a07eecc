//! The number of a stack that is the same wherever, whenever and in whichever order of tables it was seen.
//!
//! [`Hashes`] has the algorithm: it is part of what stores keep, so that it changes with its version only.

use std::collections::HashMap;

use sha2::{Digest, Sha256};
use unhex_build_id::Hex;

use crate::model::{
    Binary, BinaryRole, CodeAddress, Frame, FrameId, FrameKind, Function, Profiles, StackId,
    StringId,
};

/// The hash of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameHash(pub [u8; 16]);

/// The hash of a stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StackHash(pub [u8; 16]);

impl std::fmt::Display for StackHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Hex(&self.0).fmt(f)
    }
}

/// The hashes of all frames of a model, and from them those of its stacks.
///
/// A store keeps each stack once under this number, so it says what a stack *is*, not what was known of
/// it: names that debug information gives later do not change it, and neither does where a process was loaded.
/// SHA-256, cut to 16 bytes, since senders are strangers: nobody can make two stacks share a number. Version 1:
///
/// - `H(x)` is the first 16 bytes of the SHA-256 of x. Numbers are 8 bytes, little-endian; tags, in quotes here, are one.
/// - `T(text)` is the text's length in bytes as a number, and then its bytes, or if they are more than 256, their `H`.
/// - A function is `F = H(T(name) T(source file))`, with its name for linkers or else the one for people.
/// - A frame is `H` of one of
///   - `1 H(T(kind of identity) T(identity)) place`: native code with an identity. Its names do not count.
///   - `2 H(T(file name)) place`: native code without an identity and without names.
///   - `3 T(frame type)`, and `F line` for each name, innermost first: interpreted frames, those of a missing unwinder, and
///     native code that has names and no identity. Columns do not count.
///   - `4 H(T(file name))`, and `F line` for each name: the kernel. Addresses depend on the boot and do not count.
///   - `5 T(name)`: a truncated stack.
///   - `6 H(T(file name))`, with an empty one if there is no file: code that nobody can name. Its addresses differ in every process.
/// - `place` is `0` and a link address, or `1` and a file offset. Kinds of identity are the API's: `gnu`, `htlhash`, `go`.
/// - A stack is `H(0 frames)`, leaf first.
///
/// Long texts count by their hash, and functions and binaries are hashed once, so that no message costs more than its length.
#[derive(Debug)]
pub struct Hashes<'m, 'a> {
    model: &'m Profiles<'a>,
    frames: Vec<FrameHash>,
    buffer: Vec<u8>,
}

impl<'m, 'a> Hashes<'m, 'a> {
    /// Hashes the frames of a model: some 100 ns each.
    pub fn of(model: &'m Profiles<'a>) -> Self {
        let parts = Parts::of(model);
        let mut buffer = Vec::new();
        let frames = model.frames().iter().map(|frame| {
            buffer.clear();
            parts.write_frame(frame, &mut buffer);
            FrameHash(digest(&buffer))
        });
        let frames = frames.collect();
        Self {
            model,
            frames,
            buffer,
        }
    }

    /// The hash of a frame.
    pub fn frame(&self, id: FrameId) -> FrameHash {
        self.frames.get(id.index()).copied().unwrap_or_default()
    }

    /// The hash of a stack: some 10 ns a frame. It is not remembered.
    pub fn stack(&mut self, id: StackId) -> StackHash {
        self.buffer.clear();
        self.buffer.push(0);
        for frame in self.model.stack(id) {
            let hash = self.frames.get(frame.index()).copied().unwrap_or_default();
            self.buffer.extend_from_slice(&hash.0);
        }
        StackHash(digest(&self.buffer))
    }
}

/// `H` of the documentation above.
type Digest16 = [u8; 16];

fn digest(bytes: &[u8]) -> Digest16 {
    let digest: [u8; 32] = Sha256::digest(bytes).into();
    let mut half = [0; 16];
    half.copy_from_slice(digest.split_at(16).0);
    half
}

/// Texts up to this length count as they are: a digest of their own would cost more.
const WHOLE_TEXT_BYTES_MAX: usize = 256;

/// What frames are made of, each hashed once.
struct Parts<'m, 'a> {
    model: &'m Profiles<'a>,
    long_texts: HashMap<StringId, Digest16>,
    functions: Vec<Digest16>,
    binaries: Vec<BinaryDigests>,
}

struct BinaryDigests {
    identity: Option<Digest16>,
    file_name: Digest16,
}

impl<'m, 'a> Parts<'m, 'a> {
    fn of(model: &'m Profiles<'a>) -> Self {
        let long = model.strings.iter().enumerate();
        let long = long.filter(|(_, text)| text.len() > WHOLE_TEXT_BYTES_MAX);
        let long_texts = long
            .map(|(at, text)| (StringId::at(at), digest(text.as_bytes())))
            .collect();
        let mut parts = Self {
            model,
            long_texts,
            functions: Vec::new(),
            binaries: Vec::new(),
        };
        parts.functions = model
            .functions
            .iter()
            .map(|function| parts.function(function))
            .collect();
        parts.binaries = model
            .binaries
            .iter()
            .map(|binary| parts.binary(binary))
            .collect();
        parts
    }

    /// `T` of the documentation above.
    fn text(&self, id: StringId, out: &mut Vec<u8>) {
        let text = self.model.text(id);
        out.extend((text.len() as u64).to_le_bytes());
        match self.long_texts.get(&id) {
            Some(digest) => out.extend_from_slice(digest),
            None => out.extend_from_slice(text.as_bytes()),
        }
    }

    fn function(&self, function: &Function) -> Digest16 {
        let has_linker_name = !self.model.text(function.system_name).is_empty();
        let name = if has_linker_name {
            function.system_name
        } else {
            function.name
        };
        let mut bytes = Vec::new();
        self.text(name, &mut bytes);
        self.text(function.file_name, &mut bytes);
        digest(&bytes)
    }

    fn binary(&self, binary: &Binary) -> BinaryDigests {
        let identity = binary.identity.as_ref().map(|identity| {
            let mut bytes = Vec::new();
            for part in [identity.kind().as_str(), &identity.to_string()] {
                bytes.extend((part.len() as u64).to_le_bytes());
                bytes.extend_from_slice(part.as_bytes());
            }
            digest(&bytes)
        });
        let mut bytes = Vec::new();
        self.text(binary.file_name, &mut bytes);
        BinaryDigests {
            identity,
            file_name: digest(&bytes),
        }
    }

    fn write_frame(&self, frame: &Frame, out: &mut Vec<u8>) {
        let binary = frame.binary.and_then(|id| self.binaries.get(id.index()));
        let identity = binary.and_then(|digests| digests.identity);
        let file_name = || binary.map_or_else(|| digest(&[0; 8]), |digests| digests.file_name);
        match frame.kind {
            FrameKind::Native(address) if identity.is_some() || frame.lines.is_empty() => {
                out.push(if identity.is_some() { 1 } else { 2 });
                out.extend(identity.unwrap_or_else(file_name));
                write_place(address, out);
            }
            FrameKind::Native(_) | FrameKind::Named | FrameKind::MissingUnwinder => {
                out.push(3);
                self.text(frame.language, out);
                self.write_lines(frame, out);
            }
            FrameKind::Kernel => {
                out.push(4);
                out.extend(file_name());
                self.write_lines(frame, out);
            }
            FrameKind::Truncated => {
                out.push(5);
                let line = self.model.lines(frame).last();
                let function = line.and_then(|line| self.model.function(line.function));
                self.text(
                    function.map_or(StringId::EMPTY, |function| function.name),
                    out,
                );
            }
            FrameKind::Unplaced => {
                let of = frame.binary.and_then(|id| self.model.binary(id));
                let is_file = of.is_some_and(|binary| binary.role == BinaryRole::File);
                out.push(6);
                out.extend(if is_file {
                    file_name()
                } else {
                    digest(&[0; 8])
                });
            }
        }
    }

    fn write_lines(&self, frame: &Frame, out: &mut Vec<u8>) {
        for line in self.model.lines(frame) {
            out.extend(
                self.functions
                    .get(line.function.index())
                    .copied()
                    .unwrap_or_default(),
            );
            out.extend(line.line.to_le_bytes());
        }
    }
}

fn write_place(address: CodeAddress, out: &mut Vec<u8>) {
    let (tag, address) = match address {
        CodeAddress::Link(address) => (0, address),
        CodeAddress::FileOffset(offset) => (1, offset),
    };
    out.push(tag);
    out.extend(address.to_le_bytes());
}
