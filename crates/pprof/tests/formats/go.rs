//! Go's own profiles and `go tool pprof`, by hand: `cargo test -p unhex-pprof --test formats go -- --ignored`.
//!
//! Needs Debian's golang-go, which is too large for the usual tests. What Go's runtime writes is read, what is written of it is
//! read by `go tool pprof`, and both print the same samples.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use unhex_pprof::{FrameKind, Limits, packed, pprof, unpacked};

const PROGRAM: &str = r#"package main

import (
	"os"
	"runtime/pprof"
	"time"
	"context"
)

//go:noinline
func inner(n int) int { s := 0; for i := 0; i < n; i++ { s += i * i }; return s }

//go:noinline
func outer(deadline time.Time) (s int) { for time.Now().Before(deadline) { s += inner(100000) }; return }

func main() {
	cpu, _ := os.Create(os.Args[1])
	pprof.StartCPUProfile(cpu)
	kept := [][]byte{}
	pprof.Do(context.Background(), pprof.Labels("endpoint", "/pay"), func(context.Context) {
		outer(time.Now().Add(500 * time.Millisecond))
		for i := 0; i < 1000; i++ { kept = append(kept, make([]byte, 4096)) }
	})
	pprof.StopCPUProfile()
	cpu.Close()
	heap, _ := os.Create(os.Args[2])
	pprof.Lookup("heap").WriteTo(heap, 0)
	heap.Close()
	if len(kept) == 0 { os.Exit(1) }
}
"#;

fn run(command: &mut Command) -> String {
    let output = command
        .output()
        .expect("the program, from Debian's golang-go");
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn go(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("go");
    command.current_dir(folder).args(arguments);
    run(command
        .env("GOFLAGS", "-mod=mod")
        .env("GOCACHE", folder.join("cache"))
        .env("GOTOOLCHAIN", "local"))
}

/// What `go tool pprof` reads in a file, without what we may change: flags of mappings and numbers of locations.
fn raw_samples(folder: &Path, file: &Path) -> Vec<String> {
    let text = go(
        folder,
        &[
            "tool",
            "pprof",
            "-symbolize=none",
            "-traces",
            &file.to_string_lossy(),
        ],
    );
    text.lines()
        .filter(|line| !line.starts_with("File:"))
        .map(str::to_owned)
        .collect()
}

fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("go-profiles");
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

#[test]
#[ignore = "needs golang-go"]
fn profiles_of_go_go_in_and_come_out_for_go() {
    let folder = folder();
    fs::write(folder.join("main.go"), PROGRAM).expect("a program");
    fs::write(folder.join("go.mod"), "module example\n").expect("a module");
    go(&folder, &["build", "-o", "program", "."]);
    run(Command::new(folder.join("program"))
        .current_dir(&folder)
        .args(["cpu.pprof", "heap.pprof"]));
    for name in ["cpu.pprof", "heap.pprof"] {
        let original = folder.join(name);
        let file = fs::read(&original).expect("a profile");
        let limits = Limits::default();
        let message = unpacked(&file, &limits).expect("gzip");
        let model = pprof::decode(&message, &limits).expect("a profile");
        let profile = &model.profiles()[0];
        let written = folder.join(format!("written-{name}"));
        fs::write(
            &written,
            packed(&pprof::encode(&model, profile).expect("a file")),
        )
        .expect("a file");
        let (theirs, ours) = (
            raw_samples(&folder, &original),
            raw_samples(&folder, &written),
        );
        assert!(theirs.len() > 5, "{theirs:?}");
        assert_eq!(ours, theirs, "{name}");
        let native = model
            .frames()
            .iter()
            .filter(|frame| matches!(frame.kind, FrameKind::Native(_)));
        assert!(native.count() > 3);
        if name == "cpu.pprof" {
            assert_eq!(model.cpu_nanos_per_value(profile, 1), Some(1));
            let totals = model.totals(profile);
            assert_eq!(totals[0] * i128::from(profile.period), totals[1]);
            assert_eq!(model.sample_count_type(profile), Some(0));
        }
    }
}
