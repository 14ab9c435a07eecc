//! What an uploader is told whose file was not taken in.

use std::sync::Arc;

use super::error::{ApiError, ApiErrorKind};
use crate::artifacts::{IngestError, PublishError};

impl From<IngestError> for ApiError {
    fn from(error: IngestError) -> Self {
        let error = match error {
            IngestError::Shared(shared) => shared,
            own => Arc::new(own),
        };
        let answer = answer(&error);
        match answer.kind() {
            // Those of a wrong file say all in public.
            ApiErrorKind::Unavailable | ApiErrorKind::StorageFull => answer.with_source(error),
            _ => answer,
        }
    }
}

fn answer(error: &IngestError) -> ApiError {
    let detail = error.to_string();
    match error {
        IngestError::TooLarge { .. } | IngestError::LimitExceeded(_) => ApiError::too_large(detail),
        IngestError::Encoding { .. } => ApiError::bad_request(detail),
        IngestError::Refused { .. } => ApiError::new(ApiErrorKind::Unprocessable, detail),
        IngestError::OtherIdentity {
            found, expected, ..
        } => ApiError::new(ApiErrorKind::Unprocessable, detail)
            .with_member("found", found.as_str())
            .with_member("expected", expected.as_str()),
        IngestError::UnknownIdentity { .. } => ApiError::not_found(detail),
        IngestError::OtherCode {
            build_id,
            known_sha256,
            difference,
        } => ApiError::new(ApiErrorKind::Conflict, detail)
            .with_member("build_id", build_id.to_string())
            .with_member("known_sha256", known_sha256.to_string())
            .with_member("difference", difference.as_str()),
        IngestError::Locate(error) => error.clone().into(),
        IngestError::Publish(error) => not_published(error),
        IngestError::NoTurn(_) => ApiError::new(
            ApiErrorKind::Unavailable,
            "as many uploads as may (uploads_max) are under way; come again later",
        ),
        IngestError::Shared(shared) => answer(shared),
        IngestError::CutOff => ApiError::new(
            ApiErrorKind::Unavailable,
            "the server stops or has a fault; nothing of the upload is kept, send it again",
        ),
    }
}

fn not_published(error: &PublishError) -> ApiError {
    match error {
        PublishError::Store(error) if error.is_full() => ApiError::new(
            ApiErrorKind::StorageFull,
            "no room left; nothing of it is kept",
        ),
        PublishError::RecordTooLarge { .. } => ApiError::too_large(error.to_string()),
        PublishError::TooSlow => ApiError::new(
            ApiErrorKind::Unavailable,
            "storing took too long; nothing of it is kept, send it again",
        ),
        _ => ApiError::new(
            ApiErrorKind::Unavailable,
            "the object store cannot be written now; send it again later",
        ),
    }
}
