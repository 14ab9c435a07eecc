//! The answer to a batch, and how it is written: in the form for people or in the compact one.
//!
//! Names and paths stay where the batches decoded them; only the writers turn them into JSON.

mod compact;
mod json;
mod text;

pub use json::JsonWriter;

use unhex_api::quality::{Origin, Quality};
use unhex_api::symbolize::{Demangle, ModuleStatus, Reason};
use unhex_symbols::address::LinkAddress;
use unhex_symbols::index::{Batch, BatchFrame, Span};

use self::text::{put_number, put_string};
use super::binaries::{OpenBinary, Without};
use super::outcome::ModuleOutcome;

/// Where in its binary's batch an address is answered, or why it is not.
pub(super) type Place = Result<u32, Reason>;

/// The answer to a request.
#[derive(Debug)]
pub struct Answer {
    form: Form,
    modules: Vec<AnsweredModule>,
    binaries: Vec<AnsweredBinary>,
    outcomes: Vec<ModuleOutcome>,
}

/// What of a frame is wanted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    pub(super) demangle: Demangle,
    pub(super) inlines: bool,
}

/// The answer of one module.
#[derive(Debug)]
pub(super) struct AnsweredModule {
    pub(super) build_id: String,
    pub(super) status: ModuleStatus,
    pub(super) detail: Option<String>,
    pub(super) retry_after_seconds: Option<u32>,
    pub(super) quality: Option<Quality>,
    pub(super) origin: Option<Origin>,
    pub(super) generation: Option<String>,
    pub(super) stacks: Option<Stacks>,
}

/// The stacks of one module, in the order of its addresses.
#[derive(Debug)]
pub(super) struct Stacks {
    /// An index into the answer's binaries.
    pub(super) binary: usize,
    /// Per address.
    pub(super) places: Vec<Place>,
    /// Whether names are missing that stand in a supplementary file.
    pub(super) needs_supplement: bool,
}

/// The batch of one binary, and the link addresses that it answers.
#[derive(Debug, Default)]
pub(super) struct AnsweredBinary {
    pub(super) batch: Batch,
    pub(super) links: Vec<LinkAddress>,
    /// Per function of the batch its name with template arguments; only where that was asked for.
    pub(super) template_names: Vec<String>,
}

/// One frame as it is written.
#[derive(Clone, Copy, Debug)]
struct FrameView<'a> {
    function: Option<&'a str>,
    /// Only where it differs from `function`.
    linkage_name: Option<&'a str>,
    file: Option<&'a str>,
    line: u32,
    column: u32,
    is_inlined: bool,
}

impl AnsweredModule {
    /// The answer of a module whose index is open, before its addresses are looked up.
    pub(super) fn open(build_id: String, binary: &OpenBinary) -> Self {
        let (status, detail) = if binary.quality >= Quality::Symtab {
            (ModuleStatus::Found, None)
        } else {
            let detail = "its files have dynamic symbols at most; upload its debug file with \
                          `unhex upload PATH`";
            (ModuleStatus::NoDebugInfo, Some(detail.to_owned()))
        };
        Self {
            build_id,
            status,
            detail,
            retry_after_seconds: None,
            quality: Some(binary.quality),
            origin: Some(binary.origin),
            generation: Some(binary.generation()),
            stacks: None,
        }
    }

    /// The answer of a module without an index.
    pub(super) fn without(build_id: String, without: &Without) -> Self {
        Self {
            build_id,
            status: without.status,
            detail: Some(without.detail.clone()),
            retry_after_seconds: without.retry_after_seconds,
            quality: None,
            origin: None,
            generation: None,
            stacks: None,
        }
    }

    /// Adds to what is said in words.
    pub(super) fn note(&mut self, note: &str) {
        match &mut self.detail {
            Some(detail) => {
                detail.push_str("; ");
                detail.push_str(note);
            }
            none => *none = Some(note.to_owned()),
        }
    }

    /// Appends the members that both forms share, without the closing brace.
    fn put_head(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"build_id\":");
        put_string(out, &self.build_id);
        put_word(out, b",\"status\":", self.status.as_str());
        if let Some(detail) = &self.detail {
            out.extend_from_slice(b",\"detail\":");
            put_string(out, detail);
        }
        if let Some(seconds) = self.retry_after_seconds {
            out.extend_from_slice(b",\"retry_after_seconds\":");
            put_number(out, u64::from(seconds));
        }
        if let Some(quality) = self.quality {
            put_word(out, b",\"quality\":", quality.as_str());
        }
        if let Some(origin) = self.origin {
            put_word(out, b",\"origin\":", origin.as_str());
        }
        if let Some(generation) = &self.generation {
            put_word(out, b",\"generation\":", generation);
        }
    }
}

impl Stacks {
    /// Why the address has no frames, or why they may be incomplete.
    fn reason(&self, place: Place, binary: &AnsweredBinary) -> Option<Reason> {
        if let Err(reason) = place {
            return Some(reason);
        }
        let frames = binary.frames_of(place);
        let nameless = |frame: &BatchFrame| {
            let function = binary.batch.function(frame.function);
            function.is_none_or(|function| function.linkage_name.is_empty())
        };
        if self.needs_supplement && (frames.is_empty() || frames.iter().any(nameless)) {
            return Some(Reason::NeedsSupplement);
        }
        frames.is_empty().then_some(Reason::NoFunction)
    }
}

impl AnsweredBinary {
    /// The frames of an address, innermost first.
    pub(super) fn frames_of(&self, place: Place) -> &[BatchFrame] {
        let place = place.ok().and_then(|place| usize::try_from(place).ok());
        place.map_or(&[], |place| self.batch.frames_of(place))
    }

    /// Which part of the batch's frames an address has.
    fn span_of(&self, place: Place) -> Span {
        let place = place.ok().and_then(|place| usize::try_from(place).ok());
        let span = place.and_then(|place| self.batch.spans().get(place));
        span.copied().unwrap_or_default()
    }

    /// Bytes from the entry of the outermost function to the address.
    fn offset(&self, place: Place) -> Option<u64> {
        let link = self.links.get(usize::try_from(place.ok()?).ok()?)?;
        self.frames_of(place).last()?.offset_of(*link)
    }
}

impl Answer {
    pub(super) fn new(
        form: Form,
        modules: Vec<AnsweredModule>,
        binaries: Vec<AnsweredBinary>,
    ) -> Self {
        Self {
            form,
            modules,
            binaries,
            outcomes: Vec::new(),
        }
    }

    /// The answers of the modules, in the order of the request.
    pub(super) fn modules(&self) -> &[AnsweredModule] {
        &self.modules
    }

    pub(super) fn note_outcomes(&mut self, outcomes: Vec<ModuleOutcome>) {
        self.outcomes = outcomes;
    }

    /// Hands out what became of each module, in the order of the request; empty when the request is
    /// not to be observed.
    pub fn take_outcomes(&mut self) -> Vec<ModuleOutcome> {
        std::mem::take(&mut self.outcomes)
    }

    /// The module and its binary, where it has stacks.
    pub(super) fn stacks_of<'a>(
        &'a self,
        module: &'a AnsweredModule,
    ) -> Option<(&'a Stacks, &'a AnsweredBinary)> {
        let stacks = module.stacks.as_ref()?;
        Some((stacks, self.binaries.get(stacks.binary)?))
    }

    /// The frames of an address as they are written, innermost first.
    ///
    /// Without inlined calls there is one: the function that was really called, with the file and
    /// line of the address itself, as `llvm-symbolizer --no-inlines` has it.
    fn views<'a>(
        &'a self,
        binary: &'a AnsweredBinary,
        frames: &'a [BatchFrame],
    ) -> impl Iterator<Item = FrameView<'a>> {
        let called = if self.form.inlines {
            frames
        } else {
            frames.last_chunk::<1>().map_or(&[][..], |last| &last[..])
        };
        called.iter().zip(frames).map(|(called, at)| {
            let (function, linkage_name) = self.names(binary, called.function);
            FrameView {
                function,
                linkage_name,
                file: binary.batch.path(at.file),
                line: at.line,
                column: at.column,
                is_inlined: called.is_inlined(),
            }
        })
    }

    /// The name of a function as it was asked for, and its linkage name where that is another.
    fn names<'a>(
        &self,
        binary: &'a AnsweredBinary,
        function: u32,
    ) -> (Option<&'a str>, Option<&'a str>) {
        let Some(record) = binary.batch.function(function) else {
            return (None, None);
        };
        let linkage = record.linkage_name;
        let name = match self.form.demangle {
            Demangle::Full => record.full_name,
            Demangle::Simple => record.short_name,
            Demangle::Templates => usize::try_from(function)
                .ok()
                .and_then(|function| binary.template_names.get(function))
                .map_or(record.full_name, String::as_str),
            _ => linkage,
        };
        if linkage.is_empty() {
            return (None, None);
        }
        (Some(name), (name != linkage).then_some(linkage))
    }
}

/// Appends a member whose value is one of our own words, which need no escape.
fn put_word(out: &mut Vec<u8>, member: &[u8], word: &str) {
    out.extend_from_slice(member);
    out.push(b'"');
    out.extend_from_slice(word.as_bytes());
    out.push(b'"');
}

/// Appends a reason or null.
fn put_reason(out: &mut Vec<u8>, reason: Option<Reason>) {
    match reason {
        None => out.extend_from_slice(b"null"),
        Some(reason) => put_word(out, b"", reason.as_str()),
    }
}
