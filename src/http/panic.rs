//! A panic in a handler is a mistake of ours: 500, logged with its message, the server lives on.

use std::any::Any;

use axum::response::{IntoResponse as _, Response};

use super::error::ApiError;

/// What a handler said when it panicked.
#[derive(Debug, thiserror::Error)]
#[error("panic: {0}")]
struct Panicked(String);

/// The answer to the request whose handler panicked.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the layer hands over the box that the panic left"
)]
pub(super) fn answer(payload: Box<dyn Any + Send + 'static>) -> Response {
    let message = payload
        .downcast_ref::<&'static str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "without a message".to_owned());
    ApiError::internal(Panicked(message)).into_response()
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::routing::get;
    use http::{Request, StatusCode};
    use tower::ServiceExt as _;
    use tower_http::catch_panic::CatchPanicLayer;

    use crate::http::error::LoggedError;

    #[tokio::test]
    async fn a_panic_is_500_and_only_the_log_learns_its_message() {
        let route = get(async || -> () { panic!("the secret {}", 42) });
        let route = route.layer(CatchPanicLayer::custom(super::answer));
        let router: axum::Router = axum::Router::new().route("/", route);
        let answer = router.oneshot(Request::new(Body::empty())).await.unwrap();
        assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
        let logged = answer.extensions().get::<LoggedError>().unwrap();
        assert!(logged.text.contains("the secret 42"), "{logged:?}");
        let body = axum::body::to_bytes(answer.into_body(), 1 << 10)
            .await
            .unwrap();
        let body = String::from_utf8(body.to_vec()).unwrap();
        assert!(
            body.contains("problem:internal") && !body.contains("secret"),
            "{body}"
        );
    }
}
