//! Uploads: ask first, then send what is needed, and hear how far its symbol index is.

use std::time::Duration;

use reqwest::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use reqwest::{Method, Response, Url};
use tokio::time::Instant;

use super::body::{Encoding, FileBody, Meter, ProgressFn};
use super::error::ClientError;
use super::retry::{Patience, Repetition};
use super::transport::{AttemptError, Client};
use crate::artifacts::{BuildIdState, UploadAnswer, UploadPlan, UploadQuestion};

/// How often it is looked whether an upload still moves.
const WATCH_INTERVAL: Duration = Duration::from_millis(500);

/// What came of a file that was sent.
#[derive(Clone, Debug)]
pub struct Sent {
    /// What the server says of it.
    pub answer: UploadAnswer,
    /// Bytes that went over the network, all attempts together.
    pub wire_bytes: u64,
}

impl Client {
    /// Asks whether a file is needed, and where it should go. Costs the server no look at the file.
    ///
    /// # Errors
    /// If the server refuses, is busy or cannot be reached.
    pub async fn ask(&self, question: &UploadQuestion) -> Result<UploadPlan, ClientError> {
        let patience = Patience {
            timeout: self.answer_timeout,
            repetition: Repetition::Idempotent,
        };
        let answer = self.post("uploads", question, patience).await;
        answer.map_err(|error| match error {
            ClientError::Refused {
                status: status @ (404 | 405),
                ..
            } => self.answer_error(&format!("{status} to POST /uploads")),
            error => error,
        })
    }

    /// Sends a file to where [`Self::ask`] said, and publishes it.
    ///
    /// The file is read as it is sent; one that goes to an object store coded is coded into a temporary
    /// file before. A failed attempt is repeated from the start, which is
    /// harmless: an upload is idempotent by its content.
    ///
    /// # Errors
    /// If the file cannot be read, the server refuses it, stands still, is busy or cannot be reached.
    pub async fn send(
        &self,
        place: &Place,
        body: &FileBody,
        progress: &ProgressFn,
    ) -> Result<Sent, ClientError> {
        let url = self.url(&place.url)?;
        // An object store wants the length before the first byte.
        let coded = match place.complete {
            Some(_) => Some(body.coded().await?),
            None => None,
        };
        let wire = coded.as_ref().map_or(body, |coded| &coded.body);
        let wire_bytes = std::sync::atomic::AtomicU64::new(0);
        let answer = self
            .repeat(Repetition::Idempotent, || async {
                let meter = Meter::new(progress.clone());
                let stream = wire.open(&meter).await.map_err(AttemptError::Own)?;
                let mut request = self.request(Method::PUT, url.clone());
                request = request.header(CONTENT_TYPE, "application/octet-stream");
                if wire.encoding == Encoding::Identity {
                    request = request.header(CONTENT_LENGTH, wire.size_bytes);
                }
                if body.encoding == Encoding::Zstd {
                    request = request.header(CONTENT_ENCODING, "zstd");
                }
                let name = place.file_name.as_deref().filter(|_| coded.is_none());
                if let Some(name) = name.and_then(header_text) {
                    request = request.header("x-file-name", name);
                }
                let sent = self.watched(request.body(stream), &meter).await;
                wire_bytes.fetch_add(meter.wire_bytes(), std::sync::atomic::Ordering::Relaxed);
                sent
            })
            .await;
        let answer = match answer {
            Ok(answer) => self.accepted(answer).await,
            failed => failed,
        };
        let answer = match (answer, coded) {
            (Err(error), Some(_)) => return Err(at_object_store(&url, error)),
            (answer, _) => answer?,
        };
        let answer = match &place.complete {
            Some(upload_id) => {
                let path = format!("uploads/{upload_id}/complete");
                let patience = Patience {
                    timeout: self.stall_timeout,
                    repetition: Repetition::Idempotent,
                };
                self.post(&path, &serde_json::json!({}), patience).await?
            }
            None => self.json(answer).await?,
        };
        let wire_bytes = wire_bytes.into_inner();
        Ok(Sent { answer, wire_bytes })
    }

    /// What is known of a build ID; `None` when nothing is.
    ///
    /// # Errors
    /// If the server is busy or cannot be reached.
    pub async fn build_id_state(
        &self,
        build_id: &str,
    ) -> Result<Option<BuildIdState>, ClientError> {
        self.get(&format!("build-ids/{build_id}")).await
    }

    /// Sends a request and gives up when nothing moves any more; a large file may take hours, as
    /// long as it moves.
    async fn watched(
        &self,
        request: reqwest::RequestBuilder,
        meter: &Meter,
    ) -> Result<Response, AttemptError> {
        let sending = request.send();
        tokio::pin!(sending);
        let mut ticks = meter.ticks();
        let mut moved = Instant::now();
        loop {
            tokio::select! {
                answer = &mut sending => return answer.map_err(AttemptError::Send),
                () = tokio::time::sleep(WATCH_INTERVAL) => {}
            }
            if meter.ticks() != ticks {
                ticks = meter.ticks();
                moved = Instant::now();
            } else if moved.elapsed() >= self.stall_timeout {
                return Err(AttemptError::Stalled(self.stall_timeout));
            }
        }
    }
}

/// Where a file goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// A path of the server, or a presigned URL.
    pub url: String,
    /// The upload to be completed after the PUT, if it has to be.
    pub complete: Option<String>,
    /// The name that the server is told, without folders.
    pub file_name: Option<String>,
}

/// The failure of a put past the server, which is not the server's fault.
fn at_object_store(url: &Url, error: ClientError) -> ClientError {
    let reason = match error {
        error @ ClientError::File { .. } => return error,
        ClientError::Unreachable { reason, .. } => reason,
        ClientError::Refused { status, problem } => format!("{status}: {}", problem.words()),
        ClientError::Unauthorized { status, .. } => format!("status {status}"),
        error => error.to_string(),
    };
    let host = url.host_str().unwrap_or_default().to_owned();
    ClientError::ObjectStore { host, reason }
}

/// The name as a header may carry it: other bytes than visible ASCII and `%` are percent-encoded.
fn header_text(name: &str) -> Option<String> {
    let coded: String = name
        .bytes()
        .flat_map(|byte| match byte {
            b'%' | 0..=31 | 127.. => format!("%{byte:02X}").chars().collect::<Vec<_>>(),
            _ => vec![char::from(byte)],
        })
        .collect();
    (!coded.is_empty()).then_some(coded)
}
