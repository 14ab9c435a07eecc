//! Questions to the symbol server: how they are packed into requests, and how an answer is read.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use unhex_api::symbolize::{
    Address, AddressKind, CompactAnswer, CompactFrame, CompactModule, Demangle, Module,
    SymbolizeRequest,
};
use unhex_build_id::Identity;
use unhex_pprof::CodeAddress;

use crate::view::Call;

/// Addresses in one request, a tenth of what the server takes by default, so that a few of them run at once.
const ADDRESSES_MAX: usize = 100_000;
/// Modules in one request: a quarter of what the server takes by default, since one may be two here.
const MODULES_MAX: usize = 1_024;
/// How long the server may wait for symbols that it is converting or fetching: somebody is looking, and looks again.
const WAIT_SECONDS: u32 = 1;

/// What is asked of one binary; without addresses, only which generation it has.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) identity: Identity,
    pub(super) file_name: Arc<str>,
    pub(super) addresses: Vec<CodeAddress>,
}

/// The questions of one request.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    pub(super) questions: Vec<Question>,
}

/// The frames of an answer as they are shown, made when they are met first.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    answer: &'a CompactAnswer,
    strings: FxHashMap<u32, Arc<str>>,
    stacks: FxHashMap<&'a [u32], Arc<[Call]>>,
    none: Arc<str>,
}

/// Packs questions into requests; one with very many addresses goes into several.
pub(super) fn chunks(questions: Vec<Question>) -> Vec<Chunk> {
    let mut chunks: Vec<Chunk> = Vec::new();
    let mut room = (0, 0);
    for question in questions {
        let mut left = question.addresses.as_slice();
        loop {
            if room.0 == 0 || room.1 == 0 {
                chunks.push(Chunk::default());
                room = (MODULES_MAX, ADDRESSES_MAX);
            }
            let (now, later) = left.split_at(left.len().min(room.1));
            let part = Question {
                addresses: now.to_vec(),
                ..question.clone()
            };
            room = (room.0 - 1, room.1 - now.len());
            if let Some(chunk) = chunks.last_mut() {
                chunk.questions.push(part);
            }
            left = later;
            if left.is_empty() {
                break;
            }
        }
    }
    chunks
}

impl Question {
    /// Link addresses, then file offsets: the order in which they are asked.
    fn by_kind(&self) -> (Vec<Address>, Vec<Address>) {
        let (mut links, mut offsets) = (Vec::new(), Vec::new());
        for address in &self.addresses {
            match *address {
                CodeAddress::Link(address) => links.push(address.into()),
                CodeAddress::FileOffset(offset) => offsets.push(offset.into()),
            }
        }
        (links, offsets)
    }

    fn addresses_of(&self, kind: AddressKind) -> impl Iterator<Item = CodeAddress> {
        let addresses = self.addresses.iter().copied();
        addresses.filter(move |address| match address {
            CodeAddress::Link(_) => kind == AddressKind::Link,
            CodeAddress::FileOffset(_) => kind == AddressKind::FileOffset,
        })
    }

    fn module(&self, address_kind: AddressKind, addresses: Vec<Address>) -> Module {
        Module {
            build_id: self.identity.to_string(),
            id_kind: self.identity.kind(),
            name: (!self.file_name.is_empty()).then(|| self.file_name.to_string()),
            address_kind,
            addresses,
            ..Module::default()
        }
    }
}

impl Chunk {
    /// The request. It is not observed: the profiles were counted when they came.
    pub(super) fn request(&self) -> SymbolizeRequest {
        let mut modules = Vec::with_capacity(self.questions.len());
        for question in &self.questions {
            let (links, offsets) = question.by_kind();
            if !links.is_empty() || offsets.is_empty() {
                modules.push(question.module(AddressKind::Link, links));
            }
            if !offsets.is_empty() {
                modules.push(question.module(AddressKind::FileOffset, offsets));
            }
        }
        SymbolizeRequest {
            observe: false,
            modules,
            demangle: Demangle::Full,
            inlines: true,
            wait_seconds: WAIT_SECONDS,
            ..SymbolizeRequest::default()
        }
    }

    /// Each module of the answer with its question and the addresses that it answers. Nothing when the answer has other modules
    /// than were asked for.
    pub(super) fn answered<'c, 'a>(
        &'c self,
        answer: &'a CompactAnswer,
    ) -> Vec<(&'c Question, &'a CompactModule, Vec<CodeAddress>)> {
        let asked = self.questions.iter().flat_map(|question| {
            let kinds = [AddressKind::Link, AddressKind::FileOffset];
            let addresses = kinds.map(|kind| question.addresses_of(kind).collect::<Vec<_>>());
            let is_check = question.addresses.is_empty();
            let modules = addresses.into_iter().enumerate();
            modules
                .filter(move |(number, of)| !of.is_empty() || (is_check && *number == 0))
                .map(move |(_, of)| (question, of))
        });
        let asked: Vec<_> = asked.collect();
        if asked.len() != answer.modules.len() {
            return Vec::new();
        }
        let both = asked.into_iter().zip(&answer.modules);
        both.map(|((question, of), module)| (question, module, of))
            .collect()
    }
}

impl<'a> Reader<'a> {
    pub(super) fn new(answer: &'a CompactAnswer) -> Self {
        Self {
            answer,
            strings: FxHashMap::default(),
            stacks: FxHashMap::default(),
            none: "".into(),
        }
    }

    /// The functions of a stack of the answer. Frames that lead nowhere are left out.
    pub(super) fn calls(&mut self, stack: &'a [u32]) -> Arc<[Call]> {
        if let Some(calls) = self.stacks.get(stack) {
            return Arc::clone(calls);
        }
        let calls: Arc<[Call]> = stack.iter().filter_map(|frame| self.call(*frame)).collect();
        self.stacks.insert(stack, Arc::clone(&calls));
        calls
    }

    fn call(&mut self, frame: u32) -> Option<Call> {
        let frame = self.answer.frames.get(usize::try_from(frame).ok()?)?;
        let CompactFrame(function, _, file, line, _, _) = *frame;
        let file = self.string(file);
        let function = match self.string(function) {
            // Line tables without functions: where it is says more than nothing.
            name if name.is_empty() => match file.rsplit('/').next().unwrap_or_default() {
                "" => return None,
                base => format!("{base}:{line}").into(),
            },
            name => name,
        };
        Some(Call {
            function,
            file,
            line,
        })
    }

    fn string(&mut self, number: Option<u32>) -> Arc<str> {
        let Some(number) = number else {
            return Arc::clone(&self.none);
        };
        let strings = &self.answer.strings;
        let text = self.strings.entry(number).or_insert_with(|| {
            let text = usize::try_from(number).ok().and_then(|at| strings.get(at));
            text.map_or("", String::as_str).into()
        });
        Arc::clone(text)
    }
}
