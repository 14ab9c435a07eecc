//! What whoever asked is told of a query without an answer.

use crate::app::App;
use crate::engine::EngineError;
use crate::files::is_of_store;
use crate::http::error::{ApiError, ApiErrorKind};
use crate::query::{QueryError, TurnError, Window};
use crate::reading::ReadingError;

/// Does the work of a query about a window in its turn.
pub(super) async fn answered<T>(
    app: &App,
    window: Window,
    work: impl Future<Output = Result<T, QueryError>>,
) -> Result<T, ApiError> {
    // The work of a query is large.
    let work = Box::pin(work);
    let explained = async {
        match work.await {
            Ok(answer) => Ok(answer),
            Err(error) => Err(Box::pin(app.queries.explained(window, error)).await),
        }
    };
    match app.turns.run(explained).await {
        Ok(answer) => Ok(answer),
        Err(TurnError::Query(error)) => Err(without_answer(error)),
        Err(error) => Err(failed(&error)),
    }
}

fn failed(error: &TurnError) -> ApiError {
    if let TurnError::TooLong(limit) = error {
        let detail = format!(
            "the query takes longer than {} s (query_seconds_max): ask for less time or fewer services",
            limit.as_secs()
        );
        return ApiError::new(ApiErrorKind::Timeout, detail);
    }
    let detail = "as many queries run as may at once (queries_max); come again later";
    ApiError::new(ApiErrorKind::Busy, detail)
}

fn without_answer(error: QueryError) -> ApiError {
    match error {
        QueryError::Expired { .. } => ApiError::new(ApiErrorKind::Unprocessable, error.to_string()),
        QueryError::Engine(EngineError::Memory(_)) => {
            let detail = "the query needs more memory than it may have (query_memory_bytes_max): ask for less time, fewer services, or larger steps";
            ApiError::new(ApiErrorKind::Unprocessable, detail).with_source(error)
        }
        QueryError::Engine(EngineError::Gone(_) | EngineError::Ended)
        | QueryError::StoreAway { .. }
        | QueryError::Reading(ReadingError::Objects(_) | ReadingError::RecordGone(_)) => {
            unavailable(error)
        }
        QueryError::Damaged { damage, source } => {
            let detail = format!(
                "{} is damaged ({}): restore it from a copy, or see docs/profile-table.md for what to do without one; hours without it are answered",
                damage.key, damage.what
            );
            ApiError::new(ApiErrorKind::Damaged, detail).with_source(source)
        }
        QueryError::Reading(ReadingError::Hour { hour, .. }) => {
            let detail = format!(
                "hour {hour} cannot be read: something in it is damaged, or written by a newer version; the log says what"
            );
            ApiError::new(ApiErrorKind::Damaged, detail).with_source(error)
        }
        error if is_of_store(&error) => unavailable(error),
        error => ApiError::internal(error),
    }
}

fn unavailable(error: QueryError) -> ApiError {
    let detail = "the table cannot be read now; the log says why";
    ApiError::unavailable(detail).with_source(error)
}
