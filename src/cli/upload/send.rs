//! One file to the server: hashed, asked for, and sent when it is needed.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use sha2::{Digest as _, Sha256};
use unhex_api::artifacts::{ArtifactKind, UploadAnswer, UploadPlan, UploadQuestion};
use unhex_api::client::{Client, ClientError, Encoding, FileBody, Place};
use unhex_build_id::{BuildId, Hex};

use super::outcome::{Item, Status};
use super::report::Bars;
use crate::cli::binaries::Label;

/// Sends files, each content once.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    client: Client,
    encoding: Encoding,
    bars: Bars,
    sent: Arc<Mutex<HashMap<Content, Label>>>,
    /// Whether the object store takes files from here, as far as is known.
    direct: Arc<AtomicBool>,
}

/// What makes two files the same upload.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Content {
    build_id: BuildId,
    kind: ArtifactKind,
    sha256: String,
}

/// A file to be sent.
#[derive(Clone, Debug)]
pub(super) struct Parcel {
    /// What people call it.
    pub(super) label: Label,
    /// The name that the server is told.
    pub(super) file_name: String,
    /// Where it lies.
    pub(super) path: PathBuf,
    /// Its length.
    pub(super) size_bytes: u64,
    /// The build ID that it belongs to.
    pub(super) build_id: BuildId,
    /// What it is.
    pub(super) kind: ArtifactKind,
}

/// No other file would fare better either, so nothing more is tried.
#[derive(Debug)]
pub(super) struct Hopeless(pub(super) ClientError);

impl Sender {
    pub(super) fn new(client: Client, encoding: Encoding, bars: Bars) -> Self {
        Self {
            client,
            encoding,
            bars,
            sent: Arc::default(),
            direct: Arc::new(AtomicBool::new(true)),
        }
    }

    /// What became of `parcel`.
    ///
    /// # Errors
    /// If the server cannot be reached, is none or takes nothing from us.
    pub(super) async fn send(&self, parcel: &Parcel) -> Result<Item, Hopeless> {
        let mut item = Item::new(parcel.label.clone(), Status::Failed).build_id(&parcel.build_id);
        item.kinds = vec![parcel.kind.as_str().to_owned()];
        let sha256 = match hash(parcel.path.clone()).await {
            Ok(sha256) => sha256,
            Err(error) => return Ok(item.detail(format!("{error:#}"))),
        };
        if let Some(other) = self.twin(parcel, &sha256) {
            item.status = Status::Skipped;
            return Ok(item.detail(format!("the same bytes as {other}")));
        }
        match self.exchange(parcel, sha256).await {
            Ok(done) => {
                item.status = done.status;
                item.sent_bytes = done.sent_bytes;
                item.learn(done.answer);
                if done.detail.is_some() {
                    item.detail = done.detail;
                }
                Ok(item)
            }
            Err(error) => failed(item, error),
        }
    }

    /// Sends the file to where the server says; to the server itself where that is its object store,
    /// and that cannot be reached from here or does not take it.
    async fn exchange(&self, parcel: &Parcel, sha256: String) -> Result<Done, ClientError> {
        let direct = self.direct.load(Ordering::Relaxed);
        match self.exchange_once(parcel, &sha256, direct).await {
            Err(error @ ClientError::ObjectStore { .. }) => {
                tracing::debug!(%error, "files go through the server from now on: {error}");
                self.direct.store(false, Ordering::Relaxed);
                self.exchange_once(parcel, &sha256, false).await
            }
            done => done,
        }
    }

    async fn exchange_once(
        &self,
        parcel: &Parcel,
        sha256: &str,
        direct: bool,
    ) -> Result<Done, ClientError> {
        let question = UploadQuestion {
            build_id: parcel.build_id.to_string(),
            kind: parcel.kind,
            sha256: sha256.to_owned(),
            size_bytes: parcel.size_bytes,
            file_name: Some(parcel.file_name.clone()),
            direct,
        };
        let (upload_id, url, complete) = match self.client.ask(&question).await? {
            UploadPlan::NotNeeded { detail, state } => {
                return Ok(Done {
                    status: Status::AlreadyThere,
                    answer: state,
                    detail: Some(detail).filter(|detail| !detail.is_empty()),
                    sent_bytes: 0,
                });
            }
            UploadPlan::Needed {
                upload_id,
                url,
                complete,
            } => (upload_id, url, complete),
        };
        let place = Place {
            url,
            complete: complete.then_some(upload_id),
            file_name: Some(parcel.file_name.clone()),
        };
        let body = FileBody {
            path: parcel.path.clone(),
            size_bytes: parcel.size_bytes,
            encoding: self.encoding,
        };
        let transfer = self.bars.transfer(&parcel.file_name, parcel.size_bytes);
        let sent = self
            .client
            .send(&place, &body, &transfer.progress())
            .await?;
        Ok(Done {
            status: if sent.answer.changed {
                Status::Uploaded
            } else {
                Status::AlreadyThere
            },
            detail: None,
            sent_bytes: sent.wire_bytes,
            answer: sent.answer,
        })
    }

    /// The file of the same content that was sent before, if there is one.
    fn twin(&self, parcel: &Parcel, sha256: &str) -> Option<Label> {
        let content = Content {
            build_id: parcel.build_id.clone(),
            kind: parcel.kind,
            sha256: sha256.to_owned(),
        };
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        let twin = sent.get(&content).cloned();
        if twin.is_none() {
            sent.insert(content, parcel.label.clone());
        }
        twin
    }
}

/// What came of the talk with the server.
struct Done {
    status: Status,
    answer: UploadAnswer,
    detail: Option<String>,
    sent_bytes: u64,
}

fn failed(mut item: Item, error: ClientError) -> Result<Item, Hopeless> {
    item.status = match &error {
        ClientError::Refused { .. } => Status::Refused,
        ClientError::Busy { .. } | ClientError::Stalled { .. } | ClientError::File { .. } => {
            Status::Failed
        }
        _ => return Err(Hopeless(error)),
    };
    Ok(item.detail(error.to_string()))
}

/// SHA-256 of a file, in hex, away from the tasks that send.
async fn hash(path: PathBuf) -> anyhow::Result<String> {
    let hashed = tokio::task::spawn_blocking(move || hash_file(&path));
    Ok(hashed.await.context("hashing was cut short")??)
}

fn hash_file(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hasher = HashWriter(Sha256::new());
    io::copy(&mut file, &mut hasher)?;
    Ok(Hex(&hasher.0.finalize()).to_string())
}

struct HashWriter(Sha256);

impl io::Write for HashWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
