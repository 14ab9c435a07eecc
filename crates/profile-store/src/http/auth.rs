//! Who may write: whoever shows the write token, as Bearer or as the password of Basic.
//!
//! Reading needs nothing. Who wrote is kept for the log; the token itself is never shown anywhere.

use std::fmt;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::HeaderMap;
use http::header::{self, HeaderValue};

use super::error::{ApiError, ApiErrorKind};
use super::ingest::error_form;
use crate::app::App;
use crate::config::WriteToken;

/// The longest user name of a writer that is kept.
const NAME_CHARS_MAX: usize = 64;

/// Who makes a write, as an extension of the request and of its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Writer {
    /// No token is configured, and everybody may write.
    Anonymous,
    /// Somebody who showed the token as Bearer.
    Token,
    /// Somebody who showed the token as Basic password, under this user name.
    Named(String),
}

impl fmt::Display for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anonymous => f.write_str("anonymous"),
            Self::Token => f.write_str("token"),
            Self::Named(name) => f.write_str(name),
        }
    }
}

/// Lets a write through only with the token, where one is configured. It stands before the body is
/// read, so that a refused message costs nothing.
pub(super) async fn require_write_token(
    State(app): State<App>,
    mut request: Request,
    next: Next,
) -> Response {
    let writer = match &app.config.write_token {
        None => Writer::Anonymous,
        Some(token) => match writer(token, request.headers()) {
            Some(writer) => writer,
            None => return refusal().into_response_as(error_form(&request)),
        },
    };
    request.extensions_mut().insert(writer.clone());
    let mut response = next.run(request).await;
    response.extensions_mut().insert(writer);
    response
}

fn refusal() -> ApiError {
    let challenge = HeaderValue::from_static("Bearer realm=\"unhex\", Basic realm=\"unhex\"");
    ApiError::new(
        ApiErrorKind::Unauthorized,
        "send Authorization: Bearer with the write token, or Basic with it as the password",
    )
    .with_header(header::WWW_AUTHENTICATE, challenge)
}

/// Who the headers say it is, if they have the token.
fn writer(token: &WriteToken, headers: &HeaderMap) -> Option<Writer> {
    let (scheme, credentials) = headers
        .get(header::AUTHORIZATION)?
        .to_str()
        .ok()?
        .split_once(' ')?;
    let credentials = credentials.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return token
            .matches(credentials.as_bytes())
            .then_some(Writer::Token);
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let pair = String::from_utf8(BASE64_STANDARD.decode(credentials).ok()?).ok()?;
    let (name, password) = pair.split_once(':')?;
    token.matches(password.as_bytes()).then(|| shown(name))
}

/// The user name, short and without characters that could forge log lines.
fn shown(name: &str) -> Writer {
    let name: String = name
        .chars()
        .filter(|c| !c.is_control())
        .take(NAME_CHARS_MAX)
        .collect();
    match name.as_str() {
        "" => Writer::Token,
        _ => Writer::Named(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(authorization: &str) -> Option<Writer> {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, authorization.parse().unwrap());
        writer(&WriteToken::new("s3cret").unwrap(), &headers)
    }

    fn basic(pair: &str) -> String {
        format!("Basic {}", BASE64_STANDARD.encode(pair))
    }

    #[test]
    fn the_token_counts_as_bearer_and_as_basic_password() {
        assert_eq!(says("Bearer s3cret"), Some(Writer::Token));
        assert_eq!(says("bearer  s3cret "), Some(Writer::Token));
        assert_eq!(says(&basic("ci:s3cret")), Some(Writer::Named("ci".into())));
        assert_eq!(says(&basic(":s3cret")), Some(Writer::Token));
    }

    #[test]
    fn nothing_else_counts() {
        for wrong in [
            "Bearer s3cre",
            "s3cret",
            "Digest s3cret",
            "Basic s3cret",
            "Bearer ",
        ] {
            assert_eq!(says(wrong), None, "{wrong}");
        }
        assert_eq!(says(&basic("s3cret:")), None);
        assert_eq!(says(&basic("s3cret")), None);
    }

    #[test]
    fn a_user_name_cannot_forge_a_log_line() {
        assert_eq!(
            says(&basic("a\nb:s3cret")),
            Some(Writer::Named("ab".into()))
        );
    }
}
