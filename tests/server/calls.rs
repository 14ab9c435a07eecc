//! Requests and answers over HTTP, and the program that most tests upload.

use std::path::Path;

use reqwest::{Client, RequestBuilder, StatusCode};
use serde_json::Value;
use unhex_testkit::fixture::{Fixture, Program};

use crate::server::TestServer;

/// The text of [`program`].
pub const CODE: &str = "int answer(int x) { return x * 42; } int main(void) { return answer(1); }";

/// A C program with lines.
pub fn program() -> Fixture {
    Program::c(CODE).flags(&["-O1", "-g"]).build()
}

/// The bytes of a file.
pub fn bytes(path: impl AsRef<Path>) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

/// A PUT that is not sent yet.
pub fn put(server: &TestServer, path: &str, body: Vec<u8>) -> RequestBuilder {
    Client::new().put(server.url(path)).body(body)
}

/// The status and the JSON of the answer.
pub async fn answer(request: RequestBuilder) -> (StatusCode, Value) {
    let response = request.send().await.unwrap();
    let status = response.status();
    let text = response.text().await.unwrap();
    let json = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{status}: {text}"));
    (status, json)
}

/// The status and the body of a GET.
pub async fn get(server: &TestServer, path: &str) -> (StatusCode, Vec<u8>) {
    let response = Client::new().get(server.url(path)).send().await.unwrap();
    (response.status(), response.bytes().await.unwrap().to_vec())
}

/// What GET /build-ids/{id} says.
pub async fn state(server: &TestServer, id: &str) -> Value {
    let (status, body) = get(server, &format!("/build-ids/{id}")).await;
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
    serde_json::from_slice(&body).unwrap()
}
