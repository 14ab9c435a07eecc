//! Whether a build ID has symbols, read from what is stored, without converting anything or waiting.

use unhex_api::symbolize::ModuleStatus;
use unhex_build_id::Identity;
use unhex_symbols::quality::Quality;

use crate::artifacts::state::State;
use crate::artifacts::{Artifacts, IndexFailureKind, IndexStanding, LocateError};

/// The status that `/symbolize` would answer now, but for its waiting.
///
/// # Errors
/// If it is not known now.
pub async fn module_status(
    artifacts: &Artifacts,
    identity: &Identity,
) -> Result<ModuleStatus, LocateError> {
    let Some(id) = artifacts.resolve(identity).await? else {
        return Ok(ModuleStatus::UnknownBuildId);
    };
    let state = artifacts.state(&id).await?;
    let stored = of_state(artifacts, &state)?;
    Ok(match stored {
        ModuleStatus::UnknownBuildId | ModuleStatus::NoDebugInfo => {
            let in_place = artifacts.quality_in_place(&id)?.map(of_quality);
            in_place.unwrap_or(stored)
        }
        stored => stored,
    })
}

fn of_state(artifacts: &Artifacts, state: &State) -> Result<ModuleStatus, LocateError> {
    Ok(match state.index(artifacts.converter_version()) {
        IndexStanding::NoSources => {
            state.check_readable()?;
            ModuleStatus::UnknownBuildId
        }
        IndexStanding::Ready(index) => of_quality(index.body.quality),
        IndexStanding::Wanted { meanwhile, .. } => meanwhile
            .map_or(ModuleStatus::Pending, |index| {
                of_quality(index.body.quality)
            }),
        IndexStanding::Failed(failure) => match failure.kind {
            IndexFailureKind::Malformed => ModuleStatus::Malformed,
            IndexFailureKind::Unsupported => ModuleStatus::Unsupported,
            IndexFailureKind::TooLarge => ModuleStatus::TooLarge,
            IndexFailureKind::Timeout => ModuleStatus::Timeout,
        },
    })
}

fn of_quality(quality: Quality) -> ModuleStatus {
    if quality >= Quality::Symtab {
        ModuleStatus::Found
    } else {
        ModuleStatus::NoDebugInfo
    }
}
