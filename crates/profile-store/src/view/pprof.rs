//! A merged profile as pprof, for `go tool pprof` and whatever else reads it.
//!
//! Frames stay places: addresses and build IDs are in it, so that `POST /symbolize/pprof` finds the names that come later. Places without names have a function
//! `binary+0x1a2b` all the same, since pprof would add up all of a binary's.

use rustc_hash::FxHashMap;
use unhex_build_id::Identity;
use unhex_pprof::{
    Binary, BinaryId, BinaryRole, Builder, CodeAddress, EncodeError, Extent, Frame, FrameId,
    FrameKind, NewSample, Profile, StringId, ValueType, pprof,
};

use super::heading::Heading;
use super::merged::{FrameNumber, Merged, ShownFrame};
use super::names::Names;
use super::shown::{ShownFunction, ShownKind, Weight};

/// Where a binary would be in memory, for formulas that need it: a mapping at 0 without an offset has link addresses.
const MAPPED_AT: u64 = 1 << 32;

/// Why a profile cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PprofError {
    /// A stack has more than the format can say.
    #[error("a stack with {value}, more than the 64 bits that pprof has: ask for a shorter window")]
    TooLarge {
        /// Its samples or value.
        value: i128,
    },
    /// The encoder refused it.
    #[error("the profile could not be written as pprof")]
    Encode(#[from] EncodeError),
}

/// The file, packed with gzip as the format wants it.
///
/// # Errors
/// If a sum leaves 64 bits.
pub fn pprof(merged: &Merged, heading: &Heading) -> Result<Vec<u8>, PprofError> {
    let names = Names::of(merged);
    let mut writer = Writer {
        merged,
        names: &names,
        builder: Builder::default(),
        frames: vec![None; merged.frames().len()],
        binaries: FxHashMap::default(),
        origin: Vec::new(),
    };
    writer.profile(heading);
    let is_counted = writer.is_counted();
    for stack in merged.stacks() {
        let mut frames = Vec::with_capacity(stack.frames.len());
        for frame in stack.frames {
            frames.extend(writer.frame(*frame));
        }
        let values = values(stack.weight, is_counted)?;
        let stack = writer.builder.stack(&frames);
        writer.builder.sample(NewSample {
            stack,
            values: &values,
            ..NewSample::default()
        });
    }
    writer.finish()
}

fn values(weight: Weight, is_counted: bool) -> Result<Vec<i64>, PprofError> {
    let Weight { count, value } = weight;
    let values = if is_counted {
        vec![count, value]
    } else {
        vec![value]
    };
    let fits = |value: i128| {
        let fits = i64::try_from(value).ok();
        fits.ok_or(PprofError::TooLarge { value })
    };
    values.into_iter().map(fits).collect()
}

#[derive(Debug)]
struct Writer<'m> {
    merged: &'m Merged,
    names: &'m Names,
    builder: Builder<'m>,
    frames: Vec<Option<FrameId>>,
    /// By the binary and whether its addresses are offsets; or by the name of the kernel or one of its modules.
    binaries: FxHashMap<(String, Option<Identity>, bool), BinaryId>,
    /// Of each frame that was written, which one of the merged profile it is.
    origin: Vec<FrameNumber>,
}

impl<'m> Writer<'m> {
    fn profile(&mut self, heading: &Heading) {
        let of = self.merged.profile_type();
        let counted = ValueType {
            name: self.builder.string(of.name()),
            unit: self.builder.string(of.unit()),
        };
        let mut value_types = Vec::new();
        if self.is_counted() {
            value_types.push(ValueType {
                name: self.builder.string("samples"),
                unit: self.builder.string("count"),
            });
        }
        value_types.push(counted);
        let comments = [&heading.title, &heading.subtitle];
        let comments = comments.into_iter().filter(|text| !text.is_empty());
        let comments: Vec<String> = comments.cloned().collect();
        let comments = comments.into_iter();
        let comments = comments.map(|text| self.builder.string(text)).collect();
        let profile = Profile {
            value_types,
            period_type: Some(counted),
            time_unix_nanos: heading.from_unix_nanos,
            duration_nanos: heading.duration_nanos,
            comments,
            default_type: counted.name,
            ..Profile::default()
        };
        self.builder.profile(profile);
    }

    /// Whether samples have a column of their own.
    fn is_counted(&self) -> bool {
        self.merged.profile_type().as_str() != "samples:count"
    }

    fn frame(&mut self, number: FrameNumber) -> Option<FrameId> {
        let known = self.frames.get(number.index()).copied()?;
        if known.is_some() {
            return known;
        }
        let shown = self.merged.frames().get(number.index())?;
        let (binary, address) = self.place(shown, number);
        let id = self.builder.frame(
            Frame {
                binary,
                address,
                kind: FrameKind::Named,
                ..Frame::default()
            },
            &[],
        );
        self.origin.push(number);
        if let Some(known) = self.frames.get_mut(number.index()) {
            *known = Some(id);
        }
        Some(id)
    }

    fn place(&mut self, shown: &ShownFrame, number: FrameNumber) -> (Option<BinaryId>, u64) {
        if shown.kind == ShownKind::Kernel {
            let file = self.function_of(number).map_or("", |of| &*of.binary);
            let file = match file {
                "" => "[kernel.kallsyms]".to_owned(),
                module => format!("[kernel.{}]", module.trim_matches(['[', ']'])),
            };
            return (Some(self.binary(file, None, Extent::default())), 0);
        }
        let binary = shown.binary;
        let binary = binary.and_then(|number| self.merged.binaries().get(number.index()));
        let (Some(binary), Some(place)) = (binary, shown.address) else {
            return (None, 0);
        };
        let (start, address) = match place {
            CodeAddress::Link(address) => (0, address),
            CodeAddress::FileOffset(offset) => (MAPPED_AT, offset.saturating_add(MAPPED_AT)),
        };
        let extent = Extent {
            start,
            limit: u64::MAX,
            file_offset: 0,
        };
        let (file, identity) = (binary.file_name.to_string(), binary.identity.clone());
        (Some(self.binary(file, identity, extent)), address)
    }

    fn binary(&mut self, file: String, identity: Option<Identity>, extent: Extent) -> BinaryId {
        let key = (file, identity, extent.start != 0);
        if let Some(id) = self.binaries.get(&key) {
            return *id;
        }
        let file_name = self.builder.string(key.0.clone());
        let id = self.builder.binary(Binary {
            file_name,
            identity: key.1.clone(),
            id_text: StringId::EMPTY,
            role: BinaryRole::File,
            extent,
            ..Binary::default()
        });
        self.binaries.insert(key, id);
        id
    }

    fn function_of(&self, number: FrameNumber) -> Option<&'m ShownFunction> {
        let call = self.merged.calls(number).first()?;
        self.merged.functions().get(call.function.index())
    }

    fn finish(self) -> Result<Vec<u8>, PprofError> {
        let Self {
            merged,
            names,
            builder,
            origin,
            ..
        } = self;
        let model = builder.finish();
        let Some(profile) = model.profiles().first() else {
            return Ok(Vec::new());
        };
        let message = pprof::encode_named(&model, profile, &mut |frame, lines| {
            let Some(number) = origin.get(frame.index()) else {
                return;
            };
            for call in merged.calls(*number) {
                let rank = names.ranks.get(call.function.index());
                let function = rank.and_then(|rank| names.functions.get(*rank as usize));
                let Some(function) = function else { continue };
                lines.push(pprof::NamedLine {
                    name: &function.name,
                    file_name: &function.file,
                    line: call.line.into(),
                    ..pprof::NamedLine::default()
                });
            }
        })?;
        Ok(unhex_pprof::packed(&message))
    }
}
