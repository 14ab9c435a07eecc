//! docs/queries.md: its examples are run against a store, and answer what it says. `UPDATE=1` writes the answers.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use regex::Regex;
use serde_json::Value;
use unhex_pprof::{
    Binary, BinaryId, Builder, Extent, Frame, FrameId, Function, Line, NewSample, Profile,
    ValueType, packed, pprof,
};
use unhex_testkit::fixture::{Fixture, Program};
use unhex_testkit::server::{Home, Server};
use unhex_testkit::{http, repository, run};

use crate::{PROGRAM, post};

const DOCUMENT: &str = "docs/queries.md";
/// What a sample stands for.
const NANOS: i64 = 100_000_000;
const START: u64 = 0x55_5555_0000;

/// A profile that grows.
struct Profiled(Builder<'static>);

impl Profiled {
    fn new(time_unix_nanos: u64) -> Self {
        let mut builder = Builder::default();
        let mut value_type = |name: &'static str, unit: &'static str| ValueType {
            name: builder.string(name),
            unit: builder.string(unit),
        };
        let value_types = vec![
            value_type("samples", "count"),
            value_type("cpu", "nanoseconds"),
        ];
        builder.profile(Profile {
            value_types,
            time_unix_nanos,
            ..Profile::default()
        });
        Self(builder)
    }

    fn binary(&mut self, file_name: &'static str, build_id: &str) -> BinaryId {
        let file_name = self.0.string(file_name);
        let id_text = self.0.string(build_id.to_owned());
        self.0.binary(Binary {
            file_name,
            id_text,
            extent: Extent {
                start: START,
                limit: START + (1 << 20),
                file_offset: 0,
            },
            ..Binary::default()
        })
    }

    fn native(&mut self, binary: BinaryId, offset: u64) -> FrameId {
        let frame = Frame {
            binary: Some(binary),
            address: START + offset,
            ..Frame::default()
        };
        self.0.frame(frame, &[])
    }

    fn named(&mut self, name: &'static str) -> FrameId {
        let name = self.0.string(name);
        let function = self.0.function(Function {
            name,
            ..Function::default()
        });
        let line = Line {
            function,
            ..Line::default()
        };
        self.0.frame(Frame::default(), &[line])
    }

    /// So many samples of a stack, leaf first.
    fn stack(&mut self, frames: &[FrameId], samples: i64) {
        let stack = self.0.stack(frames);
        self.0.sample(NewSample {
            stack,
            values: &[samples, samples * NANOS],
            ..NewSample::default()
        });
    }

    fn file(self) -> Vec<u8> {
        let model = self.0.finish();
        packed(&pprof::encode(&model, &model.profiles()[0]).expect("a profile"))
    }
}

fn program() -> Fixture {
    Program::c(
        "__attribute__((noinline)) int hash(int n) { return n * 3; }\n\
         int main(int argc, char **argv) { return hash(argc); }\n",
    )
    .flags(&["-g", "-O1", "-pie", "-fPIE"])
    .name("checkout")
    .build_id("feedfacefeedfacefeedfacefeedfacefeedface")
    .build()
}

/// Where a function is in the file, which is where it is linked in so small a program.
fn offset(fixture: &Fixture, function: &str) -> u64 {
    let symbols = run::succeed(Command::new("nm").arg(fixture.path())).text();
    let mut lines = symbols
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let line = lines
        .find(|line| line.last() == Some(&function))
        .expect("a symbol");
    u64::from_str_radix(line[0], 16).expect("hex")
}

/// A symbol server that knows the program, and a store with its profiles.
fn servers() -> (Server, Server) {
    let program = program();
    let symbols = Server::start(run::program_beside(PROGRAM, "unhex"));
    let url = symbols.url(&format!("/buildid/{}/debuginfo", program.build_id()));
    let uploaded = http::put(&url, &run::read(program.path())).expect("an answer");
    assert!((200..300).contains(&uploaded.status), "{}", uploaded.text());
    let store = Server::start_in(Home::new(), PROGRAM, &["--symbols", &symbols.url("")]);
    let offsets = ["hash", "main"].map(|function| offset(&program, function));
    // One time for both, so that they are of one hour.
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = u64::try_from(now.expect("after 1970").as_nanos()).expect("64 bits");
    let mut new = Profiled::new(now);
    let app = new.binary("/usr/bin/checkout", &program.build_id());
    let lib = new.binary(
        "/usr/lib/libfoo.so",
        "0123456789abcdef0123456789abcdef01234567",
    );
    let [hash, main] = offsets.map(|offset| new.native(app, offset));
    let unknown = new.native(lib, 0x1a2b);
    let python = new.named("[python]");
    new.stack(&[hash, main], 40);
    new.stack(&[unknown, main], 30);
    new.stack(&[python], 20);
    new.stack(&[main], 10);
    let mut old = Profiled::new(now);
    let app = old.binary("/usr/bin/checkout", &program.build_id());
    let main = old.native(app, offsets[1]);
    old.stack(&[main], 5);
    for (version, file) in [("2.4", new.file()), ("2.3", old.file())] {
        let path =
            format!("/profiles?service=checkout&version={version}&deployment=prod&host=web-1");
        let answer = post(&store, &path, &[], &file);
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    (symbols, store)
}

/// What a line of the document answers: one of ours in a shell, or a GET by the name of curl.
fn answer(store: &Server, folder: &Path, command: &str) -> String {
    if let Some(url) = command.strip_prefix("curl ") {
        let url = url
            .trim_matches('\'')
            .replace("http://127.0.0.1:8003", &store.url(""));
        let url = url
            .replace('{', "%7B")
            .replace('}', "%7D")
            .replace('"', "%22");
        let text = http::get(&url).expect("an answer").text();
        let json: Value = serde_json::from_str(&text).expect("JSON");
        return pretty(&json);
    }
    let programs = Path::new(PROGRAM).parent().expect("a folder");
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(folder);
    let path = std::env::var("PATH").unwrap_or_default();
    shell.env("PATH", format!("{}:{path}", programs.display()));
    shell.env("UNHEX_STORE", store.url(""));
    run::succeed(&mut shell).text()
}

/// A line for each member, and lists of numbers on one line.
fn pretty(json: &Value) -> String {
    let mut text = "{\n".to_owned();
    for (name, value) in json.as_object().expect("an object") {
        let _infallible = writeln!(text, "  \"{name}\": {value},");
    }
    text.truncate(text.len() - 2);
    text.push_str("\n}\n");
    text
}

/// Without what differs from run to run: times, and in tables of files all numbers and widths.
fn comparable(command: &str, text: &str) -> String {
    let times =
        Regex::new(r"\d{4}-\d\d-\d\d[T/]\d\d(:|%3A)?\d*(:|%3A)?[\d.]*Z?").expect("a pattern");
    let text = times.replace_all(text, "TIME").into_owned();
    if !command.contains("segments") {
        return text;
    }
    let numbers = Regex::new(r"\s+|\d+").expect("a pattern");
    let words = |found: &regex::Captures<'_>| {
        let is_space = found[0].trim().is_empty();
        if is_space { " " } else { "N" }.to_owned()
    };
    numbers.replace_all(&text, words).into_owned()
}

#[test]
fn the_examples_of_queries_answer_what_the_document_says() {
    let (_symbols, store) = servers();
    let folder = tempfile::tempdir().expect("a folder");
    let path = repository::root().join(DOCUMENT);
    let document = std::fs::read_to_string(&path).expect("the document");
    let parts: Vec<&str> = document.split("```").collect();
    let mut written = String::new();
    let mut said: Option<(String, String)> = None;
    for (place, part) in parts.iter().enumerate() {
        let separator = if place == 0 { "" } else { "```" };
        if let Some(commands) = part.strip_prefix("sh\n") {
            let answers = commands
                .lines()
                .map(|command| answer(&store, folder.path(), command));
            said = Some((commands.to_owned(), answers.collect()));
        }
        match (
            part.strip_prefix("text\n"),
            said.take_if(|_| part.starts_with("text\n")),
        ) {
            (Some(expected), Some((commands, answer))) => {
                if std::env::var_os("UPDATE").is_none() {
                    let found = comparable(&commands, &answer);
                    assert_eq!(
                        found,
                        comparable(&commands, expected),
                        "{commands}\n{answer}"
                    );
                }
                let _infallible = write!(written, "{separator}text\n{answer}");
            }
            _ => written = format!("{written}{separator}{part}"),
        }
    }
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, written).expect("the document");
    }
    let picture = std::fs::read_to_string(folder.path().join("checkout.svg"));
    assert!(picture.expect("a picture").contains("hash ("));
    assert!(folder.path().join("checkout.pb.gz").exists());
}
