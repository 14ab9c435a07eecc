//! One query's names while they are gathered: from memory, and from answers that may come in any order.

use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;
use tokio::time::Instant;
use unhex_api::quality::Quality;
use unhex_api::symbolize::{CompactAnswer, CompactModule, ModuleStatus};
use unhex_build_id::Identity;
use unhex_pprof::CodeAddress;

use super::asking::{Chunk, Question, Reader};
use super::memory::{Edition, Known, Memory};
use super::names::{ModuleNames, ModuleStanding, Names};
use super::wanted::{Wanted, WantedModule};
use crate::view::{Call, NamesLacking};

/// The names of a query, as far as they are known.
#[derive(Debug)]
pub(super) struct Resolving<'w> {
    memory: &'w Memory,
    modules: FxHashMap<&'w Identity, Module<'w>>,
    detail: Option<Arc<str>>,
}

/// The names of one binary, as far as they are known.
#[derive(Debug)]
struct Module<'w> {
    wanted: &'w WantedModule,
    known: Option<Known>,
    /// Whether the server was asked, or was so lately.
    is_checked: bool,
    /// Whether nobody can say now.
    is_lacking: bool,
    calls: FxHashMap<CodeAddress, Arc<[Call]>>,
}

impl<'w> Resolving<'w> {
    /// What is remembered.
    pub(super) fn new(wanted: &'w Wanted, memory: &'w Memory) -> Self {
        let modules = wanted.modules.iter();
        Self {
            memory,
            modules: modules
                .map(|(identity, wanted)| (identity, Module::remembered(identity, wanted, memory)))
                .collect(),
            detail: None,
        }
    }

    /// What is left to ask.
    pub(super) fn questions(&self) -> Vec<Question> {
        let mut questions: Vec<Question> = Vec::new();
        for (identity, module) in &self.modules {
            if let Some(addresses) = module.question() {
                questions.push(Question {
                    identity: Identity::clone(identity),
                    file_name: Arc::clone(&module.wanted.file_name),
                    addresses,
                });
            }
        }
        questions
    }

    /// Takes an answer to the questions of a chunk.
    pub(super) fn note(&mut self, chunk: &Chunk, answer: &CompactAnswer) {
        let answered = chunk.answered(answer);
        if answered.is_empty() {
            let detail = "the symbol server answered other modules than were asked for";
            return self.note_failure(chunk, &detail.into());
        }
        let mut reader = Reader::new(answer);
        for (question, module, addresses) in answered {
            self.note_module(&mut reader, (question, module), &addresses);
        }
    }

    /// The questions of a chunk were not answered.
    pub(super) fn note_failure(&mut self, chunk: &Chunk, detail: &Arc<str>) {
        for question in &chunk.questions {
            if let Some(module) = self.modules.get_mut(&question.identity) {
                module.is_lacking = true;
            }
        }
        self.detail = Some(Arc::clone(detail));
    }

    /// The names, and whether any are lacking.
    pub(super) fn finish(self) -> Names {
        let mut frames = 0_usize;
        let mut modules = FxHashMap::default();
        for (identity, module) in self.modules {
            let without = module
                .wanted
                .addresses
                .len()
                .saturating_sub(module.calls.len());
            let is_final = module.is_checked && !module.is_lacking && module.edition().is_none();
            if !is_final {
                frames = frames.saturating_add(without);
            }
            let known = module.known.map(|known| known.standing);
            let names = ModuleNames {
                standing: known.unwrap_or(ModuleStanding::Unavailable),
                calls: module.calls,
            };
            modules.insert(identity.clone(), names);
        }
        let lacking = (frames > 0).then(|| NamesLacking {
            frames: u64::try_from(frames).unwrap_or(u64::MAX),
            detail: self
                .detail
                .unwrap_or_else(|| "symbols are still coming; look again".into()),
        });
        Names { modules, lacking }
    }

    fn note_module<'a>(
        &mut self,
        reader: &mut Reader<'a>,
        (question, answer): (&Question, &'a CompactModule),
        addresses: &[CodeAddress],
    ) {
        let Some(module) = self.modules.get_mut(&question.identity) else {
            return;
        };
        let Some(standing) = standing(answer) else {
            module.is_lacking = true;
            self.detail
                .clone_from(&answer.detail.as_deref().map(Arc::from));
            if answer.status == ModuleStatus::Pending && module.edition().is_none() {
                let seconds = answer.retry_after_seconds.unwrap_or(1);
                let no_longer = Some(Duration::from_secs(seconds.into()));
                let pending = (ModuleStanding::Pending, None);
                let known = self.memory.know(&question.identity, pending, no_longer);
                module.known = Some(known);
            }
            return;
        };
        let edition = answer.generation.as_deref().map(|generation| {
            let same = module
                .edition()
                .filter(|edition| *edition.generation == *generation);
            same.cloned().unwrap_or_else(|| {
                Arc::new(Edition {
                    identity: question.identity.clone(),
                    generation: generation.into(),
                })
            })
        });
        if edition.as_ref() != module.edition() {
            module.calls.clear();
        }
        let said = (standing, edition.clone());
        module.known = Some(self.memory.know(&question.identity, said, None));
        module.is_checked = true;
        let (Some(edition), Some(stacks)) = (edition, &answer.stacks) else {
            return;
        };
        for (address, stack) in addresses.iter().zip(stacks) {
            let calls = reader.calls(stack);
            self.memory.name(&edition, *address, &calls);
            module.calls.insert(*address, calls);
        }
    }
}

impl<'w> Module<'w> {
    fn remembered(identity: &Identity, wanted: &'w WantedModule, memory: &Memory) -> Self {
        let known = memory.known(identity);
        let now = Instant::now();
        let is_fresh = known.as_ref().is_some_and(|known| known.good_until > now);
        let mut module = Self {
            wanted,
            is_checked: is_fresh,
            // Pending, and asked a moment ago.
            is_lacking: is_fresh
                && known
                    .as_ref()
                    .is_some_and(|known| known.standing == ModuleStanding::Pending),
            known,
            calls: FxHashMap::default(),
        };
        if let Some(edition) = module.edition().cloned() {
            let addresses = wanted.addresses.iter();
            let named =
                addresses.filter_map(|address| Some((*address, memory.names(&edition, *address)?)));
            module.calls = named.collect();
        }
        module
    }

    fn edition(&self) -> Option<&Arc<Edition>> {
        self.known.as_ref()?.edition.as_ref()
    }

    /// The addresses to ask for; none for a check of the generation; `None` when there is nothing to ask.
    fn question(&self) -> Option<Vec<CodeAddress>> {
        if self.is_lacking || (self.is_checked && self.edition().is_none()) {
            return None;
        }
        let addresses = self.wanted.addresses.iter().copied();
        let missing = addresses.filter(|address| !self.calls.contains_key(address));
        let mut missing: Vec<CodeAddress> = missing.collect();
        if missing.is_empty() && self.is_checked {
            return None;
        }
        // Of what had no symbols it is asked first whether it has some now.
        if self
            .known
            .as_ref()
            .is_some_and(|known| known.edition.is_none())
        {
            missing.clear();
        }
        missing.sort_unstable();
        Some(missing)
    }
}

/// What an answer says of a binary; `None` if it says nothing that lasts.
fn standing(answer: &CompactModule) -> Option<ModuleStanding> {
    Some(match answer.status {
        ModuleStatus::Found => ModuleStanding::Found(answer.quality.unwrap_or(Quality::None)),
        ModuleStatus::UnknownBuildId => ModuleStanding::UnknownBuildId,
        ModuleStatus::NoDebugInfo => ModuleStanding::NoDebugInfo,
        ModuleStatus::Malformed
        | ModuleStatus::Unsupported
        | ModuleStatus::TooLarge
        | ModuleStatus::Timeout => {
            ModuleStanding::Unusable(answer.detail.as_deref().unwrap_or_default().into())
        }
        _ => return None,
    })
}
