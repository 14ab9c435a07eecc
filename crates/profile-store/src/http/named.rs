//! What stands around each route: its name in metrics and logs, and a catch for panics.
//!
//! A panic in a handler is a mistake of ours: 500, logged with its message, the server lives on.

use std::any::Any;
use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::task::{Context, Poll};

use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tower::{Layer, Service};

use super::error::ApiError;

/// The name of a route in metrics and logs, as an extension of its answers.
#[derive(Clone, Copy, Debug)]
pub(super) struct RouteName(pub(super) &'static str);

impl<S> Layer<S> for RouteName {
    type Service = Named<S>;

    fn layer(&self, inner: S) -> Named<S> {
        Named { inner, name: *self }
    }
}

/// A route with its name.
#[derive(Clone, Debug)]
pub(super) struct Named<S> {
    inner: S,
    name: RouteName,
}

impl<S> Service<Request> for Named<S>
where
    S: Service<Request, Response = Response, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let answering = AssertUnwindSafe(self.inner.call(request)).catch_unwind();
        let name = self.name;
        let named = answering.map(move |answered| {
            let mut response = match answered {
                Ok(Ok(response)) => response,
                Err(payload) => after_panic(&*payload),
            };
            response.extensions_mut().insert(name);
            Ok(response)
        });
        named.boxed()
    }
}

/// What a handler said when it panicked.
#[derive(Debug, thiserror::Error)]
#[error("panic: {0}")]
struct Panicked(String);

/// The answer to the request whose handler panicked.
fn after_panic(payload: &(dyn Any + Send)) -> Response {
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

    use super::*;
    use crate::http::error::LoggedError;

    #[tokio::test]
    async fn a_panic_is_500_and_only_the_log_learns_its_message() {
        let route = get(async || -> () { panic!("the secret {}", 42) });
        let route = route.layer(RouteName("panics"));
        let router: axum::Router = axum::Router::new().route("/", route);
        let answer = router.oneshot(Request::new(Body::empty())).await.unwrap();
        assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(answer.extensions().get::<RouteName>().unwrap().0, "panics");
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
