//! A symbol server that knows what a test says, counts what it is asked, and goes away and comes back on one port.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::extract::State;

use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Json, Router};
use http::StatusCode;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use unhex_api::quality::Quality;
use unhex_api::symbolize::{
    COMPACT_MEDIA_TYPE, CompactAnswer, CompactFrame, CompactModule, FLAG_INLINED, Module,
    ModuleStatus, Reason, SymbolizeRequest,
};

/// What is known of a build ID.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) status: ModuleStatus,
    pub(crate) generation: Option<String>,
    pub(crate) quality: Option<Quality>,
    /// Functions by address, innermost first.
    pub(crate) names: BTreeMap<u64, Vec<String>>,
}

impl Known {
    /// Symbols of some quality, by address.
    pub(crate) fn found(generation: &str, quality: Quality, names: &[(u64, &[&str])]) -> Self {
        let names = names.iter().map(|(address, names)| {
            let names = names.iter().map(|name| (*name).to_owned());
            (*address, names.collect())
        });
        Self {
            status: ModuleStatus::Found,
            generation: Some(generation.to_owned()),
            quality: Some(quality),
            names: names.collect(),
        }
    }

    /// Nothing, for that reason.
    pub(crate) fn nothing(status: ModuleStatus) -> Self {
        Self {
            status,
            generation: None,
            quality: None,
            names: BTreeMap::new(),
        }
    }
}

#[derive(Debug, Default)]
struct Inner {
    known: BTreeMap<String, Known>,
    requests: Vec<SymbolizeRequest>,
}

/// The server.
#[derive(Debug)]
pub(crate) struct SymbolServer {
    pub(crate) address: SocketAddr,
    inner: Arc<Mutex<Inner>>,
    running: Option<JoinHandle<()>>,
}

impl SymbolServer {
    /// One that knows nothing.
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut server = Self {
            address: listener.local_addr().unwrap(),
            inner: Arc::default(),
            running: None,
        };
        server.serve(listener);
        server
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Knows this of a build ID from now on.
    pub(crate) fn know(&self, build_id: &str, known: Known) {
        let mut inner = self.inner.lock().unwrap();
        inner.known.insert(build_id.to_owned(), known);
    }

    /// The requests since this was asked last.
    pub(crate) fn asked(&self) -> Vec<SymbolizeRequest> {
        std::mem::take(&mut self.inner.lock().unwrap().requests)
    }

    /// Nobody listens on its port.
    pub(crate) async fn go_away(&mut self) {
        if let Some(running) = self.running.take() {
            running.abort();
            let _aborted = running.await;
        }
    }

    /// It listens again.
    pub(crate) async fn come_back(&mut self) {
        let listener = TcpListener::bind(self.address).await.unwrap();
        self.serve(listener);
    }

    fn serve(&mut self, listener: TcpListener) {
        let router = Router::new()
            .route("/symbolize", post(symbolize))
            .with_state(Arc::clone(&self.inner));
        let serving = async move { axum::serve(listener, router).await.unwrap() };
        self.running = Some(tokio::spawn(serving));
    }
}

async fn symbolize(
    State(inner): State<Arc<Mutex<Inner>>>,
    headers: http::HeaderMap,
    Json(request): Json<SymbolizeRequest>,
) -> Response {
    if headers
        .get("accept")
        .is_none_or(|wanted| wanted != COMPACT_MEDIA_TYPE)
    {
        return StatusCode::NOT_ACCEPTABLE.into_response();
    }
    let mut inner = inner.lock().unwrap();
    let mut answer = CompactAnswer::default();
    for module in &request.modules {
        let known = inner.known.get(&module.build_id);
        let known = known.cloned();
        let known = known.unwrap_or_else(|| Known::nothing(ModuleStatus::UnknownBuildId));
        let module = answered(&mut answer, module, &known);
        answer.modules.push(module);
    }
    inner.requests.push(request);
    Json(answer).into_response()
}

fn answered(answer: &mut CompactAnswer, module: &Module, known: &Known) -> CompactModule {
    let mut stacks = Vec::new();
    for address in &module.addresses {
        let names = known.names.get(&address.known().unwrap());
        let names = names.cloned().unwrap_or_default();
        let count = names.len();
        let frames = names.into_iter().enumerate().map(|(depth, name)| {
            answer.strings.push(name);
            let name = u32::try_from(answer.strings.len() - 1).unwrap();
            let flags = if depth + 1 < count { FLAG_INLINED } else { 0 };
            let frame = CompactFrame(Some(name), None, None, 7, 0, flags);
            answer.frames.push(frame);
            u32::try_from(answer.frames.len() - 1).unwrap()
        });
        stacks.push(frames.collect::<Vec<_>>());
    }
    let has_symbols = known.generation.is_some();
    let reason = |stack: &Vec<u32>| stack.is_empty().then_some(Reason::NoFunction);
    CompactModule {
        build_id: module.build_id.clone(),
        status: known.status,
        detail: None,
        retry_after_seconds: (known.status == ModuleStatus::Pending).then_some(1),
        quality: known.quality,
        origin: None,
        generation: known.generation.clone(),
        reasons: has_symbols.then(|| stacks.iter().map(reason).collect()),
        stacks: has_symbols.then_some(stacks),
        offsets: None,
    }
}
