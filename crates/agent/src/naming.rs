//! Names for the native frames of a profile, from a symbol server: for a file that is looked at without a store.

use std::collections::BTreeMap;

use unhex_api::client::{Client, ClientError};
use unhex_api::symbolize::{Frame, Module, ModuleAnswer, SymbolizeRequest};
use unhex_build_id::Identity;
use unhex_pprof::pprof::NamedLine;
use unhex_pprof::{CodeAddress, FrameId, FrameKind, Profiles};

/// Addresses in one request, a tenth of what the server takes by default.
const ADDRESSES_MAX: usize = 100_000;
/// Modules in one request: a quarter of what the server takes by default.
const MODULES_MAX: usize = 1_024;
/// How long the server may wait for symbols that it fetches or converts: somebody is waiting, and does not ask again.
const WAIT_SECONDS: u32 = 30;

/// The names of frames.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// By the place of the frame in its model; empty for those without.
    frames: Vec<Vec<Frame>>,
    /// Binaries that the server had no symbols of, by file name, and what it said.
    pub lacking: BTreeMap<String, String>,
}

/// A part of what is asked.
struct Question<'m> {
    identity: &'m Identity,
    file_name: &'m str,
    /// Places of frames, and their link addresses.
    frames: Vec<(usize, u64)>,
}

impl Names {
    /// Asks for the names of all native frames of a model.
    ///
    /// # Errors
    /// If the server cannot be asked. What it does not know is no error.
    pub async fn ask(client: &Client, model: &Profiles<'_>) -> Result<Self, ClientError> {
        let mut names = Self {
            frames: vec![Vec::new(); model.frames().len()],
            lacking: BTreeMap::new(),
        };
        for questions in requests(questions(model)) {
            let request = SymbolizeRequest {
                observe: false,
                modules: questions.iter().map(Question::module).collect(),
                wait_seconds: WAIT_SECONDS,
                ..SymbolizeRequest::default()
            };
            let answer = client.symbolize(&request).await?;
            for (question, module) in questions.iter().zip(answer.modules) {
                names.add(question, module);
            }
        }
        Ok(names)
    }

    fn add(&mut self, question: &Question<'_>, answer: ModuleAnswer) {
        let Some(frames) = answer.frames else {
            let why = answer
                .detail
                .unwrap_or_else(|| format!("{:?}", answer.status));
            self.lacking.insert(question.file_name.to_owned(), why);
            return;
        };
        for ((place, _), frames) in question.frames.iter().zip(frames) {
            if let Some(found) = self.frames.get_mut(*place) {
                *found = frames;
            }
        }
    }

    /// How many frames have a name.
    pub fn len(&self) -> usize {
        self.frames.iter().filter(|names| !names.is_empty()).count()
    }

    /// Whether none has.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The names of a frame, innermost first; none are pushed where the server has none.
    pub fn of<'n>(&'n self, frame: FrameId, lines: &mut Vec<NamedLine<'n>>) {
        let names = self.frames.get(frame.index()).into_iter().flatten();
        lines.extend(names.map(|name| NamedLine {
            name: name.function.as_deref().unwrap_or_default(),
            system_name: name.linkage_name.as_deref().unwrap_or_default(),
            file_name: name.file.as_deref().unwrap_or_default(),
            line: name.line.into(),
            column: name.column.into(),
            start_line: 0,
        }));
    }
}

impl Question<'_> {
    fn module(&self) -> Module {
        Module {
            build_id: self.identity.to_string(),
            id_kind: self.identity.kind(),
            name: Some(self.file_name.to_owned()),
            addresses: self
                .frames
                .iter()
                .map(|(_, address)| (*address).into())
                .collect(),
            ..Module::default()
        }
    }
}

/// What is to be asked, a question for each binary.
fn questions<'m>(model: &'m Profiles<'_>) -> Vec<Question<'m>> {
    let mut all: BTreeMap<&Identity, Question<'m>> = BTreeMap::new();
    for (place, frame) in model.frames().iter().enumerate() {
        let FrameKind::Native(CodeAddress::Link(address)) = frame.kind else {
            continue;
        };
        let Some(binary) = frame.binary.and_then(|id| model.binary(id)) else {
            continue;
        };
        let Some(identity) = &binary.identity else {
            continue;
        };
        let question = all.entry(identity).or_insert_with(|| Question {
            identity,
            file_name: model.text(binary.file_name),
            frames: Vec::new(),
        });
        question.frames.push((place, address));
    }
    all.into_values().collect()
}

/// Puts questions together into requests that a server takes; one with very many addresses goes into several.
fn requests(questions: Vec<Question<'_>>) -> Vec<Vec<Question<'_>>> {
    let mut requests: Vec<Vec<Question<'_>>> = Vec::new();
    let mut room = 0;
    for question in questions {
        for frames in question.frames.chunks(ADDRESSES_MAX) {
            let is_full = requests.last().is_none_or(|last| last.len() >= MODULES_MAX);
            if is_full || frames.len() > room {
                requests.push(Vec::new());
                room = ADDRESSES_MAX;
            }
            room -= frames.len();
            if let Some(last) = requests.last_mut() {
                last.push(Question {
                    frames: frames.to_vec(),
                    ..question
                });
            }
        }
    }
    requests
}

#[cfg(test)]
mod tests {
    use unhex_api::client::ClientOptions;
    use unhex_pprof::{Binary, Builder, Frame as SentFrame};
    use unhex_testkit::fault_proxy::FaultProxy;

    use super::*;

    /// Frames at 0x10 of `a`, at 0x20 of `b`, and one of the kernel between.
    fn model() -> Profiles<'static> {
        let mut builder = Builder::default();
        let mut native = |file: &'static str, id: &str, address| {
            let binary = Binary {
                file_name: builder.string(file),
                identity: Some(Identity::Gnu(id.parse().unwrap())),
                ..Binary::default()
            };
            let binary = builder.binary(binary);
            let frame = SentFrame {
                kind: FrameKind::Native(CodeAddress::Link(address)),
                binary: Some(binary),
                address,
                ..SentFrame::default()
            };
            let kernel = SentFrame {
                kind: FrameKind::Kernel,
                ..SentFrame::default()
            };
            let id = builder.frame(frame, &[]);
            builder.frame(kernel, &[]);
            id
        };
        native("a", "0a", 0x10);
        native("b", "0b", 0x20);
        builder.finish()
    }

    #[test]
    fn each_frame_has_the_names_of_its_address_and_what_is_lacking_is_said() {
        let answer = br#"{"modules": [
            {"build_id": "0a", "status": "unknown_build_id", "detail": "upload it"},
            {"build_id": "0b", "status": "found", "reasons": [null],
             "frames": [[{"function": "inner", "inlined": true}, {"function": "outer", "file": "b.c", "line": 7}]]}]}"#;
        let server = FaultProxy::serving([("/symbolize", answer.to_vec())]);
        let client = Client::new(ClientOptions {
            server: server.url(),
            ..ClientOptions::default()
        });
        let model = model();
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().unwrap();
        let names = runtime
            .block_on(Names::ask(&client.unwrap(), &model))
            .unwrap();
        assert_eq!(names.len(), 1);
        let lacking: Vec<_> = names.lacking.iter().collect();
        assert_eq!(lacking, [(&"a".to_owned(), &"upload it".to_owned())]);
        let found: Vec<&str> = names.frames[2]
            .iter()
            .filter_map(|name| name.function.as_deref())
            .collect();
        assert_eq!(found, ["inner", "outer"]);
    }

    #[test]
    fn requests_stay_within_what_a_server_takes() {
        let identity = Identity::Gnu("0a".parse().unwrap());
        let question = |count| Question {
            identity: &identity,
            file_name: "a",
            frames: vec![(0, 0); count],
        };
        let sizes = |counts: &[usize]| {
            let questions = counts.iter().map(|count| question(*count)).collect();
            let requests = requests(questions);
            let sizes = requests.iter().map(|request| {
                let frames = request.iter().map(|question| question.frames.len());
                (request.len(), frames.sum::<usize>())
            });
            sizes.collect::<Vec<_>>()
        };
        assert_eq!(sizes(&[10, 20]), [(2, 30)]);
        assert_eq!(sizes(&[250_000]), [(1, 100_000), (1, 100_000), (1, 50_000)]);
        assert_eq!(sizes(&[60_000, 60_000]), [(1, 60_000), (1, 60_000)]);
        assert_eq!(sizes(&[1; 1_025]), [(1_024, 1_024), (1, 1)]);
    }
}
