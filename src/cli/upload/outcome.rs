//! What became of each file, and of all of them together.

use serde::Serialize;
use unhex_api::artifacts::{IndexState, UploadAnswer};
use unhex_api::quality::Quality;
use unhex_build_id::BuildId;

use crate::cli::binaries::Label;

/// What became of one file.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Item {
    /// The file, as `archive!member` in archives.
    pub(super) path: Label,
    /// Its build ID, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) build_id: Option<String>,
    /// As what it was sent, or as what the server took it.
    pub(super) kinds: Vec<String>,
    /// What became of it.
    pub(super) status: Status,
    /// Why, or what else there is to say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) detail: Option<String>,
    /// What its symbols are good for, as the server sees it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) quality: Option<Quality>,
    /// How far its symbol index is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) index: Option<IndexState>,
    /// Why addresses of this build ID cannot be symbolized although the file is stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) warning: Option<String>,
    /// Bytes that went over the network.
    pub(super) sent_bytes: u64,
}

/// What became of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    /// The server has it now.
    Uploaded,
    /// The server had it, or one that is as good.
    AlreadyThere,
    /// It would be uploaded, were this not a dry run.
    WouldUpload,
    /// The server does not take it.
    Refused,
    /// It could not be read or sent.
    Failed,
    /// Nobody could ask for it.
    NoBuildId,
    /// There is nothing in it to be stored.
    Skipped,
}

/// The counts over all files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Summary {
    pub(super) uploaded: u64,
    pub(super) already_there: u64,
    pub(super) would_upload: u64,
    pub(super) refused: u64,
    pub(super) failed: u64,
    pub(super) no_build_id: u64,
    pub(super) skipped: u64,
    pub(super) sent_bytes: u64,
}

impl Item {
    /// A file of which nothing else is known.
    pub(super) fn new(path: Label, status: Status) -> Self {
        Self {
            path,
            build_id: None,
            kinds: Vec::new(),
            status,
            detail: None,
            quality: None,
            index: None,
            warning: None,
            sent_bytes: 0,
        }
    }

    /// With the build ID.
    pub(super) fn build_id(mut self, build_id: &BuildId) -> Self {
        self.build_id = Some(build_id.to_string());
        self
    }

    /// Takes over what the server says of it.
    pub(super) fn learn(&mut self, answer: UploadAnswer) {
        if !answer.kinds.is_empty() {
            self.kinds = answer
                .kinds
                .iter()
                .map(|kind| kind.as_str().to_owned())
                .collect();
        }
        self.quality = Some(answer.quality);
        self.index = answer.index;
        if answer.index == Some(IndexState::Failed) {
            self.warning = Some(index_warning(answer.detail.as_deref()));
        } else {
            self.detail = answer.detail;
        }
    }

    /// With words on it.
    pub(super) fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }
}

impl Status {
    /// The word for people.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Uploaded => "uploaded",
            Self::AlreadyThere => "already there",
            Self::WouldUpload => "would upload",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::NoBuildId => "no build ID",
            Self::Skipped => "skipped",
        }
    }

    /// Whether something that should be in the store is not.
    pub(super) fn is_failure(self) -> bool {
        matches!(self, Self::Refused | Self::Failed | Self::NoBuildId)
    }
}

impl Summary {
    /// Counts `item` too.
    pub(super) fn add(&mut self, item: &Item) {
        let count = match item.status {
            Status::Uploaded => &mut self.uploaded,
            Status::AlreadyThere => &mut self.already_there,
            Status::WouldUpload => &mut self.would_upload,
            Status::Refused => &mut self.refused,
            Status::Failed => &mut self.failed,
            Status::NoBuildId => &mut self.no_build_id,
            Status::Skipped => &mut self.skipped,
        };
        *count += 1;
        self.sent_bytes = self.sent_bytes.saturating_add(item.sent_bytes);
    }

    /// Whether everything that was found is in the store.
    pub(super) fn is_success(&self) -> bool {
        self.refused == 0 && self.failed == 0 && self.no_build_id == 0
    }
}

/// What to say of a file that is stored and yet of no use for names.
pub(super) fn index_warning(detail: Option<&str>) -> String {
    let reason = detail.unwrap_or("the server does not say why");
    format!("stored, but its addresses cannot be symbolized: {reason}")
}
