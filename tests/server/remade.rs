//! A stored symbol index that cannot be read is made anew, once, whatever is wrong with it.

use std::path::PathBuf;

use serde_json::json;
use unhex::artifacts::{ArtifactKind, IndexLookup};
use unhex_api::symbolize::{ModuleAnswer, ModuleStatus};

use crate::server::TestServer;
use crate::stored::{PROGRAM, store};
use crate::symbolize::symbolize;

async fn module(server: &TestServer) -> ModuleAnswer {
    let body = json!({
        "modules": [{"build_id": PROGRAM.build_id(), "addresses": ["0x1"]}],
        "wait_seconds": 30,
    });
    symbolize(server, &body).await.modules.remove(0)
}

/// Where the index of the program lies.
async fn index(server: &TestServer) -> PathBuf {
    let id = PROGRAM.build_id().parse().unwrap();
    match server.app.artifacts.index(&id).await.unwrap() {
        IndexLookup::Ready(index) => index.path,
        other => panic!("{other:?}"),
    }
}

/// A server that has the program and whose index is what `damage` makes of it.
async fn with_damaged_index(damage: impl FnOnce(&mut Vec<u8>)) -> (TestServer, PathBuf) {
    let server = TestServer::start().await;
    let id = PROGRAM.build_id();
    store(&server, &id, ArtifactKind::Debuginfo, PROGRAM.bytes()).await;
    let path = index(&server).await;
    let mut bytes = std::fs::read(&path).unwrap();
    damage(&mut bytes);
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, bytes).unwrap();
    (server, path)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_cannot_be_read_is_made_anew_while_the_client_waits() {
    let other_format: fn(&mut Vec<u8>) = |bytes| bytes[8] ^= 0x40;
    let no_index: fn(&mut Vec<u8>) = |bytes| bytes.fill(0);
    let one_byte: fn(&mut Vec<u8>) = |bytes| bytes[40] ^= 1;
    let cut: fn(&mut Vec<u8>) = |bytes| bytes.truncate(100);
    let of_other_files: fn(&mut Vec<u8>) = |bytes| {
        let length = bytes.len();
        bytes.clear();
        let model = unhex_symbols::model::Model::default();
        unhex_symbols::index::write(model, &mut *bytes).unwrap();
        bytes.resize(length, 0);
    };
    for (what, damage) in [
        ("other format", other_format),
        ("no index", no_index),
        ("one byte", one_byte),
        ("cut", cut),
        ("of other files", of_other_files),
    ] {
        let (server, damaged) = with_damaged_index(damage).await;
        let module = module(&server).await;
        assert_eq!(module.status, ModuleStatus::Found, "{what}: {module:?}");
        assert_ne!(index(&server).await, damaged, "{what}");
    }
}
