//! Asks the symbol server what it lacks, and sends it.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc::Receiver;
use tokio::sync::mpsc::error::TryRecvError;
use unhex_api::artifacts::{UploadPlan, UploadQuestion};
use unhex_api::client::{
    Client, ClientError, ClientOptions, Encoding, FileBody, Place, ProgressFn,
};
use unhex_api::symbolize::{Module, ModuleStatus, SymbolizeRequest};
use unhex_build_id::{BuildId, Hex, Identity};

use super::{LocalFile, Sampled, find};
use crate::export::token;
use crate::metrics::{Metrics, UploadOutcome};
use crate::processes::BinaryKind;

/// Build IDs that are remembered to be dealt with: a host runs some thousand binaries in a day. Beyond it all are asked for again.
const SETTLED_MAX: usize = 65_536;
/// Build IDs that are asked for at once, less than the server takes in one request.
const ASKED_AT_ONCE: usize = 1_024;
/// Binaries that wait to be sent; more come again when they are sampled again.
const WAITING_MAX: usize = 4_096;
/// Bytes of a file that are hashed at a time.
const PIECE_BYTES: usize = 256 << 10;

/// Where debug information goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadOptions {
    /// The symbol server.
    pub server: String,
    /// A file with its write token.
    pub token_file: Option<PathBuf>,
    /// How many bytes of files a second, on average.
    pub bytes_per_second: u64,
    /// Where processes are looked up: `/proc` but in tests.
    pub proc: PathBuf,
}

/// Sends what a server lacks.
#[derive(Debug)]
pub struct Uploader {
    options: UploadOptions,
    client: Client,
    settled: HashSet<BuildId>,
    /// What the server lacks, with the size of the file here; 0 for those that this host has no symbols of.
    waiting: Vec<(u64, BuildId, Sampled)>,
    metrics: Arc<Metrics>,
    is_failing: bool,
}

impl Uploader {
    /// Nothing is asked yet.
    ///
    /// # Errors
    /// If the token cannot be read.
    pub fn new(options: UploadOptions, metrics: Arc<Metrics>) -> anyhow::Result<Self> {
        let token = options.token_file.as_deref().map(token);
        let client = Client::new(ClientOptions {
            server: options.server.clone(),
            token: token.transpose()?,
            user_agent: concat!("unhex-agent/", env!("CARGO_PKG_VERSION")).to_owned(),
            ..ClientOptions::default()
        })?;
        Ok(Self {
            options,
            client,
            settled: HashSet::new(),
            waiting: Vec::new(),
            metrics,
            is_failing: false,
        })
    }

    /// Deals with what was sampled until no more comes.
    pub async fn run(mut self, mut sampled: Receiver<Vec<Sampled>>) {
        loop {
            // Between two files it is looked what else is there: a small one need not wait for all the large ones.
            let binaries = if self.waiting.is_empty() {
                sampled.recv().await
            } else {
                match sampled.try_recv() {
                    Ok(binaries) => Some(binaries),
                    Err(TryRecvError::Empty) => Some(Vec::new()),
                    Err(TryRecvError::Disconnected) => None,
                }
            };
            let Some(binaries) = binaries else { return };
            match self.deal_with(binaries).await {
                Ok(()) => self.is_failing = false,
                Err(error) => {
                    // What was not settled comes again when it is sampled again.
                    self.waiting.clear();
                    let server = &self.options.server;
                    if !std::mem::replace(&mut self.is_failing, true) {
                        tracing::warn!(%error, "{server} is not sent what it lacks: {error}");
                    }
                }
            }
        }
    }

    /// Asks for those that are new, and sends one of those that the server lacks: the smallest, so that most have names soon.
    async fn deal_with(&mut self, binaries: Vec<Sampled>) -> Result<(), ClientError> {
        let mut new: HashMap<BuildId, Sampled> = HashMap::new();
        for sampled in binaries {
            // Only GNU build IDs can be uploaded for.
            if let Some(Identity::Gnu(id)) = &sampled.binary.identity
                && sampled.binary.kind == BinaryKind::File
                && !self.settled.contains(id)
                && !self.waiting.iter().any(|(_, waiting, _)| waiting == id)
            {
                new.insert(id.clone(), sampled);
            }
        }
        let new: Vec<(BuildId, Sampled)> = new.into_iter().collect();
        for part in new.chunks(ASKED_AT_ONCE) {
            for (id, sampled) in self.lacking(part).await? {
                let size_bytes = self.local(id, sampled).map_or(0, |file| file.size_bytes);
                let one = (size_bytes, id.clone(), sampled.clone());
                self.waiting.push(one);
            }
        }
        self.waiting.truncate(WAITING_MAX);
        let sizes = self.waiting.iter().enumerate();
        let smallest = sizes.min_by_key(|(_, (size_bytes, _, _))| *size_bytes);
        if let Some(place) = smallest.map(|(place, _)| place) {
            let (_, id, sampled) = self.waiting.swap_remove(place);
            self.settle(&id, &sampled).await?;
        }
        Ok(())
    }

    /// Those that the server has no symbols of, and never had.
    async fn lacking<'p>(
        &mut self,
        asked: &'p [(BuildId, Sampled)],
    ) -> Result<Vec<&'p (BuildId, Sampled)>, ClientError> {
        let modules = asked.iter().map(|(id, _)| Module {
            build_id: id.to_string(),
            ..Module::default()
        });
        let request = SymbolizeRequest {
            observe: false,
            modules: modules.collect(),
            wait_seconds: 0,
            ..SymbolizeRequest::default()
        };
        let answer = self.client.symbolize(&request).await?;
        let mut lacking = Vec::new();
        for (one, module) in asked.iter().zip(answer.modules) {
            match module.status {
                ModuleStatus::UnknownBuildId | ModuleStatus::NoDebugInfo => lacking.push(one),
                // It is being fetched or converted: that may come to nothing.
                ModuleStatus::Pending | ModuleStatus::Unavailable => {}
                _ => self.remember(one.0.clone()),
            }
        }
        Ok(lacking)
    }

    async fn settle(&mut self, id: &BuildId, sampled: &Sampled) -> Result<(), ClientError> {
        let found = self.local(id, sampled);
        // A process that is gone says nothing of its files: the next one that has the binary is asked.
        if found.is_none() && !self.folder(sampled).exists() {
            return Ok(());
        }
        let outcome = match found {
            None => UploadOutcome::NoSymbols,
            Some(file) => self.send(id, &file).await?,
        };
        self.metrics.upload(outcome);
        self.remember(id.clone());
        Ok(())
    }

    fn folder(&self, sampled: &Sampled) -> PathBuf {
        self.options.proc.join(sampled.process.0.to_string())
    }

    fn local(&self, id: &BuildId, sampled: &Sampled) -> Option<LocalFile> {
        let folder = self.folder(sampled);
        let name = sampled.binary.name.trim_end_matches(" (deleted)");
        find(&folder, Path::new(name), id)
    }

    async fn send(&self, id: &BuildId, file: &LocalFile) -> Result<UploadOutcome, ClientError> {
        let Ok(sha256) = sha256(file).await else {
            return Ok(UploadOutcome::Failed);
        };
        let question = UploadQuestion {
            build_id: id.to_string(),
            kind: file.kind,
            sha256,
            size_bytes: file.size_bytes,
            file_name: Some(file.name.clone()),
            direct: false,
        };
        let (url, complete) = match self.client.ask(&question).await? {
            UploadPlan::NotNeeded { .. } => return Ok(UploadOutcome::NotNeeded),
            UploadPlan::Needed {
                upload_id,
                url,
                complete,
            } => (url, complete.then_some(upload_id)),
        };
        let place = Place {
            url,
            complete,
            file_name: Some(file.name.clone()),
        };
        let body = FileBody {
            // The file that was looked at, whatever its path leads to by now.
            path: PathBuf::from(format!("/proc/self/fd/{}", file.file.as_raw_fd())),
            size_bytes: file.size_bytes,
            encoding: Encoding::Zstd,
        };
        let unwatched: ProgressFn = Arc::new(|_progress| {});
        let sent = self.client.send(&place, &body, &unwatched).await;
        let outcome = match sent {
            Ok(_) => {
                let name = &file.name;
                tracing::info!(build_id = %id, "{name} is sent to the symbol server, build ID {id}");
                UploadOutcome::Sent
            }
            Err(ClientError::Refused { .. } | ClientError::File { .. }) => UploadOutcome::Failed,
            Err(error) => return Err(error),
        };
        let pause = file.size_bytes / self.options.bytes_per_second.max(1);
        tokio::time::sleep(Duration::from_secs(pause)).await;
        Ok(outcome)
    }

    fn remember(&mut self, id: BuildId) {
        if self.settled.len() >= SETTLED_MAX {
            self.settled.clear();
        }
        self.settled.insert(id);
    }
}

/// The hash of a whole file; other tasks go on meanwhile.
async fn sha256(file: &LocalFile) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut piece = vec![0; PIECE_BYTES];
    let mut offset = 0;
    while offset < file.size_bytes {
        let count = file.file.read_at(&mut piece, offset)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        hash.update(piece.get(..count).unwrap_or_default());
        offset = offset.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        tokio::task::yield_now().await;
    }
    Ok(Hex(&hash.finalize()).to_string())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use unhex_testkit::fault_proxy::{Fault, FaultProxy};
    use unhex_testkit::fixture::Program;

    use super::*;
    use crate::processes::Binary;
    use crate::sample::ProcessId;

    /// An answer that says this of one module.
    fn says(status: &str) -> Fault {
        let body = format!(r#"{{"modules": [{{"build_id": "0a", "status": "{status}"}}]}}"#);
        Fault::answer(
            200,
            &[("Content-Type", "application/json")],
            body.as_bytes(),
        )
    }

    #[test]
    fn what_the_server_has_is_asked_for_once_and_what_it_cannot_say_again() {
        let server = FaultProxy::serving::<String>([]);
        let proc = tempfile::tempdir().unwrap();
        let sampled = Sampled {
            process: ProcessId(7),
            binary: Arc::new(Binary {
                name: "/bin/program".to_owned(),
                identity: Some(Identity::Gnu("0a".parse().unwrap())),
                kind: BinaryKind::File,
                ..Binary::anonymous()
            }),
        };
        let metrics = Arc::new(Metrics::new());
        let options = UploadOptions {
            server: server.url(),
            token_file: None,
            bytes_per_second: u64::MAX,
            proc: proc.path().to_owned(),
        };
        let mut uploader = Uploader::new(options, Arc::clone(&metrics)).unwrap();
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().unwrap();
        let mut deal = |fault| {
            server.fail(fault);
            let before = server.requests();
            let dealt = uploader.deal_with(vec![sampled.clone(), sampled.clone()]);
            runtime.block_on(dealt).unwrap();
            server.requests() - before
        };
        assert_eq!(deal(says("pending")), 1);
        // The process is gone.
        assert_eq!(deal(says("unknown_build_id")), 1);
        fs::create_dir(proc.path().join("7")).unwrap();
        assert_eq!(deal(says("unknown_build_id")), 1);
        let none = "unhex_agent_uploads_total{outcome=\"no_symbols\"} 1";
        assert!(metrics.render().contains(none), "{}", metrics.render());
        assert_eq!(deal(says("unknown_build_id")), 0);
    }

    #[test]
    fn a_file_is_hashed_as_a_whole() {
        let proc = tempfile::tempdir().unwrap();
        fs::create_dir(proc.path().join("7")).unwrap();
        symlink("/", proc.path().join("7/root")).unwrap();
        let program = Program::c("int main(void) { return 8; }")
            .flags(&["-g"])
            .build();
        let build_id = program.build_id().parse().unwrap();
        let found = find(&proc.path().join("7"), program.path(), &build_id).unwrap();
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let hash = runtime.build().unwrap().block_on(sha256(&found)).unwrap();
        let expected: [u8; 32] = Sha256::digest(program.bytes()).into();
        assert_eq!(hash, Hex(&expected).to_string());
    }
}
