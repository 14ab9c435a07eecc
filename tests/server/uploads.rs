//! PUT under /buildid, POST /artifacts and /uploads: what comes in.

use std::io::Write as _;

use reqwest::{Client, StatusCode};
use serde_json::json;
use unhex_testkit::fixture::Program;

use crate::calls::{CODE, answer, bytes, get, program, put, state};
use crate::server::TestServer;

#[tokio::test]
async fn what_was_put_is_got_back_byte_for_byte_in_every_encoding() {
    let server = TestServer::start().await;
    let program = program();
    let id = program.build_id();
    let (debug, stripped) = (bytes(program.debug_only()), bytes(program.stripped()));
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&debug).unwrap();
    let path = format!("/buildid/{}/debuginfo", id.to_uppercase());
    let request = put(&server, &path, gzip.finish().unwrap()).header("content-encoding", "gzip");
    let (status, said) = answer(request).await;
    assert_eq!(status, 201, "{said}");
    assert_eq!(said["build_id"], *id);
    assert_eq!(said["kinds"], json!(["debuginfo"]));
    assert_eq!(said["changed"], true);

    let frames: Vec<u8> = stripped
        .chunks(5000)
        .flat_map(|chunk| zstd::encode_all(chunk, 3).unwrap())
        .collect();
    let pieces: Vec<Result<Vec<u8>, std::io::Error>> =
        frames.chunks(777).map(|piece| Ok(piece.to_vec())).collect();
    let chunked = reqwest::Body::wrap_stream(futures_util::stream::iter(pieces));
    let request = put(&server, &format!("/buildid/{id}/executable"), Vec::new())
        .body(chunked)
        .header("content-encoding", "zstd")
        .header("x-file-name", "/usr/bin/my%20program");
    let (status, said) = answer(request).await;
    assert_eq!(status, 201, "{said}");
    assert_eq!(said["kinds"], json!(["executable"]));

    assert_eq!(
        get(&server, &format!("/buildid/{id}/debuginfo")).await,
        (StatusCode::OK, debug)
    );
    assert_eq!(
        get(&server, &format!("/buildid/{id}/executable")).await,
        (StatusCode::OK, stripped)
    );
    let state = state(&server, &id).await;
    let names: Vec<&str> = state["artifacts"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|a| a["file_name"].as_str())
        .collect();
    assert_eq!(names, ["my program"]);
    assert_eq!(state["artifacts"][0]["from"], "127.0.0.1");
    assert_eq!(state["artifacts"][0]["who"], "anonymous");
}

#[tokio::test]
async fn better_replaces_worse_and_worse_never_better() {
    let server = TestServer::start().await;
    let program = program();
    let id = program.build_id();
    let path = format!("/buildid/{id}/debuginfo");
    let (status, said) = answer(put(&server, &path, bytes(program.stripped()))).await;
    assert_eq!(status, 201, "{said}");
    assert_eq!(
        said["kinds"],
        json!(["executable"]),
        "a stripped file is no debuginfo: {said}"
    );
    assert!(
        said["detail"].as_str().unwrap().contains("no debuginfo"),
        "{said}"
    );

    let (status, said) = answer(put(&server, &path, bytes(program.path()))).await;
    assert_eq!(status, 201, "{said}");
    assert_eq!(said["kinds"], json!(["executable", "debuginfo"]));

    let symbols = program.objcopy("symtab", &["--strip-debug"]);
    let (status, said) = answer(put(&server, &path, bytes(symbols))).await;
    assert_eq!(
        (status, &said["changed"]),
        (StatusCode::OK, &json!(false)),
        "{said}"
    );
    assert!(
        said["detail"]
            .as_str()
            .unwrap()
            .contains("below dwarf_inlines"),
        "{said}"
    );

    let (status, said) = answer(put(&server, &path, bytes(program.path()))).await;
    assert_eq!(
        (status, &said["changed"]),
        (StatusCode::OK, &json!(false)),
        "{said}"
    );
    for kind in ["debuginfo", "executable"] {
        let got = get(&server, &format!("/buildid/{id}/{kind}")).await;
        assert_eq!(got, (StatusCode::OK, program.bytes()), "{kind}");
    }
    let artifacts = state(&server, &id).await["artifacts"]
        .as_array()
        .unwrap()
        .len();
    assert_eq!(artifacts, 3, "nothing is lost, nothing is twice");
}

#[tokio::test]
async fn any_file_is_stored_as_what_it_says_it_is() {
    let server = TestServer::start().await;
    let program = program();
    let id = program.build_id();
    let post = |body| Client::new().post(server.url("/artifacts")).body(body);
    let (status, said) = answer(post(bytes(program.debug_only()))).await;
    assert_eq!(
        (status, &said["build_id"]),
        (StatusCode::CREATED, &json!(id)),
        "{said}"
    );
    let (status, said) = answer(post(bytes(program.stripped()))).await;
    assert_eq!(
        (status, &said["kinds"]),
        (StatusCode::CREATED, &json!(["executable"])),
        "{said}"
    );
}

#[tokio::test]
async fn a_file_without_a_build_id_has_a_home_that_its_hash_leads_to() {
    let server = TestServer::start().await;
    let nameless = Program::c(CODE).flags(&["-g"]).without_build_id().build();
    let hash = unhex_build_id::FileHash::of(&nameless.bytes()).to_string();
    let (status, said) = answer(
        Client::new()
            .post(server.url("/artifacts"))
            .body(nameless.bytes()),
    )
    .await;
    assert_eq!(status, 201, "{said}");
    let home = said["build_id"].as_str().unwrap();
    assert_eq!(home.len(), 64);
    let (status, said) = answer(put(
        &server,
        &format!("/buildid/{hash}/executable?id_kind=htlhash"),
        nameless.bytes(),
    ))
    .await;
    assert_eq!(
        (status, said["build_id"].as_str()),
        (StatusCode::OK, Some(home)),
        "{said}"
    );
    let (status, by_hash) = get(&server, &format!("/build-ids/{hash}?id_kind=htlhash")).await;
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&by_hash));

    let (status, problem) = answer(put(
        &server,
        &format!("/buildid/{hash}/executable?id_kind=htlhash"),
        program().bytes(),
    ))
    .await;
    assert_eq!(status, 422, "{problem}");
    assert!(
        problem["detail"].as_str().unwrap().contains(&hash),
        "{problem}"
    );
}

#[tokio::test]
async fn a_known_file_is_not_asked_for_again() {
    let server = TestServer::start().await;
    let program = program();
    let id = program.build_id();
    let question = json!({
        "build_id": id, "kind": "debuginfo", "size_bytes": program.bytes().len(),
        "sha256": unhex::artifacts::ContentHash::of(&program.bytes()).to_string(),
    });
    let ask = || Client::new().post(server.url("/uploads")).json(&question);
    let (status, plan) = answer(ask()).await;
    assert_eq!(
        (status, &plan["decision"]),
        (StatusCode::OK, &json!("needed")),
        "{plan}"
    );
    assert_eq!(plan["complete"], false);
    let complete = format!("/uploads/{}/complete", plan["upload_id"].as_str().unwrap());
    let complete = || Client::new().post(server.url(&complete));
    assert_eq!(answer(complete()).await.0, 409);

    let url = plan["url"].as_str().unwrap();
    let (status, said) = answer(put(&server, url, program.bytes())).await;
    assert_eq!(status, 201, "{said}");
    let (status, said) = answer(complete()).await;
    assert_eq!(
        (status, &said["build_id"]),
        (StatusCode::OK, &json!(id)),
        "{said}"
    );
    let (_, plan) = answer(ask()).await;
    assert_eq!(plan["decision"], "not_needed", "{plan}");
    let unknown = Client::new().post(server.url(&format!("/uploads/{}/complete", "0".repeat(32))));
    assert_eq!(answer(unknown).await.0, 404);
}

#[tokio::test]
async fn sources_are_served_by_the_paths_of_their_zip() {
    let server = TestServer::start().await;
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (key, text) in [("src/a b+c.c", "int a;"), ("src/d.c", "int d;")] {
        zip.start_file(key, zip::write::SimpleFileOptions::default())
            .unwrap();
        zip.write_all(text.as_bytes()).unwrap();
    }
    let zip = zip.finish().unwrap().into_inner();
    let (status, said) = answer(put(&server, "/buildid/abcd/sources", zip)).await;
    assert_eq!(status, 201, "{said}");
    assert_eq!(said["kinds"], json!(["sources"]));
    for path in [
        "/src/a%20b+c.c",
        "/src/x/../a%20b%2bc.c",
        "//src/./a%20b+c.c",
    ] {
        let got = get(&server, &format!("/buildid/abcd/source{path}")).await;
        assert_eq!(got, (StatusCode::OK, b"int a;".to_vec()), "{path}");
    }
    assert_eq!(get(&server, "/buildid/abcd/source/src/e.c").await.0, 404);
    let (status, problem) = answer(put(&server, "/buildid/abcd/sources", program().bytes())).await;
    assert_eq!(status, 422, "{problem}");
}

#[tokio::test]
async fn packed_split_dwarf_is_stored_for_the_build_id_of_the_path() {
    let server = TestServer::start().await;
    let program = program();
    let id = program.build_id();
    let path = format!("/buildid/{id}/dwp");
    let (status, problem) = answer(put(&server, &path, program.bytes())).await;
    assert_eq!(status, 422, "{problem}");
    let packed = program.objcopy("dwp", &["--add-section", ".debug_cu_index=/proc/version"]);
    let (status, said) = answer(put(&server, &path, bytes(&packed))).await;
    assert_eq!(
        (status, &said["kinds"]),
        (StatusCode::CREATED, &json!(["dwp"])),
        "{said}"
    );
    let nameless = Client::new().post(server.url("/artifacts"));
    let (status, problem) = answer(nameless.body(bytes(&packed))).await;
    assert_eq!(status, 422, "{problem}");
    assert!(
        problem["detail"].as_str().unwrap().contains("/dwp"),
        "{problem}"
    );
}
