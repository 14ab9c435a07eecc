//! From open indexes to an answer: each binary's addresses, of all modules that name it, in one batch.

use tokio::time::Instant;
use unhex_api::symbolize::{AddressKind, Demangle, Module, Reason, SymbolizeRequest};
use unhex_build_id::Hex;
use unhex_symbols::address::LinkAddress;
use unhex_symbols::demangle::{DemangleMode, Names};
use unhex_symbols::index::{Batch, NameSet, ResolveOptions};

use super::addresses::{Placing, segments_of_request};
use super::answer::{Answer, AnsweredBinary, AnsweredModule, Form, Place, Stacks};
use super::binaries::{Binary, Named, OpenBinary, Without};
use super::outcome;

/// Frames in one answer, over all binaries: twice what a million addresses of the largest real
/// files have, and about 200 MB.
const FRAMES_MAX: usize = 8 << 20;
/// Distinct functions in one answer, over all binaries: a browser has half a million.
const FUNCTIONS_MAX: usize = 4 << 20;

/// A request whose binaries were found, or were not.
#[derive(Debug)]
pub struct Found {
    request: SymbolizeRequest,
    named: Named,
    binaries: Vec<Binary>,
    deadline: Option<Instant>,
}

/// What one binary is asked, collected over the modules that name it.
#[derive(Debug, Default)]
struct Questions {
    links: Vec<LinkAddress>,
}

/// What may still be put into an answer, and the working memory that its batches share.
#[derive(Debug)]
struct Room {
    frames: usize,
    functions: usize,
    work: Batch,
}

impl Found {
    pub(super) fn new(request: SymbolizeRequest, named: Named, binaries: Vec<Binary>) -> Self {
        Self {
            request,
            named,
            binaries,
            deadline: None,
        }
    }

    /// Answers what was not looked up by then with `unavailable`.
    pub(super) fn answered_by(self, deadline: Instant) -> Self {
        let deadline = Some(deadline);
        Self { deadline, ..self }
    }

    /// When the answer has to be there.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Looks all addresses up. Takes CPU time, and reads mapped files: not for async threads.
    pub fn look_up(self) -> Answer {
        let mut questions: Vec<Questions> = Vec::new();
        questions.resize_with(self.binaries.len(), Questions::default);
        let named = self.request.modules.iter().zip(&self.named.of_module);
        let mut modules: Vec<AnsweredModule> = named
            .map(|(module, number)| self.place(module, *number, &mut questions))
            .collect();

        let mut room = Room {
            frames: FRAMES_MAX,
            functions: FUNCTIONS_MAX,
            work: Batch::default(),
        };
        let mut answered = Vec::with_capacity(self.binaries.len());
        for (number, (binary, questions)) in self.binaries.iter().zip(questions).enumerate() {
            let resolved = if self.is_too_late() {
                resolve_late(binary)
            } else {
                resolve(binary, questions, self.request.demangle, &mut room)
            };
            match resolved {
                Ok(binary) => answered.push(binary),
                Err(without) => {
                    answered.push(AnsweredBinary::default());
                    let of_module = modules.iter_mut().zip(&self.named.of_module);
                    let these = of_module.filter(|(_, other)| **other == number);
                    these.for_each(|(module, _)| {
                        let build_id = std::mem::take(&mut module.build_id);
                        *module = AnsweredModule::without(build_id, &without);
                    });
                }
            }
        }
        let form = Form {
            demangle: self.request.demangle,
            inlines: self.request.inlines,
        };
        let mut answer = Answer::new(form, modules, answered);
        if self.request.observe {
            let outcomes = outcome::outcomes(&self.request, &self.named, &answer);
            answer.note_outcomes(outcomes);
        }
        answer
    }

    fn is_too_late(&self) -> bool {
        self.deadline.is_some_and(|by| Instant::now() >= by)
    }

    /// The answer of one module but for its frames, with its addresses put to its binary.
    fn place(&self, module: &Module, number: usize, questions: &mut [Questions]) -> AnsweredModule {
        let build_id = match self.named.identities.get(number) {
            Some(Ok(identity)) => identity.to_string(),
            _ => module.build_id.clone(),
        };
        let (Some(binary), Some(questions)) =
            (self.binaries.get(number), questions.get_mut(number))
        else {
            return AnsweredModule::without(build_id, &Without::not_asked());
        };
        match binary {
            Binary::Without(without) => AnsweredModule::without(build_id, without),
            Binary::Open(open) => {
                let places = places(module, open, &mut questions.links);
                let mut answered = AnsweredModule::open(build_id, open);
                for note in notes(module, open, &places) {
                    answered.note(&note);
                }
                answered.stacks = Some(Stacks {
                    binary: number,
                    places,
                    needs_supplement: open.open.facts.needs_supplement.is_some(),
                });
                answered
            }
        }
    }
}

/// Where in the binary's batch each address of a module is answered, or why it is not.
fn places(module: &Module, binary: &OpenBinary, links: &mut Vec<LinkAddress>) -> Vec<Place> {
    let of_request = segments_of_request(module);
    let facts = &binary.open.facts;
    let segments = binary
        .segments
        .as_deref()
        .or(facts.segments.as_ref())
        .or(of_request.as_ref());
    let placing = Placing::new(module, segments, facts.machine);
    let place = |address| {
        let link = placing.link_address(address)?;
        // A request has far fewer addresses than 2^32.
        let place = u32::try_from(links.len()).map_err(|_more| Reason::InvalidAddress)?;
        links.push(link);
        Ok(place)
    };
    module.addresses.iter().copied().map(place).collect()
}

/// The frames of one binary's addresses, as long as there is room for them.
fn resolve(
    binary: &Binary,
    questions: Questions,
    demangle: Demangle,
    room: &mut Room,
) -> Result<AnsweredBinary, Without> {
    let Binary::Open(open) = binary else {
        return Ok(AnsweredBinary::default());
    };
    let names = match demangle {
        Demangle::None => NameSet::Linkage,
        _ => NameSet::All,
    };
    let mut batch = room.work.take_work();
    let options = ResolveOptions { names };
    let index = &open.open.index;
    index
        .resolve(&questions.links, options, &mut batch)
        .map_err(|error| Without::too_large(&error))?;
    room.work = batch.take_work();
    let left = |all: usize, used: usize| {
        all.checked_sub(used)
            .ok_or_else(|| Without::too_large(&"too many frames in one request"))
    };
    room.frames = left(room.frames, batch.frames().len())?;
    room.functions = left(room.functions, batch.functions().len())?;
    let template_names = match demangle {
        Demangle::Templates => template_names(&batch),
        _ => Vec::new(),
    };
    Ok(AnsweredBinary {
        batch,
        links: questions.links,
        template_names,
    })
}

/// What is left to say of a binary when the time is over.
fn resolve_late(binary: &Binary) -> Result<AnsweredBinary, Without> {
    match binary {
        Binary::Open(_) => Err(Without::timed_out()),
        Binary::Without(_) => Ok(AnsweredBinary::default()),
    }
}

/// The name of each function of a batch with its template arguments.
fn template_names(batch: &Batch) -> Vec<String> {
    batch
        .functions()
        .map(|function| {
            let names = Names {
                linkage: function.linkage_name,
                full: function.full_name,
                short: function.short_name,
            };
            DemangleMode::Templates.name(names).into_owned()
        })
        .collect()
}

/// What a person should know of a module that was found.
fn notes(module: &Module, binary: &OpenBinary, places: &[Place]) -> Vec<String> {
    let facts = &binary.open.facts;
    let mut notes = Vec::new();
    if places.contains(&Err(Reason::NeedsExecutable)) {
        notes.push(
            "addresses of this kind need the executable's program headers: upload the executable, \
             or send `segments`"
                .to_owned(),
        );
    }
    if module.address_kind == AddressKind::Process && module.mapping.is_none() {
        notes.push("addresses of kind `process` need `mapping`".to_owned());
    }
    let weights = module.weights.as_ref().map(Vec::len);
    if let Some(weights) = weights.filter(|weights| *weights != module.addresses.len()) {
        let addresses = module.addresses.len();
        notes.push(format!(
            "weights are ignored: {weights} for {addresses} addresses"
        ));
    }
    if let Some(supplement) = &facts.needs_supplement {
        notes.push(format!(
            "names are missing that stand in the supplementary file with build ID {}: upload it",
            Hex(supplement)
        ));
    }
    if facts.units_failed > 0 {
        let all = u64::from(facts.units) + u64::from(facts.units_failed);
        notes.push(format!(
            "{} of {all} units of its debug information are damaged and were skipped",
            facts.units_failed
        ));
    }
    notes
}
