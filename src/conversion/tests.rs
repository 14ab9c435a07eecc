//! Every way in which a child may end, with a shell script in the converter's place.
//!
//! tests/converters/stand-in.sh does what the name of its input says.

use unhex_symbols::model::Model;

use super::*;
use crate::metrics::{Metrics, QueueClass};

fn meter() -> QueueMeter {
    Metrics::new().queue(QueueClass::Conversion)
}

struct Scene {
    folder: tempfile::TempDir,
    converter: Converter,
}

impl Scene {
    fn new() -> Self {
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/converters/stand-in.sh");
        Self::with_program(program)
    }

    fn with_program(program: &str) -> Self {
        let limits = ConversionLimits {
            seconds_max: Duration::from_secs(20),
            ..ConversionLimits::from(&Limits::default())
        };
        Self {
            folder: tempfile::tempdir().unwrap(),
            converter: Converter::new(program.into(), limits, meter()),
        }
    }

    fn seconds_max(mut self, seconds_max: Duration) -> Self {
        self.converter.limits.seconds_max = seconds_max;
        self
    }

    fn output(&self) -> PathBuf {
        self.folder.path().join("output")
    }

    async fn convert(&self, name: &str) -> ConversionResult {
        let input = self.folder.path().join(name);
        std::fs::write(&input, "input").unwrap();
        let sources = ConversionSources {
            debuginfo: Some(source(input)),
            ..ConversionSources::default()
        };
        self.converter.run(&sources, &self.output()).await
    }

    async fn failure(&self, name: &str) -> IndexFailure {
        let failure = self.convert(name).await.unwrap().unwrap_err();
        assert!(!self.output().exists(), "{name} left an output");
        failure
    }

    async fn unavailable(&self, name: &str) -> String {
        let error = self.convert(name).await.unwrap_err();
        assert!(!self.output().exists(), "{name} left an output");
        error.to_string()
    }
}

fn source(path: PathBuf) -> ConversionSource {
    let sha256 = [7; 32];
    ConversionSource { path, sha256 }
}

#[tokio::test]
async fn a_report_is_believed_when_the_output_is_as_long_as_it_says() {
    let converted = Scene::new().convert("good").await.unwrap().unwrap();
    assert_eq!(converted.size_bytes, 6);
    assert_eq!(converted.quality, Quality::DwarfLines);
}

/// An index that says that it was made of the input of a scene.
fn index() -> Vec<u8> {
    let mut model = Model::default();
    model.header.sources = vec![source(PathBuf::new()).sha256];
    let mut bytes = Vec::new();
    unhex_symbols::index::write(model, &mut bytes).unwrap();
    bytes
}

/// What is answered when the child's output is `bytes`.
async fn wrote(bytes: &[u8]) -> (ConversionResult, Scene) {
    let scene = Scene::new();
    std::fs::write(scene.folder.path().join("prepared"), bytes).unwrap();
    let input = scene.folder.path().join("copy");
    std::fs::write(&input, "input").unwrap();
    let sources = ConversionSources {
        debuginfo: Some(source(input)),
        ..ConversionSources::default()
    };
    let result = Convert::convert(&scene.converter, &sources, &scene.output()).await;
    (result, scene)
}

#[tokio::test]
async fn a_sound_index_is_believed_and_stays() {
    let (result, scene) = wrote(&index()).await;
    result.unwrap().unwrap();
    assert_eq!(std::fs::read(scene.output()).unwrap(), index());
}

#[tokio::test]
async fn an_index_that_cannot_be_read_is_a_fact_and_is_not_kept() {
    let sound = index();
    let last = sound.len() - 1;
    for place in [40, last / 2, last] {
        let mut damaged = sound.clone();
        damaged[place] ^= 0x40;
        let (result, scene) = wrote(&damaged).await;
        let failure = result.unwrap().unwrap_err();
        assert_eq!(failure.kind, IndexFailureKind::Malformed, "{place}");
        assert!(failure.detail.contains("cannot be read"), "{failure:?}");
        assert!(!scene.output().exists());
    }
}

#[tokio::test]
async fn what_another_program_writes_is_no_fact_about_the_file() {
    let (mut other_format, mut other_converter) = (index(), index());
    other_format[8] ^= 0x40;
    other_converter[12] ^= 0x40;
    let mut of_other_files = Vec::new();
    unhex_symbols::index::write(Model::default(), &mut of_other_files).unwrap();
    for (bytes, why) in [
        (b"index\n".to_vec(), "not a symbol index"),
        (other_format, "format version"),
        (other_converter, "of the converter, this server has"),
        (of_other_files, "other files"),
        (Vec::new(), "index"),
    ] {
        let (result, scene) = wrote(&bytes).await;
        let error = result.unwrap_err().to_string();
        assert!(error.contains(why), "{why}: {error}");
        assert!(!scene.output().exists(), "{why}");
    }
}

#[tokio::test]
async fn an_output_of_another_length_is_never_used() {
    let detail = Scene::new().unavailable("short").await;
    assert!(
        detail.contains("wrote 7 bytes, but 6 are there"),
        "{detail}"
    );
}

#[tokio::test]
async fn a_reported_failure_is_a_fact_about_the_file() {
    let failure = Scene::new().failure("unsupported").await;
    assert_eq!(failure.kind, IndexFailureKind::Unsupported);
    assert_eq!(failure.detail, "no ELF");
}

#[tokio::test]
async fn a_full_disk_is_no_fact_about_the_file() {
    let detail = Scene::new().unavailable("disk-full").await;
    assert!(detail.contains("no space"), "{detail}");
}

#[tokio::test]
async fn death_by_its_own_limits_is_a_timeout_or_too_large() {
    let scene = Scene::new();
    for (name, kind) in [
        ("signal-XCPU", IndexFailureKind::Timeout),
        ("signal-XFSZ", IndexFailureKind::TooLarge),
        ("out-of-memory", IndexFailureKind::TooLarge),
    ] {
        let failure = scene.failure(name).await;
        assert_eq!(failure.kind, kind, "{name}: {failure:?}");
        assert!(failure.detail.contains("limit of"), "{failure:?}");
    }
}

#[tokio::test]
async fn a_crash_is_malformed_with_the_signal() {
    let scene = Scene::new();
    for (name, signal) in [("signal-SEGV", "signal 11"), ("signal-ABRT", "signal 6")] {
        let failure = scene.failure(name).await;
        assert_eq!(failure.kind, IndexFailureKind::Malformed);
        assert!(failure.detail.contains(signal), "{failure:?}");
    }
    let panicked = scene.failure("panic").await;
    assert_eq!(panicked.kind, IndexFailureKind::Malformed);
    assert!(panicked.detail.contains("panicked at"), "{panicked:?}");
}

#[tokio::test]
async fn a_kill_by_others_is_no_fact_about_the_file() {
    let scene = Scene::new();
    for name in ["signal-KILL", "signal-TERM"] {
        let detail = scene.unavailable(name).await;
        assert!(detail.contains("somebody killed it"), "{detail}");
    }
}

#[tokio::test]
async fn nonsense_on_stdout_is_no_fact_about_the_file() {
    let scene = Scene::new();
    for (name, words) in [
        ("silent", "report is not understood"),
        ("chatter", "report is not understood"),
        ("usage", "exit status: 2: error: unrecognized"),
    ] {
        let detail = scene.unavailable(name).await;
        assert!(detail.contains(words), "{name}: {detail}");
    }
}

#[tokio::test]
async fn a_program_that_is_not_there_is_no_fact_about_the_file() {
    let scene = Scene::with_program("/nonexistent/unhex");
    let detail = scene.unavailable("good").await;
    assert!(
        detail.contains("/nonexistent/unhex cannot be started"),
        "{detail}"
    );
}

#[tokio::test]
async fn an_input_that_is_not_there_is_no_fact_about_a_file() {
    let scene = Scene::new();
    let sources = ConversionSources {
        debuginfo: Some(source("/nonexistent/input".into())),
        ..ConversionSources::default()
    };
    let error = scene.converter.run(&sources, &scene.output()).await;
    assert!(error.unwrap_err().detail.contains("/nonexistent/input"));
}

#[tokio::test]
async fn the_wall_clock_kills_the_child_and_what_it_started() {
    let scene = Scene::new().seconds_max(Duration::from_millis(500));
    let failure = scene.failure("hang").await;
    assert_eq!(failure.kind, IndexFailureKind::Timeout);
    assert!(failure.detail.contains("limit of 0.5 s"), "{failure:?}");
    let pids = std::fs::read_to_string(scene.folder.path().join("pids")).unwrap();
    assert_eq!(pids.split_whitespace().count(), 2, "{pids:?}");
    for pid in pids.split_whitespace() {
        ends(pid).await;
    }
}

#[tokio::test]
async fn a_dropped_conversion_kills_the_child() {
    let scene = Scene::new();
    let pids = scene.folder.path().join("pids");
    let started = async {
        while !std::fs::read_to_string(&pids).is_ok_and(|text| text.ends_with('\n')) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        outcome = scene.convert("hang") => panic!("{outcome:?}"),
        () = started => {}
    }
    for pid in std::fs::read_to_string(&pids).unwrap().split_whitespace() {
        ends(pid).await;
    }
}

/// Waits until the process is gone or a zombie.
async fn ends(pid: &str) {
    for _ in 0..2_000 {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if stat.is_empty() || stat.contains(") Z ") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("process {pid} still runs");
}

#[tokio::test]
async fn the_child_inherits_no_open_file_and_no_environment() {
    let scene = Scene::new();
    let ours = scene.folder.path().join("ours");
    let _open = std::fs::File::create(&ours).unwrap();
    scene.convert("inherited").await.unwrap().unwrap();
    let seen = std::fs::read_to_string(scene.output()).unwrap();
    let (files, environment) = seen.split_once("--\n").unwrap();
    assert!(files.contains("pipe:"), "{files}");
    assert!(!files.contains(ours.to_str().unwrap()), "{files}");
    let shell_own = ["PWD=", "OLDPWD=", "SHLVL=", "_="];
    let mut ours: Vec<&str> = environment
        .lines()
        .filter(|line| !shell_own.iter().any(|own| line.starts_with(own)))
        .collect();
    ours.sort_unstable();
    let expected = [
        "GLIBC_TUNABLES=glibc.malloc.hugetlb=1",
        "MALLOC_ARENA_MAX=1",
    ];
    assert_eq!(ours, expected);
}

#[tokio::test]
async fn a_flood_on_both_outputs_is_read_and_thrown_away() {
    let detail = Scene::new().unavailable("flood").await;
    assert!(detail.contains("report is not understood"), "{detail}");
}

#[tokio::test]
async fn conversions_wait_for_memory() {
    let mut scene = Scene::new();
    scene.converter = Converter::new(
        scene.converter.program.clone(),
        ConversionLimits {
            memory_bytes_total_max: BASE_MEMORY_BYTES,
            ..scene.converter.limits.clone()
        },
        meter(),
    );
    let memory = scene.converter.memory.clone();
    let others = memory.take(ClientKey::SERVER, u64::MAX, None).await;
    let others = others.unwrap();
    let waiting = scene.convert("good");
    tokio::pin!(waiting);
    let patience = tokio::time::timeout(Duration::from_millis(50), &mut waiting).await;
    assert!(patience.is_err(), "{patience:?}");
    drop(others);
    waiting.await.unwrap().unwrap();
}

#[test]
fn the_arguments_are_parsed_back_by_the_child() {
    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        arguments: protocol::ConvertChildArgs,
    }
    let arguments = protocol::ConvertChildArgs {
        debuginfo: Some((&source("/d/:a b".into())).into()),
        executable: None,
        supplement: Some((&source("/s".into())).into()),
        dwp: None,
        output: "-o=ut".into(),
        memory_bytes_max: u64::MAX,
        cpu_seconds_max: 2,
        output_bytes_max: 3,
    };
    let parsed = <Program as clap::Parser>::try_parse_from(arguments.to_arguments()).unwrap();
    assert_eq!(parsed.arguments, arguments);
}
