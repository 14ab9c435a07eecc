//! GET /build-ids, GET and DELETE /build-ids/{id}.

use reqwest::{Client, StatusCode};
use serde_json::Value;
use unhex_testkit::fixture::Program;

use crate::server::TestServer;

async fn list(server: &TestServer, query: &str) -> (StatusCode, Value) {
    let response = Client::new()
        .get(server.url(&format!("/build-ids{query}")))
        .send()
        .await;
    let response = response.unwrap();
    (response.status(), response.json().await.unwrap())
}

async fn upload(server: &TestServer, id: &str) {
    let zip = {
        use std::io::Write as _;
        let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        zip.start_file("a.c", zip::write::SimpleFileOptions::default())
            .unwrap();
        zip.write_all(id.as_bytes()).unwrap();
        zip.finish().unwrap().into_inner()
    };
    let path = server.url(&format!("/buildid/{id}/sources"));
    let status = Client::new()
        .put(path)
        .body(zip)
        .send()
        .await
        .unwrap()
        .status();
    assert_eq!(status, 201, "{id}");
}

#[tokio::test]
async fn all_build_ids_are_listed_once_in_order_over_pages() {
    let server = TestServer::start().await;
    let ids = ["00ff", "ab", "ab01", "ab01ff", "abff", "fe00", "ff"];
    for id in ["abff", "ff", "ab", "00ff", "fe00", "ab01ff", "ab01"] {
        upload(&server, id).await;
    }
    for limit in [1, 2, 3, 7, 100] {
        let mut found: Vec<String> = Vec::new();
        let mut query = format!("?limit={limit}");
        loop {
            let (status, page) = list(&server, &query).await;
            assert_eq!(status, 200, "{page}");
            let entries = page["build_ids"].as_array().unwrap();
            assert!(entries.len() <= limit);
            found.extend(
                entries
                    .iter()
                    .map(|e| e["build_id"].as_str().unwrap().to_owned()),
            );
            match page["next"].as_str() {
                Some(next) => query = format!("?limit={limit}&after={next}"),
                None => break,
            }
        }
        assert_eq!(found, ids, "pages of {limit}");
    }
    for wrong in ["?limit=0", "?limit=1001", "?after=xyz", "?sort=age"] {
        assert_eq!(list(&server, wrong).await.0, 400, "{wrong}");
    }
}

#[tokio::test]
async fn what_is_deleted_is_gone_and_can_be_uploaded_again() {
    let server = TestServer::start().await;
    let program = Program::c("int main(void) { return 3; }")
        .flags(&["-g"])
        .build();
    let id = program.build_id();
    let url = server.url(&format!("/build-ids/{id}"));
    let put = || async {
        let path = server.url(&format!("/buildid/{id}/debuginfo"));
        Client::new()
            .put(path)
            .body(program.bytes())
            .send()
            .await
            .unwrap()
            .status()
    };
    let delete = || async { Client::new().delete(&url).send().await.unwrap().status() };
    let get = || async { Client::new().get(&url).send().await.unwrap().status() };
    let download = || async {
        let path = server.url(&format!("/buildid/{id}/debuginfo"));
        Client::new().get(path).send().await.unwrap().status()
    };
    assert_eq!(
        (get().await, delete().await),
        (StatusCode::NOT_FOUND, StatusCode::NOT_FOUND)
    );
    assert_eq!(put().await, 201);
    assert_eq!(
        (get().await, download().await),
        (StatusCode::OK, StatusCode::OK)
    );
    assert_eq!(delete().await, 204);
    assert_eq!(
        (get().await, download().await),
        (StatusCode::NOT_FOUND, StatusCode::NOT_FOUND)
    );
    assert_eq!(
        list(&server, "").await.1["build_ids"],
        serde_json::json!([])
    );
    assert_eq!(delete().await, 404);
    assert_eq!(
        put().await,
        201,
        "a later upload is not affected by the deletion"
    );
    assert_eq!(download().await, 200);
}
