//! The form for people: each address with its frames, written piece by piece.
//!
//! A million addresses make hundreds of megabytes of JSON, which never lie in memory at once: the
//! writer stops after each piece and goes on where it was.

use std::sync::Arc;

use super::text::{put_number, put_string};
use super::{Answer, AnsweredBinary, AnsweredModule, FrameView, put_reason};

/// Writes an answer in the form for people, as far at a time as is wanted.
#[derive(Debug)]
pub struct JsonWriter {
    answer: Arc<Answer>,
    module: usize,
    step: Step,
}

/// What is written next.
#[derive(Clone, Copy, Debug)]
enum Step {
    Start,
    Module,
    /// The frames of an address of the module.
    Frames(usize),
    /// The reason of an address of the module.
    Reasons(usize),
    ModuleEnd,
    Done,
}

impl JsonWriter {
    /// A writer at the start.
    pub fn new(answer: Answer) -> Self {
        Self {
            answer: Arc::new(answer),
            module: 0,
            step: Step::Start,
        }
    }

    /// Whether everything is written.
    pub fn is_done(&self) -> bool {
        matches!(self.step, Step::Done)
    }

    /// The next bytes: about so many, fewer at the end.
    pub fn piece(&mut self, bytes_wanted: usize) -> Vec<u8> {
        let mut out = Vec::new();
        let answer = Arc::clone(&self.answer);
        while out.len() < bytes_wanted && !self.is_done() {
            self.step = self.advance(&answer, &mut out, bytes_wanted);
        }
        out
    }

    fn advance(&mut self, answer: &Answer, out: &mut Vec<u8>, bytes_wanted: usize) -> Step {
        let Some(module) = answer.modules.get(self.module) else {
            if matches!(self.step, Step::Start) {
                out.extend_from_slice(b"{\"modules\":[");
            }
            out.extend_from_slice(b"]}");
            return Step::Done;
        };
        match self.step {
            Step::Start => {
                out.extend_from_slice(b"{\"modules\":[");
                Step::Module
            }
            Step::Module => {
                module.put_head(out);
                if module.stacks.is_none() {
                    return Step::ModuleEnd;
                }
                out.extend_from_slice(b",\"frames\":[");
                Step::Frames(0)
            }
            Step::Frames(from) => put_frames(answer, module, from, out, bytes_wanted),
            Step::Reasons(from) => put_reasons(answer, module, from, out, bytes_wanted),
            Step::ModuleEnd => {
                out.push(b'}');
                self.module += 1;
                if self.module < answer.modules.len() {
                    out.push(b',');
                }
                Step::Module
            }
            Step::Done => Step::Done,
        }
    }
}

fn put_frames(
    answer: &Answer,
    module: &AnsweredModule,
    from: usize,
    out: &mut Vec<u8>,
    bytes_wanted: usize,
) -> Step {
    let Some((stacks, binary)) = answer.stacks_of(module) else {
        return Step::ModuleEnd;
    };
    for (number, place) in stacks.places.iter().enumerate().skip(from) {
        if out.len() >= bytes_wanted {
            return Step::Frames(number);
        }
        if number > 0 {
            out.push(b',');
        }
        put_stack(answer, binary, *place, out);
    }
    out.extend_from_slice(b"],\"reasons\":[");
    Step::Reasons(0)
}

fn put_reasons(
    answer: &Answer,
    module: &AnsweredModule,
    from: usize,
    out: &mut Vec<u8>,
    bytes_wanted: usize,
) -> Step {
    let Some((stacks, binary)) = answer.stacks_of(module) else {
        return Step::ModuleEnd;
    };
    for (number, place) in stacks.places.iter().enumerate().skip(from) {
        if out.len() >= bytes_wanted {
            return Step::Reasons(number);
        }
        if number > 0 {
            out.push(b',');
        }
        put_reason(out, stacks.reason(*place, binary));
    }
    out.push(b']');
    Step::ModuleEnd
}

fn put_stack(answer: &Answer, binary: &AnsweredBinary, place: super::Place, out: &mut Vec<u8>) {
    out.push(b'[');
    let frames = binary.frames_of(place);
    let mut open = false;
    for view in answer.views(binary, frames) {
        if open {
            out.extend_from_slice(b"},");
        }
        open = true;
        put_view(&view, out);
    }
    if open {
        if let Some(offset) = binary.offset(place) {
            put_separator(out);
            out.extend_from_slice(b"\"offset\":");
            put_number(out, offset);
        }
        out.push(b'}');
    }
    out.push(b']');
}

/// A frame without the closing brace, since the outermost one has an offset yet to come.
fn put_view(view: &FrameView<'_>, out: &mut Vec<u8>) {
    out.push(b'{');
    for (member, text) in [
        (&b"\"function\":"[..], view.function),
        (b"\"linkage_name\":", view.linkage_name),
        (b"\"file\":", view.file),
    ] {
        if let Some(text) = text {
            put_separator(out);
            out.extend_from_slice(member);
            put_string(out, text);
        }
    }
    for (member, number) in [
        (&b"\"line\":"[..], view.line),
        (b"\"column\":", view.column),
    ] {
        if number != 0 {
            put_separator(out);
            out.extend_from_slice(member);
            put_number(out, u64::from(number));
        }
    }
    if view.is_inlined {
        put_separator(out);
        out.extend_from_slice(b"\"inlined\":true");
    }
}

/// A comma, unless the object has no member yet.
fn put_separator(out: &mut Vec<u8>) {
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
}
