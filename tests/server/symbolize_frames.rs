//! `POST /symbolize` over programs that the test compiled: addresses of every kind become frames.

use object::read::elf::ElfFile64;
use object::{Object as _, ObjectSegment as _, ObjectSymbol as _};
use serde_json::{Value, json};
use unhex::artifacts::ArtifactKind;
use unhex_api::symbolize::{
    COMPACT_MEDIA_TYPE, CompactAnswer, Frame, ModuleAnswer, ModuleStatus, Reason,
};
use unhex_testkit::fixture::{Fixture, Program};

use crate::server::TestServer;
use crate::stored::store;
use crate::symbolize::{post, symbolize};

/// `twice` calls `thrice`, which is inlined: lines 2 and 6.
const INLINING: &str = "static inline __attribute__((always_inline)) int thrice(volatile int *n) {\n\
    return *n * 3;\n\
}\n\
__attribute__((noinline)) int twice(int n) {\n\
    volatile int m = n;\n\
    return 2 * thrice(&m);\n\
}\n\
int main(int argc, char **argv) { return twice(argc); }\n";

const CPP: &str = "template <typename T> struct Box {\n\
    T value;\n\
    __attribute__((noinline)) T map(T (*f)(T)) const { return f(value); }\n\
};\n\
template struct Box<int>;\n\
int main() { return 0; }\n";

fn program(flags: &[&str], id: &str) -> Fixture {
    Program::c(INLINING)
        .flags(&["-g", "-O1"])
        .flags(flags)
        .build_id(id)
        .build()
}

/// A file's functions and segments.
struct Elf(Vec<u8>);

impl Elf {
    fn of(fixture: &Fixture) -> Self {
        Self(fixture.bytes())
    }

    fn parsed(&self) -> ElfFile64<'_> {
        ElfFile64::parse(self.0.as_slice()).unwrap()
    }

    fn function(&self, name: &str) -> u64 {
        let file = self.parsed();
        let found = file.symbols().find(|symbol| symbol.name() == Ok(name));
        found.unwrap_or_else(|| panic!("no {name}")).address()
    }

    fn image_base(&self) -> u64 {
        self.parsed()
            .segments()
            .map(|segment| segment.address())
            .min()
            .unwrap()
    }

    fn file_offset(&self, address: u64) -> u64 {
        let file = self.parsed();
        let segment = file
            .segments()
            .find(|segment| {
                (segment.address()..segment.address() + segment.size()).contains(&address)
            })
            .unwrap();
        address - segment.address() + segment.file_range().0
    }
}

async fn server_with(fixture: &Fixture, kind: ArtifactKind) -> TestServer {
    let server = TestServer::start().await;
    store(&server, &fixture.build_id(), kind, fixture.bytes()).await;
    server
}

/// The answer of the only module.
async fn module(server: &TestServer, module: Value) -> ModuleAnswer {
    let body = json!({"modules": [module], "wait_seconds": 30});
    symbolize(server, &body).await.modules.remove(0)
}

fn names(frames: &[Frame]) -> Vec<&str> {
    frames
        .iter()
        .map(|frame| frame.function.as_deref().unwrap())
        .collect()
}

#[tokio::test]
async fn four_kinds_of_address_lead_to_the_same_frames() {
    for (flags, id) in [(&["-pie"], "a1a1a1a1"), (&["-no-pie"], "a2a2a2a2")] {
        let fixture = program(flags, id);
        let elf = Elf::of(&fixture);
        let server = server_with(&fixture, ArtifactKind::Executable).await;
        let twice = elf.function("twice");
        let all: Vec<u64> = (twice..twice + 12).collect();
        let hex = |numbers: Vec<u64>| -> Vec<String> {
            numbers
                .iter()
                .map(|number| format!("{number:#x}"))
                .collect()
        };
        let link = module(
            &server,
            json!({"build_id": id, "addresses": hex(all.clone())}),
        )
        .await;
        assert_eq!(link.status, ModuleStatus::Found);
        let frames = link.frames.unwrap();
        let inlined = frames.iter().find(|frames| frames.len() == 2).unwrap();
        assert_eq!(names(inlined), ["thrice", "twice"]);
        assert_eq!((inlined[0].line, inlined[1].line), (2, 6));
        assert!(inlined[0].inlined && !inlined[1].inlined);
        assert!(inlined[0].file.as_deref().unwrap().ends_with("/main.c"));
        assert_eq!(frames[3].last().unwrap().offset, Some(3));

        let offsets: Vec<u64> = all
            .iter()
            .map(|address| elf.file_offset(*address))
            .collect();
        let relative = all
            .iter()
            .map(|address| address - elf.image_base())
            .collect();
        // The kernel maps whole pages: from the page of the first byte on.
        let start = 0x7f12_3456_7000;
        let page = offsets[0] & !0xfff;
        let process = offsets.iter().map(|offset| offset - page + start).collect();
        let mapping = json!({"start": start, "end": start + 0x2000, "file_offset": page});
        for body in [
            json!({"address_kind": "file_offset", "addresses": hex(offsets.clone())}),
            json!({"address_kind": "relative", "addresses": hex(relative)}),
            json!({"address_kind": "process", "addresses": hex(process), "mapping": mapping}),
        ] {
            let mut body = body;
            body["build_id"] = json!(id.to_uppercase());
            let answer = module(&server, body.clone()).await;
            assert_eq!(answer.frames.as_ref(), Some(&frames), "{body}");
            assert_eq!(answer.build_id, id);
        }
    }
}

#[tokio::test]
async fn a_return_address_is_looked_up_at_its_call() {
    let fixture = program(&[], "a3a3a3a3");
    let twice = Elf::of(&fixture).function("twice");
    let server = server_with(&fixture, ArtifactKind::Executable).await;
    let at = |address: u64, adjust: &'static str| {
        module(
            &server,
            json!({"build_id": "a3a3a3a3", "addresses": [address], "adjust": adjust}),
        )
    };
    let plain = at(twice + 4, "none").await;
    let adjusted = at(twice + 5, "call_site").await;
    assert_eq!(plain, adjusted);
    let offset = |answer: &ModuleAnswer| answer.frames.as_ref().unwrap()[0].last().unwrap().offset;
    assert_eq!(offset(&at(twice + 5, "none").await), Some(5));
    assert_eq!(offset(&adjusted), Some(4));
}

#[tokio::test]
async fn an_address_that_is_nowhere_says_which_nowhere() {
    let fixture = program(&["-no-pie"], "a4a4a4a4");
    let elf = Elf::of(&fixture);
    let server = server_with(&fixture, ArtifactKind::Executable).await;
    let addresses = json!([
        0,
        format!("{:#x}", u64::MAX),
        "no address",
        -1,
        elf.image_base(),
        elf.function("twice")
    ]);
    let answer = module(
        &server,
        json!({"build_id": "a4a4a4a4", "addresses": addresses}),
    )
    .await;
    let reasons = answer.reasons.unwrap();
    let expected = [
        Some(Reason::OutsideModule),
        Some(Reason::OutsideModule),
        Some(Reason::InvalidAddress),
        Some(Reason::InvalidAddress),
        Some(Reason::NoFunction),
        None,
    ];
    assert_eq!(reasons, expected);
    let empty: Vec<bool> = answer.frames.unwrap().iter().map(Vec::is_empty).collect();
    assert_eq!(empty, [true, true, true, true, true, false]);
}

#[tokio::test]
async fn a_debug_file_alone_needs_the_executable_or_its_segments() {
    let fixture = program(&[], "a5a5a5a5");
    let elf = Elf::of(&fixture);
    let server = TestServer::start().await;
    let debug_only = std::fs::read(fixture.debug_only()).unwrap();
    store(&server, "a5a5a5a5", ArtifactKind::Debuginfo, debug_only).await;
    let twice = elf.function("twice");
    let mut body = json!({
        "build_id": "a5a5a5a5", "address_kind": "file_offset", "addresses": [elf.file_offset(twice)],
    });
    let answer = module(&server, body.clone()).await;
    assert_eq!(answer.status, ModuleStatus::Found);
    assert_eq!(answer.reasons.unwrap(), [Some(Reason::NeedsExecutable)]);
    assert!(answer.detail.unwrap().contains("upload the executable"));

    let file = elf.parsed();
    let segments: Vec<Value> = file
        .segments()
        .map(|segment| {
            let (offset, size) = segment.file_range();
            json!({
                "address": format!("{:#x}", segment.address()), "file_offset": offset,
                "file_size_bytes": size, "memory_size_bytes": segment.size(), "executable": true,
            })
        })
        .collect();
    body["segments"] = json!(segments);
    let answer = module(&server, body.clone()).await;
    assert_eq!(names(&answer.frames.unwrap()[0]).last(), Some(&"twice"));

    let stripped = std::fs::read(fixture.stripped()).unwrap();
    store(&server, "a5a5a5a5", ArtifactKind::Executable, stripped).await;
    body.as_object_mut().unwrap().remove("segments");
    let answer = module(&server, body).await;
    assert_eq!(answer.reasons.unwrap(), [None], "{:?}", answer.detail);
}

#[tokio::test]
async fn names_come_in_four_forms() {
    let cpp = Program::cpp(CPP)
        .flags(&["-g"])
        .build_id("a6a6a6a6")
        .build();
    let rust = Program::rust("pub mod a { #[inline(never)] pub fn twice(n: u32) -> u32 { n * 2 } } fn main() { std::process::exit(a::twice(0) as i32) }")
        .flags(&["-g", "-Clink-arg=-Wl,--build-id=0xa7a7a7a7"])
        .build_id("a7a7a7a7")
        .build();
    let cpp_map = "_ZNK3BoxIiE3mapEPFiiE";
    let cpp_address = Elf::of(&cpp).function(cpp_map);
    let rust_elf = Elf::of(&rust);
    let rust_symbol = {
        let file = rust_elf.parsed();
        let mut symbols = file.symbols();
        let found = symbols.find(|symbol| symbol.name().unwrap().contains("5twice"));
        found
            .map(|symbol| (symbol.name().unwrap().to_owned(), symbol.address()))
            .unwrap()
    };
    let server = TestServer::start().await;
    store(&server, "a6a6a6a6", ArtifactKind::Executable, cpp.bytes()).await;
    store(&server, "a7a7a7a7", ArtifactKind::Executable, rust.bytes()).await;
    for (demangle, cpp_name, rust_name) in [
        (
            "full",
            "Box<int>::map(int (*)(int)) const",
            "program::a::twice",
        ),
        ("templates", "Box<int>::map", "program::a::twice"),
        ("simple", "Box::map", "program::a::twice"),
        ("none", cpp_map, rust_symbol.0.as_str()),
    ] {
        let body = json!({"demangle": demangle, "wait_seconds": 30, "modules": [
            {"build_id": "a6a6a6a6", "addresses": [cpp_address]},
            {"build_id": "a7a7a7a7", "addresses": [rust_symbol.1]},
        ]});
        let answer = symbolize(&server, &body).await;
        let outermost = |module: usize| {
            let frames = answer.modules[module].frames.as_ref().unwrap();
            frames[0].last().cloned().unwrap()
        };
        assert_eq!(
            outermost(0).function.as_deref(),
            Some(cpp_name),
            "{demangle}"
        );
        let rust_found = outermost(1).function.unwrap();
        let crate_name = rust_found.split("::").next().unwrap().to_owned();
        assert_eq!(
            rust_found.replacen(&crate_name, "program", usize::from(demangle != "none")),
            rust_name,
            "{demangle}"
        );
    }
}

#[tokio::test]
async fn modules_and_addresses_keep_their_order_and_repeat() {
    let one = program(&[], "a8a8a8a8");
    let two = program(&["-no-pie"], "a9a9a9a9");
    let server = TestServer::start().await;
    store(&server, "a8a8a8a8", ArtifactKind::Executable, one.bytes()).await;
    store(&server, "a9a9a9a9", ArtifactKind::Executable, two.bytes()).await;
    let main_and_twice = |fixture: &Fixture| {
        let elf = Elf::of(fixture);
        (elf.function("main"), elf.function("twice"))
    };
    let (main1, twice1) = main_and_twice(&one);
    let (main2, twice2) = main_and_twice(&two);
    let body = json!({"wait_seconds": 30, "modules": [
        {"build_id": "a8a8a8a8", "addresses": [main1, twice1, main1]},
        {"build_id": "a9a9a9a9", "addresses": [twice2]},
        {"build_id": "ffff", "addresses": [1]},
        {"build_id": "A8A8A8A8", "addresses": [twice1]},
        {"build_id": "a8a8a8a8", "addresses": []},
        {"build_id": "a9a9a9a9", "addresses": [main2, twice2]},
    ]});
    let answer = symbolize(&server, &body).await;
    let outermost = |module: &ModuleAnswer| -> Option<Vec<String>> {
        let frames = module.frames.as_ref()?.iter();
        Some(
            frames
                .map(|frames| frames.last().unwrap().function.clone().unwrap())
                .collect(),
        )
    };
    let found: Vec<_> = answer.modules.iter().map(outermost).collect();
    let names = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
    let expected = [
        names(&["main", "twice", "main"]),
        names(&["twice"]),
        None,
        names(&["twice"]),
        names(&[]),
        names(&["main", "twice"]),
    ];
    assert_eq!(found, expected);
}

#[tokio::test]
async fn both_forms_say_the_same_and_a_long_answer_comes_in_pieces() {
    let fixture = program(&[], "b1b1b1b1");
    let elf = Elf::of(&fixture);
    let server = server_with(&fixture, ArtifactKind::Executable).await;
    let twice = elf.function("twice");
    let addresses: Vec<u64> = (0..60_000).map(|number| twice + number % 40).collect();
    let body =
        json!({"wait_seconds": 30, "modules": [{"build_id": "b1b1b1b1", "addresses": addresses}]});
    let long = symbolize(&server, &body).await;
    let client = reqwest::Client::new();
    let send = |headers: [(&'static str, &'static str); 2]| {
        let mut request = client.post(server.url("/symbolize")).body(body.to_string());
        for (name, value) in headers {
            request = request.header(name, value);
        }
        request.send()
    };
    let compact = send([
        ("accept", COMPACT_MEDIA_TYPE),
        ("accept-encoding", "identity"),
    ])
    .await
    .unwrap();
    let compact: CompactAnswer = compact.json().await.unwrap();
    assert!(compact.frames.len() < 40, "{} frames", compact.frames.len());
    assert_eq!(compact.expand().unwrap(), long);

    let packed = send([("accept", "application/json"), ("accept-encoding", "zstd")])
        .await
        .unwrap();
    assert!(!packed.headers().contains_key("content-length"));
    let packed = packed.bytes().await.unwrap();
    let plain = zstd::decode_all(packed.as_ref()).unwrap();
    assert!(plain.len() > 2 << 20, "{} bytes", plain.len());
    assert_eq!(
        serde_json::from_slice::<Value>(&plain).unwrap(),
        serde_json::to_value(&long).unwrap()
    );
}

#[tokio::test]
async fn exported_symbols_alone_are_no_debug_info_with_frames() {
    let fixture = Program::c("int exported(int n) { return n + 1; } int main(void) { return 0; }")
        .flags(&["-rdynamic"])
        .build_id("b2b2b2b2")
        .build();
    let exported = Elf::of(&fixture).function("exported");
    let server = TestServer::start().await;
    let stripped = std::fs::read(fixture.stripped()).unwrap();
    store(&server, "b2b2b2b2", ArtifactKind::Executable, stripped).await;
    let answer = module(
        &server,
        json!({"build_id": "b2b2b2b2", "addresses": [exported]}),
    )
    .await;
    assert_eq!(answer.status, ModuleStatus::NoDebugInfo, "{answer:?}");
    assert!(answer.detail.unwrap().contains("unhex upload"));
    assert_eq!(names(&answer.frames.unwrap()[0]), ["exported"]);
}

#[tokio::test]
async fn a_whole_answer_as_it_stands_on_the_wire() {
    let fixture = program(&["-no-pie"], "b3b3b3b3");
    let server = server_with(&fixture, ArtifactKind::Executable).await;
    let main = Elf::of(&fixture).function("main");
    let body =
        json!({"modules": [{"build_id": "b3b3b3b3", "addresses": [main, 1]}], "wait_seconds": 30});
    let (status, mut answer) = post(&server, &body).await;
    assert_eq!(status, 200);
    // Another compiler's is another one.
    answer["modules"][0]["generation"] = "(16 hex digits)".into();
    insta::assert_json_snapshot!(answer, @r#"
    {
      "modules": [
        {
          "build_id": "b3b3b3b3",
          "frames": [
            [
              {
                "column": 42,
                "file": "/fixture/main.c",
                "function": "main",
                "line": 8,
                "offset": 0
              }
            ],
            []
          ],
          "generation": "(16 hex digits)",
          "origin": "upload",
          "quality": "dwarf_inlines",
          "reasons": [
            null,
            "outside_module"
          ],
          "status": "found"
        }
      ]
    }
    "#);
}
