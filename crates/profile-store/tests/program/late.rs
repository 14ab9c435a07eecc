//! Late symbols, with the real symbol server: a profile comes first, then symbols, then better ones; names follow on the same data.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use unhex_build_id::{IdKind, Identity};
use unhex_pprof::{
    Binary, BinaryRole, Builder, CodeAddress, Extent, Frame, FrameKind, NewSample, Profile,
    ValueType,
};
use unhex_testkit::fixture::{Fixture, Program};
use unhex_testkit::server::{Home, Server};
use unhex_testkit::{http, run};

use crate::asked::{ask, json};
use crate::{PROGRAM, metric, post};

/// What the acceptance allows: a minute from the upload to names on old data.
const A_MINUTE: Duration = Duration::from_mins(1);
const START: u64 = 0x5555_0000_0000;

/// A pprof of a process that has the binary mapped: a sample at each offset of the file.
pub(crate) fn profile(build_id: &str, offsets: &[u64], seconds: i64) -> Vec<u8> {
    let mut builder = Builder::default();
    let binary = Binary {
        file_name: builder.string("/opt/app/app"),
        identity: Some(Identity::parse(IdKind::Gnu, build_id).expect("a build ID")),
        id_text: builder.string(build_id.to_owned()),
        role: BinaryRole::File,
        extent: Extent {
            start: START,
            limit: START + (16 << 20),
            file_offset: 0,
        },
        ..Binary::default()
    };
    let binary = builder.binary(binary);
    let value_type = |builder: &mut Builder<'static>, name, unit| ValueType {
        name: builder.string(name),
        unit: builder.string(unit),
    };
    let value_types = vec![
        value_type(&mut builder, "samples", "count"),
        value_type(&mut builder, "cpu", "nanoseconds"),
    ];
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("after 1970");
    builder.profile(Profile {
        period_type: value_types.last().copied(),
        value_types,
        period: 10_000_000,
        time_unix_nanos: u64::try_from(now.as_nanos()).expect("64 bits"),
        ..Profile::default()
    });
    for offset in offsets {
        let frame = Frame {
            kind: FrameKind::Native(CodeAddress::FileOffset(*offset)),
            binary: Some(binary),
            address: START + offset,
            ..Frame::default()
        };
        let frame = builder.frame(frame, &[]);
        let stack = builder.stack(&[frame]);
        builder.sample(NewSample {
            stack,
            link: None,
            attributes: &[],
            values: &[seconds * 100, seconds * 1_000_000_000],
            timestamps: &[],
        });
    }
    let model = builder.finish();
    unhex_pprof::pprof::encode(&model, &model.profiles()[0]).expect("a pprof")
}

/// The symbol server, which lies beside the store when both are built.
fn symbol_server_program() -> PathBuf {
    let program = Path::new(PROGRAM).with_file_name("unhex");
    assert!(
        program.exists(),
        "no {program:?}: run `cargo build -p unhex` first, or `cargo test --workspace`"
    );
    program
}

/// `inner` is inlined into `work`, which only DWARF knows.
fn program() -> Fixture {
    Program::c(
        "static inline __attribute__((always_inline)) int inner(volatile int *n) {\n\
         return *n * 3;\n\
         }\n\
         __attribute__((noinline)) int work(int n) {\n\
         volatile int m = n;\n\
         return 2 * inner(&m);\n\
         }\n\
         int main(int argc, char **argv) { return work(argc); }\n",
    )
    .flags(&["-g", "-O1", "-pie", "-fPIE"])
    .build_id("feedfacefeedfacefeedfacefeedfacefeedface")
    .build()
}

/// The bytes of `work` in the file: of so small a program addresses are offsets, which is checked.
fn offsets_of_work(fixture: &Fixture) -> Vec<u64> {
    let symbols = run::succeed(Command::new("nm").arg("-S").arg(fixture.path())).text();
    let line = symbols.lines().find(|line| line.ends_with(" work"));
    let mut fields = line.expect("work").split_whitespace();
    let mut number = || u64::from_str_radix(fields.next().expect("a field"), 16).expect("hex");
    let (start, size) = (number(), number());
    let headers = run::succeed(Command::new("readelf").arg("-lW").arg(fixture.path())).text();
    let code = headers
        .lines()
        .find(|line| line.contains("LOAD") && line.contains("R E"));
    let code: Vec<&str> = code.expect("a segment").split_whitespace().collect();
    assert_eq!(
        code[1],
        code[2].replacen("0x0000000000", "0x", 1),
        "offset and address"
    );
    (start..start + size).collect()
}

fn upload(symbols: &Server, fixture: &Fixture, kind: &str, path: &Path) {
    let url = symbols.url(&format!("/buildid/{}/{kind}", fixture.build_id()));
    let answer = http::put(&url, &run::read(path)).expect("an answer");
    assert!((200..300).contains(&answer.status), "{}", answer.text());
}

fn folded(store: &Server) -> String {
    ask(store, "/query/profile?format=folded").text()
}

fn total(text: &str) -> u64 {
    let values = text
        .lines()
        .filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok());
    values.sum()
}

#[test]
fn a_profile_gets_names_from_a_later_upload_and_better_names_from_a_better_one() {
    let fixture = program();
    let symbols = Server::start(symbol_server_program());
    let arguments = ["--symbols", &symbols.url("")];
    let store = Server::start_in(Home::new(), PROGRAM, &arguments);
    let offsets = offsets_of_work(&fixture);
    let nanos = offsets.len() as u64 * 1_000_000_000;
    let body = profile(&fixture.build_id(), &offsets, 1);
    let answer = post(&store, "/profiles?service=app&version=1", &[], &body);
    assert_eq!(answer.status, 200, "{}", answer.text());

    let nameless = folded(&store);
    assert!(nameless.contains("app@0x"), "{nameless}");
    assert_eq!(total(&nameless), nanos);
    let coverage = json(&store, "/query/coverage");
    assert_eq!(
        coverage["rows"][0]["outcome"], "unknown_build_id",
        "{coverage}"
    );
    assert_eq!(coverage["rows"][0]["build_id"], fixture.build_id().as_str());

    let symtab = fixture.objcopy("symtab", &["--strip-debug"]);
    upload(&symbols, &fixture, "executable", &symtab);
    let named = run::poll("names by the symbol table", A_MINUTE, || {
        let text = folded(&store);
        (text.contains("work ") && !text.contains("app@0x")).then_some(text)
    });
    assert!(!named.contains("inner"), "{named}");
    assert_eq!(total(&named), nanos);
    let coverage = json(&store, "/query/coverage");
    assert_eq!(coverage["rows"][0]["quality"], "symtab", "{coverage}");

    upload(&symbols, &fixture, "debuginfo", &fixture.debug_only());
    let better = run::poll("names by DWARF", A_MINUTE, || {
        let text = folded(&store);
        text.contains("work;inner ").then_some(text)
    });
    assert_eq!(total(&better), nanos);
    let coverage = json(&store, "/query/coverage");
    assert_eq!(
        coverage["rows"][0]["quality"], "dwarf_inlines",
        "{coverage}"
    );

    // What is remembered stands while the server is away; what is not says so, and has its names when it is back.
    let address = symbols.url("").trim_start_matches("http://").to_owned();
    let home = symbols.terminate();
    let more = profile(&fixture.build_id(), &[offsets[0], 1 << 20], 1);
    assert_eq!(
        post(&store, "/profiles?service=later", &[], &more).status,
        200
    );
    let away = json(&store, "/query/top?query=%7Bservice%3D%22later%22%7D");
    assert_eq!(away["total"]["value"], 2_000_000_000_u64, "{away}");
    assert_eq!(away["names_lacking"]["frames"], 1, "{away}");
    assert_eq!(total(&folded(&store)), nanos + 2_000_000_000);
    let symbols = Server::start_at(&address, home, symbol_server_program(), &[]);
    run::poll("the server to be asked again", A_MINUTE, || {
        let top = json(&store, "/query/top?query=%7Bservice%3D%22later%22%7D");
        top.get("names_lacking")
            .is_none_or(serde_json::Value::is_null)
            .then_some(())
    });
    drop(symbols);
    let requests = |outcome| {
        let name = format!("unhex_store_name_requests_total{{outcome=\"{outcome}\"}}");
        metric(&store, &name)
    };
    assert!(requests("answered") >= 3.0 && requests("failed") >= 1.0);
    assert!(metric(&store, "unhex_store_name_bytes") > 0.0);
}
