//! What the rooms know, in the words of the interface.
//!
//! Wire types stand apart from those that the program works with, so that neither holds the other
//! back; here is where they meet.

use unhex_api::artifacts as wire;

use crate::artifacts::record::ArtifactRecord;
use crate::artifacts::state::{State, Stored};
use crate::artifacts::{ArtifactKind, IndexProgress, IndexStanding, Ingested, Listed, LocateError};
use crate::symbolize::words::{origin, quality};

pub(super) fn kind(kind: ArtifactKind) -> wire::ArtifactKind {
    match kind {
        ArtifactKind::Executable => wire::ArtifactKind::Executable,
        ArtifactKind::Debuginfo => wire::ArtifactKind::Debuginfo,
        ArtifactKind::Dwp => wire::ArtifactKind::Dwp,
        ArtifactKind::Sources => wire::ArtifactKind::Sources,
    }
}

pub(super) fn kinds(of: impl IntoIterator<Item = ArtifactKind>) -> Vec<wire::ArtifactKind> {
    of.into_iter().map(kind).collect()
}

/// What an upload came to.
pub(super) fn upload_answer(ingested: Ingested) -> wire::UploadAnswer {
    let ready = ingested.index == IndexProgress::Ready;
    wire::UploadAnswer {
        build_id: ingested.build_id.to_string(),
        kinds: kinds(ingested.kinds),
        quality: quality(ingested.quality),
        changed: ingested.changed,
        index: match ingested.index {
            IndexProgress::NoSources => None,
            IndexProgress::Ready => Some(wire::IndexState::Ready),
            IndexProgress::Converting => Some(wire::IndexState::Converting),
            IndexProgress::Failed => Some(wire::IndexState::Failed),
        },
        functions: ready.then_some(ingested.functions),
        lines: ready.then_some(ingested.lines),
        detail: Some(ingested.detail).filter(|detail| !detail.is_empty()),
    }
}

/// How far the index is; `None` when there is nothing to convert.
pub(super) fn index_state(standing: &IndexStanding) -> Option<wire::IndexState> {
    match standing {
        IndexStanding::NoSources => None,
        IndexStanding::Ready(_) => Some(wire::IndexState::Ready),
        IndexStanding::Wanted { .. } => Some(wire::IndexState::Converting),
        IndexStanding::Failed(_) => Some(wire::IndexState::Failed),
    }
}

/// The state of one build ID.
pub(super) fn build_id_state(
    build_id: String,
    state: &State,
    converter_version: u32,
) -> wire::BuildIdState {
    let standing = state.index(converter_version);
    let index = match &standing {
        IndexStanding::Ready(index) => Some(&index.body),
        IndexStanding::Wanted { meanwhile, .. } => meanwhile.as_ref().map(|index| &index.body),
        _ => None,
    };
    let conflicts = state.conflicts.iter().map(|conflict| wire::StoredConflict {
        artifact: stored_artifact(&conflict.artifact),
        difference: conflict.difference.clone(),
    });
    let refusals = state.refusals.iter().map(|refusal| {
        let (body, at) = (
            &refusal.body,
            rfc3339(refusal.body.provenance.at_unix_seconds),
        );
        let from = body.provenance.from.as_deref().unwrap_or("unknown");
        let (kind, difference) = (body.kind.as_str(), &body.difference);
        format!(
            "{kind} {} at {at} from {from}: other code: {difference}",
            body.sha256
        )
    });
    wire::BuildIdState {
        build_id,
        generation: state.generation.0.to_string(),
        quality: quality(state.quality(converter_version)),
        index: index_state(&standing),
        functions: index.map(|index| index.functions),
        lines: index.map(|index| index.lines),
        detail: why_not_better(state, &standing),
        needs_supplement: index.and_then(|index| index.needs_supplement.clone()),
        artifacts: state.artifacts.iter().map(stored_artifact).collect(),
        conflicts: conflicts.collect(),
        refusals: refusals.collect(),
    }
}

/// One build ID in a list.
pub(super) fn build_id_entry(listed: &Listed, converter_version: u32) -> wire::BuildIdEntry {
    let unknown = State::default();
    let (state, problem) = match &listed.state {
        Ok(state) => (&**state, state.check_readable().err()),
        Err(error) => (&unknown, Some(error.clone())),
    };
    let detail = problem.map(|error| {
        tracing::warn!(build_id = %listed.id, %error, "{} is listed and not known now", listed.id);
        match error {
            LocateError::Damaged { .. } => {
                "what is stored of it cannot be read in part; upload it again"
            }
            _ => "it is not known now what is stored of it; ask again later",
        }
        .to_owned()
    });
    wire::BuildIdEntry {
        build_id: listed.id.to_string(),
        kinds: kinds(state.kinds()),
        quality: quality(state.quality(converter_version)),
        index: index_state(&state.index(converter_version)),
        conflict: !state.conflicts.is_empty(),
        detail,
    }
}

fn stored_artifact(artifact: &Stored<ArtifactRecord>) -> wire::StoredArtifact {
    let body = &artifact.body;
    wire::StoredArtifact {
        kinds: kinds(body.kinds.iter().copied()),
        sha256: body.sha256.to_string(),
        size_bytes: body.size_bytes,
        quality: quality(body.quality),
        origin: origin(body.origin),
        uploaded_at: rfc3339(body.provenance.at_unix_seconds),
        who: body.provenance.who.clone(),
        from: body.provenance.from.clone(),
        file_name: body.provenance.file_name.clone(),
    }
}

fn rfc3339(unix_seconds: u64) -> String {
    let seconds = i64::try_from(unix_seconds).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(seconds)
        .unwrap_or(jiff::Timestamp::MAX)
        .to_string()
}

/// Why the symbols are not better, and what to do about it.
fn why_not_better(state: &State, standing: &IndexStanding) -> Option<String> {
    let mut reasons = Vec::new();
    match standing {
        IndexStanding::Failed(failure) => reasons.push(failure.detail.clone()),
        IndexStanding::Ready(index) => {
            if let Some(supplement) = &index.body.needs_supplement {
                reasons.push(format!(
                    "the supplementary file {supplement} is missing; upload it"
                ));
            }
            if index.body.units_failed > 0 {
                let units = index.body.units_failed;
                reasons.push(format!("{units} DWARF units are damaged and were skipped"));
            }
        }
        _ => {}
    }
    if state.best(ArtifactKind::Debuginfo).is_none() {
        reasons.push("no debuginfo was uploaded".to_owned());
    }
    if state.best(ArtifactKind::Executable).is_none() {
        reasons.push(
            "no executable was uploaded: file offsets and process addresses need its segments"
                .to_owned(),
        );
    }
    let unreadable = state.unreadable.len();
    if unreadable > 0 {
        reasons.push(format!(
            "{unreadable} records cannot be read; the server's log names them"
        ));
    }
    (!reasons.is_empty()).then(|| reasons.join("; "))
}
