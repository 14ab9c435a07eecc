//! What whoever asked is told of a query without an answer.

use crate::engine::EngineError;
use crate::http::error::{ApiError, ApiErrorKind};
use crate::query::{QueryError, TurnError};
use crate::reading::ReadingError;

/// A query without an answer, as a failed request.
pub(super) fn failed(error: TurnError) -> ApiError {
    match error {
        TurnError::Query(error) => without_answer(error),
        TurnError::TooLong(limit) => {
            let detail = format!(
                "the query takes longer than {} s (query_seconds_max): ask for less time or fewer services",
                limit.as_secs()
            );
            ApiError::new(ApiErrorKind::Timeout, detail)
        }
        _ => {
            let detail = "as many queries run as may at once (queries_max); come again later";
            ApiError::new(ApiErrorKind::Busy, detail)
        }
    }
}

fn without_answer(error: QueryError) -> ApiError {
    match error {
        QueryError::Expired { .. } => ApiError::new(ApiErrorKind::Unprocessable, error.to_string()),
        QueryError::Engine(EngineError::Memory(_)) => {
            let detail = "the query needs more memory than it may have (query_memory_bytes_max): ask for less time, fewer services, or larger steps";
            ApiError::new(ApiErrorKind::Unprocessable, detail).with_source(error)
        }
        QueryError::Engine(EngineError::Gone(_) | EngineError::Ended)
        | QueryError::Reading(ReadingError::Objects(_) | ReadingError::RecordGone(_)) => {
            let detail = "the table cannot be read now; the log says why";
            ApiError::unavailable(detail).with_source(error)
        }
        QueryError::Reading(ReadingError::Hour { hour, .. }) => {
            let detail = format!(
                "hour {hour} cannot be read: something in it is damaged, or written by a newer version; the log says what"
            );
            ApiError::new(ApiErrorKind::Internal, detail).with_source(error)
        }
        _ => ApiError::internal(error),
    }
}
