//! The distinct binaries of a request: what each is, and whether there is an index of it now.
//!
//! Several modules may name one binary, in several spellings; its index is asked for once. All are
//! asked in rounds: those that are being fetched or converted are asked again in the next one, and stand in
//! nobody's way meanwhile. What is not known when the time is over is answered so.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream;
use futures_util::{FutureExt as _, StreamExt as _};
use rustc_hash::FxHashMap;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};
use tracing::warn;
use unhex_api::quality::{Origin, Quality};
use unhex_api::symbolize::{Module, ModuleStatus};
use unhex_build_id::{BuildId, Identity, ParseIdentityError};
use unhex_symbols::segments::LoadSegments;

use super::open_indexes::{OpenError, OpenIndex, OpenIndexes};
use super::words;
use crate::artifacts::{
    Artifacts, Fetching, IndexFailure, IndexFailureKind, IndexFile, IndexLookup, LocateError,
};

/// Binaries of one request whose index is asked for at the same time.
const LOOKUPS_AT_ONCE: usize = 32;
/// How often an index is opened that is replaced meanwhile, since it is superseded or damaged.
const OPENINGS_MAX: usize = 3;
/// The first pause before a conversion is asked for again, and the longest; each is twice the last.
const PAUSE_FIRST: Duration = Duration::from_millis(5);
const PAUSE_LAST: Duration = Duration::from_millis(200);
/// When a client should ask again for what is not ready.
const RETRY_AFTER_SECONDS: u32 = 2;

/// What is known of one binary.
#[derive(Clone, Debug)]
pub(super) enum Binary {
    /// Its index is open.
    Open(OpenBinary),
    /// There is none.
    Without(Without),
}

/// A binary whose index is open.
#[derive(Clone, Debug)]
pub(super) struct OpenBinary {
    pub(super) open: Arc<OpenIndex>,
    /// Another one for another index.
    pub(super) key: [u8; 32],
    pub(super) quality: Quality,
    pub(super) origin: Origin,
    /// The program headers of the executable, if the store knows them.
    pub(super) segments: Option<Arc<LoadSegments>>,
}

/// Why there is no index of a binary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Without {
    pub(super) status: ModuleStatus,
    pub(super) detail: String,
    pub(super) retry_after_seconds: Option<u32>,
}

impl Without {
    fn new(status: ModuleStatus, detail: impl Into<String>) -> Self {
        Self {
            status,
            detail: detail.into(),
            retry_after_seconds: None,
        }
    }

    /// Its answer would be larger than one request may have.
    pub(super) fn too_large(why: &dyn std::fmt::Display) -> Self {
        let detail = format!("its frames are too many for one answer: {why}; send fewer addresses");
        Self::new(ModuleStatus::TooLarge, detail)
    }

    /// It took longer than a request may take.
    pub(super) fn timed_out() -> Self {
        let detail = "it was not known in time (--symbolize-seconds-max); ask again";
        Self {
            retry_after_seconds: Some(RETRY_AFTER_SECONDS),
            ..Self::new(ModuleStatus::Unavailable, detail)
        }
    }

    /// It was not looked for.
    pub(super) fn not_asked() -> Self {
        Self::new(
            ModuleStatus::Unavailable,
            "it was not looked for; ask again",
        )
    }
}

/// The binaries of a request, and which one each module names.
#[derive(Debug)]
pub(super) struct Named {
    /// The distinct ones.
    pub(super) identities: Vec<Result<Identity, ParseIdentityError>>,
    /// Per module, an index into `identities`.
    pub(super) of_module: Vec<usize>,
}

impl Named {
    /// The binaries that `modules` name.
    pub(super) fn by(modules: &[Module]) -> Self {
        let mut numbers: FxHashMap<Identity, usize> = FxHashMap::default();
        let mut identities = Vec::new();
        let of_module = modules.iter().map(|module| {
            let number = identities.len();
            match Identity::parse(module.id_kind, &module.build_id) {
                Ok(identity) => *numbers.entry(identity).or_insert_with_key(|identity| {
                    identities.push(Ok(identity.clone()));
                    number
                }),
                Err(error) => {
                    identities.push(Err(error));
                    number
                }
            }
        });
        let of_module = of_module.collect();
        Self {
            identities,
            of_module,
        }
    }
}

/// Where binaries are looked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Finder<'a> {
    pub(super) artifacts: &'a Artifacts,
    pub(super) indexes: &'a OpenIndexes,
    /// The turns of all requests; whoever asked first has the next one.
    pub(super) turns: &'a Semaphore,
    /// Until when conversions are waited for.
    pub(super) converted_by: Instant,
    /// Until when anything is waited for.
    pub(super) found_by: Instant,
}

/// How far the question after one binary is.
#[derive(Debug)]
enum Asked {
    /// Nobody has answered yet.
    NotYet,
    /// What it lacks was being fetched, or it was being converted, when it was asked last.
    Waiting(Fetching),
    Answered(Binary),
}

impl Finder<'_> {
    /// What is known of each binary, in their order.
    pub(super) async fn find_all(
        self,
        identities: &[Result<Identity, ParseIdentityError>],
    ) -> Vec<Binary> {
        let mut asked: Vec<Asked> = Vec::new();
        asked.resize_with(identities.len(), || Asked::NotYet);
        let asking = self.ask_in_rounds(identities, &mut asked);
        if timeout_at(self.found_by, asking).await.is_err() {
            warn!("not every index was found in time; the store is slow");
        }
        let answer = |asked| match asked {
            Asked::NotYet => Binary::Without(Without::timed_out()),
            Asked::Waiting(_) => Binary::Without(pending()),
            Asked::Answered(binary) => binary,
        };
        asked.into_iter().map(answer).collect()
    }

    async fn ask_in_rounds(
        self,
        identities: &[Result<Identity, ParseIdentityError>],
        asked: &mut [Asked],
    ) {
        let mut pause = PAUSE_FIRST;
        loop {
            self.ask_each(identities, asked).await;
            let now = Instant::now();
            let is_waiting = asked.iter().any(|one| matches!(one, Asked::Waiting(_)));
            if !is_waiting || now >= self.converted_by {
                return;
            }
            tokio::time::sleep_until(self.converted_by.min(now + pause)).await;
            pause = (pause * 2).min(PAUSE_LAST);
        }
    }

    /// Asks once for each that has no answer.
    async fn ask_each(
        self,
        identities: &[Result<Identity, ParseIdentityError>],
        asked: &mut [Asked],
    ) {
        let numbered = identities.iter().enumerate().zip(asked.iter());
        let open = numbered.filter(|(_, one)| !matches!(one, Asked::Answered(_)));
        let asking: Vec<_> = open
            .map(|((number, identity), one)| {
                let before = match one {
                    Asked::Waiting(fetching) => Some(fetching.clone()),
                    Asked::NotYet | Asked::Answered(_) => None,
                };
                async move { (number, self.ask(identity, before).await) }
            })
            .collect();
        let mut answers = stream::iter(asking).buffer_unordered(LOOKUPS_AT_ONCE);
        while let Some((number, answer)) = answers.next().await {
            if let Some(one) = asked.get_mut(number) {
                *one = answer;
            }
        }
    }

    /// Asks for one, which was being waited for `before`.
    async fn ask(
        self,
        identity: &Result<Identity, ParseIdentityError>,
        before: Option<Fetching>,
    ) -> Asked {
        // The turns are never closed.
        let Ok(_turn) = self.turns.acquire().await else {
            return Asked::NotYet;
        };
        let found = match identity {
            Ok(Identity::Gnu(id)) => self.find_open(id, before).await,
            Ok(other) => match self.artifacts.resolve(other).await {
                Ok(Some(id)) => self.find_open(&id, before).await,
                Ok(None) => Err(no_alias(other)),
                Err(error) => Err(not_known_now(other, &error)),
            },
            Err(error) => {
                let detail = format!("the build ID is not one: {error}");
                Err(Without::new(ModuleStatus::Malformed, detail))
            }
        };
        found.unwrap_or_else(|without| Asked::Answered(Binary::Without(without)))
    }

    /// The open index of a build ID, unless it is to be waited for, or a better one is.
    async fn find_open(self, id: &BuildId, before: Option<Fetching>) -> Result<Asked, Without> {
        let fetching = if let Some(fetching) = before {
            fetching
        } else {
            let begun = self.artifacts.begin_completion(id).await;
            begun.map_err(|error| not_known_now(id, &error))?
        };
        for _ in 0..OPENINGS_MAX {
            let Some(file) = self.find_file(id, &fetching).await? else {
                break;
            };
            match self.indexes.open(&file).await {
                Ok(open) => return Ok(Asked::Answered(Binary::Open(open_binary(open, &file)))),
                Err(error) if error.is_gone() => {}
                Err(error) if error.is_damage() => self.forget(id, &file, &error).await?,
                Err(error) => return Err(not_opened(id, &error)),
            }
        }
        // If it was replaced each time, whoever waits asks again, too.
        Ok(Asked::Waiting(fetching))
    }

    /// The index of a build ID; `None` while it is being made, or while what may give a much better
    /// one is being fetched.
    async fn find_file(
        self,
        id: &BuildId,
        fetching: &Fetching,
    ) -> Result<Option<IndexFile>, Without> {
        // Looked at before the index is: what is fetched by now counts in it.
        let fetched = fetching.clone().now_or_never();
        match (self.artifacts.index(id).await, fetched) {
            // Good enough not to wait for a supplementary file.
            (Ok(IndexLookup::Ready(file)), _)
                if words::quality(file.quality) >= Quality::Symtab =>
            {
                Ok(Some(file))
            }
            (Ok(_), None) | (Ok(IndexLookup::Converting), _) => Ok(None),
            (Ok(IndexLookup::Ready(file)), _) => Ok(Some(file)),
            (Ok(IndexLookup::Failed(failure)), _) => Err(failed(&failure)),
            (Ok(IndexLookup::Unknown), Some(Ok(()))) => Err(unknown(id)),
            (Ok(IndexLookup::Unknown), Some(Err(error))) | (Err(error), _) => {
                Err(not_known_now(id, &error))
            }
        }
    }

    /// Lets a damaged index be made anew; if that is of no use, says that it cannot be opened.
    async fn forget(
        self,
        id: &BuildId,
        file: &IndexFile,
        damage: &OpenError,
    ) -> Result<(), Without> {
        warn!(build_id = %id, error = ?damage, "the index of {id} is damaged: {damage}");
        match self.artifacts.forget_index(id, file).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(not_opened(id, damage)),
            Err(error) => Err(not_known_now(id, &error)),
        }
    }
}

fn open_binary(open: Arc<OpenIndex>, file: &IndexFile) -> OpenBinary {
    OpenBinary {
        quality: words::quality(file.quality),
        origin: words::origin(file.origin),
        segments: file.segments.clone(),
        key: file.sha256,
        open,
    }
}

fn unknown(id: &BuildId) -> Without {
    let detail = format!(
        "nothing with build ID {id} is in the store; upload its debug file with `unhex upload PATH`"
    );
    Without::new(ModuleStatus::UnknownBuildId, detail)
}

fn no_alias(identity: &Identity) -> Without {
    let detail = format!(
        "nothing in the store has the {} identity {identity}; upload its debug file with `unhex upload PATH`",
        identity.kind()
    );
    Without::new(ModuleStatus::UnknownBuildId, detail)
}

fn pending() -> Without {
    Without {
        retry_after_seconds: Some(RETRY_AFTER_SECONDS),
        ..Without::new(
            ModuleStatus::Pending,
            "its debug file is being fetched or converted; ask again",
        )
    }
}

fn failed(failure: &IndexFailure) -> Without {
    let status = match failure.kind {
        IndexFailureKind::Malformed => ModuleStatus::Malformed,
        IndexFailureKind::Unsupported => ModuleStatus::Unsupported,
        IndexFailureKind::TooLarge => ModuleStatus::TooLarge,
        IndexFailureKind::Timeout => ModuleStatus::Timeout,
    };
    let detail = format!("its debug file cannot be converted: {}", failure.detail);
    Without::new(status, detail)
}

fn not_known_now(id: &dyn std::fmt::Display, error: &LocateError) -> Without {
    warn!(build_id = %id, "the index of {id} cannot be asked for: {error}");
    Without::new(
        ModuleStatus::Unavailable,
        "it is not known now, the server's log says why; ask again later",
    )
}

fn not_opened(id: &BuildId, error: &OpenError) -> Without {
    warn!(build_id = %id, error = ?error, "the index of {id} cannot be used: {error}");
    let detail = "its symbol index cannot be read now; ask again later";
    Without::new(ModuleStatus::Unavailable, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(build_id: &str) -> Module {
        Module {
            build_id: build_id.to_owned(),
            ..Module::default()
        }
    }

    #[test]
    fn one_binary_in_two_spellings_is_asked_for_once() {
        let named = Named::by(&["ab01", "xyz", "AB01", "cd", "xyz"].map(module));
        assert_eq!(named.of_module, [0, 1, 0, 2, 3]);
        assert_eq!(named.identities.len(), 4);
        assert!(named.identities[1].is_err());
    }
}
