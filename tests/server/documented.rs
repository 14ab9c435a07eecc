//! Whether openapi.yaml has every status that a server of a test answers.
//!
//! The server logs each request with its status; here is who listens. What is not documented is told
//! when a [`TestServer`](super::TestServer) is dropped, whichever one it is.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::{LazyLock, Mutex, Once};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

/// Who writes the line of a request.
const REQUEST_LOG: &str = "unhex::http::request_log";
/// Not an answer: the client left before there was one.
const CLIENT_LEFT: u64 = 499;
/// A path that exists, but not with that method; true of every path.
const METHOD_NOT_ALLOWED: u64 = 405;

static UNDOCUMENTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
static OPERATIONS: LazyLock<Vec<Operation>> =
    LazyLock::new(|| operations(&unhex::http::openapi::document().unwrap()));

/// Listens from now on.
pub fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let only_lines = Targets::new().with_target(REQUEST_LOG, Level::INFO);
        let listener = tracing_subscriber::registry().with(Listener.with_filter(only_lines));
        tracing::subscriber::set_global_default(listener).expect("no other listener");
    });
}

/// Fails the test in which it is dropped when any answer was not documented.
#[derive(Debug)]
pub struct AllDocumented;

impl Drop for AllDocumented {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let found = std::mem::take(&mut *UNDOCUMENTED.lock().unwrap());
        assert!(found.is_empty(), "not in openapi.yaml: {found:?}");
    }
}

struct Listener;

impl<S: Subscriber> Layer<S> for Listener {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = Line::default();
        event.record(&mut line);
        if !line.method.is_empty() && !is_documented(&OPERATIONS, &line) {
            let Line {
                method,
                path,
                status,
            } = line;
            let answer = format!("{status} to {method} {path}");
            UNDOCUMENTED.lock().unwrap().insert(answer);
        }
    }
}

/// What a line says of a request.
#[derive(Clone, Debug, Default)]
struct Line {
    method: String,
    path: String,
    status: u64,
}

impl Visit for Line {
    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "status" {
            self.status = value;
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "path" {
            value.clone_into(&mut self.path);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "method" {
            self.method = format!("{value:?}");
        }
    }
}

/// One method of one path, as openapi.yaml has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Operation {
    path: String,
    method: String,
    statuses: BTreeSet<u64>,
}

/// All that a description has, read by its indents.
fn operations(yaml: &str) -> Vec<Operation> {
    let mut path = "";
    let mut found: Vec<Operation> = Vec::new();
    let within_paths = yaml.split("\ncomponents:").next().unwrap_or_default();
    for line in within_paths.lines() {
        let indent = line.len() - line.trim_start().len();
        let Some(key) = line.trim().strip_suffix(':') else {
            continue;
        };
        match indent {
            2 => path = key,
            4 => found.push(Operation {
                path: path.to_owned(),
                method: key.to_uppercase(),
                ..Operation::default()
            }),
            8 => {
                if let (Some(last), Ok(status)) = (found.last_mut(), key.trim_matches('\'').parse())
                {
                    last.statuses.insert(status);
                }
            }
            _ => {}
        }
    }
    found
}

fn is_documented(operations: &[Operation], line: &Line) -> bool {
    let method = match line.method.as_str() {
        "HEAD" => "GET",
        method => method,
    };
    let same_path = operations.iter().filter(|o| matches(&o.path, &line.path));
    let mut same: Vec<&Operation> = same_path.filter(|o| o.method == method).collect();
    if same.is_empty() && is_of_debuginfod(&line.path) {
        // Whatever else it is, it is answered as the other paths of debuginfod.
        let of_debuginfod = operations.iter().filter(|o| is_of_debuginfod(&o.path));
        same = of_debuginfod.filter(|o| o.method == method).collect();
    }
    match line.status {
        CLIENT_LEFT | METHOD_NOT_ALLOWED => true,
        404 if same.is_empty() => true,
        status => same.iter().any(|o| o.statuses.contains(&status)),
    }
}

fn is_of_debuginfod(path: &str) -> bool {
    let first = path.trim_start_matches('/').split('/').next();
    first.is_some_and(|first| first.replace("%62", "b") == "buildid")
}

/// Whether a path is of a template; its last parameter may be several segments.
fn matches(template: &str, path: &str) -> bool {
    let (mut wanted, mut found) = (template.split('/'), path.split('/'));
    loop {
        match (wanted.next(), found.next()) {
            (None, None) | (Some("{path}"), Some(_)) => return true,
            (Some(parameter), Some(_)) if parameter.starts_with('{') => {}
            (Some(word), Some(segment)) if word == segment => {}
            _ => return false,
        }
    }
}

#[test]
fn an_answer_with_another_status_than_described_is_noticed() {
    let yaml = "paths:\n  /a/{id}:\n    get:\n      responses:\n        '200':\n          description: x\n    \
                put:\n      responses:\n        '507':\ncomponents:\n  x:\n    get:\n        '999':\n";
    let operations = operations(yaml);
    assert_eq!(operations.len(), 2, "{operations:?}");
    let line = |method: &str, path: &str, status| Line {
        method: method.to_owned(),
        path: path.to_owned(),
        status,
    };
    for documented in [
        line("GET", "/a/1", 200),
        line("HEAD", "/a/1", 200),
        line("PUT", "/a/1", 507),
        line("POST", "/a/1", 405),
        line("GET", "/b", 404),
    ] {
        assert!(is_documented(&operations, &documented), "{documented:?}");
    }
    for other in [
        line("GET", "/a/1", 404),
        line("PUT", "/a/1", 200),
        line("GET", "/b", 200),
        line("GET", "/a", 503),
    ] {
        assert!(!is_documented(&operations, &other), "{other:?}");
    }
}
