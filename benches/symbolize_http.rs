//! What 100 addresses cost over HTTP, beside llvm-symbolizer-19 for the same: CPU time, start to end.
//!
//! `cargo bench --bench symbolize_http`. The symbols (libc6-dbg, and this server's own release
//! program) are uploaded, the server is started anew over them, and the first request after it is
//! ready is measured: its index is neither open nor in the server's memory. CPU time of the server
//! is what the scheduler counted for all its threads. llvm-symbolizer reads the same debug file
//! from the disk's cache, as a tool that is started for a request does.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a measurement that meets the unexpected has failed, and prints its figures"
)]

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use object::read::elf::ElfFile64;
use object::{Object as _, ObjectSymbol as _, SymbolKind};
use unhex_build_id::ElfIdentities;
use unhex_testkit::http;
use unhex_testkit::server::Server;
use unhex_testkit::tools::Tool;

const PROGRAM: &str = env!("CARGO_BIN_EXE_unhex");
const ADDRESSES: usize = 100;
const LLVM: Tool = Tool {
    program: "llvm-symbolizer-19",
    package: "llvm-19",
};
/// Runs of llvm-symbolizer that are summed, since its time is counted in steps of 10 ms.
const LLVM_RUNS: u32 = 10;

fn main() {
    let Some(llvm) = LLVM.find() else {
        println!("skipped: {} is not there", LLVM.program);
        return;
    };
    let inputs = [libc_debug_file(), Some(PathBuf::from(PROGRAM))];
    for path in inputs.into_iter().flatten() {
        measure(&path, &llvm);
    }
}

/// The debug file of this machine's C library, if libc6-dbg is installed.
fn libc_debug_file() -> Option<PathBuf> {
    let libc = std::fs::read("/lib/x86_64-linux-gnu/libc.so.6").ok()?;
    let id = ElfIdentities::read(&libc).gnu?.to_string();
    let (folder, file) = id.split_at_checked(2)?;
    let path = PathBuf::from(format!("/usr/lib/debug/.build-id/{folder}/{file}.debug"));
    path.exists().then_some(path)
}

fn measure(path: &Path, llvm: &Path) {
    let bytes = std::fs::read(path).unwrap();
    let id = ElfIdentities::read(&bytes)
        .gnu
        .expect("a build ID")
        .to_string();
    let addresses = addresses(&bytes);

    let server = Server::start(PROGRAM);
    let uploaded = http::put(&server.url(&format!("/buildid/{id}/debuginfo")), &bytes).unwrap();
    assert!(uploaded.status < 300, "{}", uploaded.text());
    let body = request(&id, &addresses, 60);
    let answered = http::post_json(&server.url("/symbolize"), &body).unwrap();
    assert!(
        answered.text().contains(r#""status":"found""#),
        "{}",
        answered.text()
    );

    let server = Server::start_in(server.kill(), PROGRAM, &[]);
    let mut ours = Vec::new();
    for _ in 0..20 {
        let begun = cpu_seconds(server.id());
        let again = http::post_json(&server.url("/symbolize"), &body).unwrap();
        ours.push(cpu_seconds(server.id()) - begun);
        assert_eq!(
            again.body, answered.body,
            "the answer is the same each time"
        );
    }
    let (first, rest) = ours.split_first().expect("twenty requests");
    let later = rest.iter().copied().fold(f64::INFINITY, f64::min);
    let theirs = llvm_cpu_seconds(llvm, path, &addresses);
    println!(
        "{}: first request {:.2} ms, later ones {:.2} ms, llvm-symbolizer-19 {:.1} ms: 1/{:.0} of it",
        path.display(),
        first * 1e3,
        later * 1e3,
        theirs * 1e3,
        theirs / first,
    );
}

/// Addresses in functions, spread evenly over them, at changing distances from their entries.
fn addresses(bytes: &[u8]) -> Vec<u64> {
    let file: ElfFile64<'_> = ElfFile64::parse(bytes).unwrap();
    let mut functions: Vec<(u64, u64)> = file
        .symbols()
        .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0)
        .map(|symbol| (symbol.address(), symbol.size()))
        .collect();
    functions.sort_unstable();
    functions.dedup_by_key(|(address, _)| *address);
    let step = (functions.len() / ADDRESSES).max(1);
    let spread = functions.iter().step_by(step).take(ADDRESSES).zip(0_u64..);
    spread
        .map(|((address, size), number)| address + number * 7919 % size)
        .collect()
}

fn request(id: &str, addresses: &[u64], wait_seconds: u32) -> String {
    let mut list = String::new();
    for address in addresses {
        write!(list, r#","{address:#x}""#).unwrap();
    }
    let list = list.strip_prefix(',').unwrap_or_default();
    format!(
        r#"{{"modules":[{{"build_id":"{id}","addresses":[{list}]}}],"wait_seconds":{wait_seconds}}}"#
    )
}

/// CPU seconds of all threads of a process that run now, from `/proc/PID/task/*/schedstat`.
fn cpu_seconds(id: u32) -> f64 {
    let tasks = std::fs::read_dir(format!("/proc/{id}/task")).unwrap();
    let of_task = |task: std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<f64>().ok()
    };
    tasks.flatten().filter_map(of_task).sum::<f64>() / 1e9
}

/// CPU seconds of one llvm-symbolizer that answers the addresses.
fn llvm_cpu_seconds(llvm: &Path, path: &Path, addresses: &[u64]) -> f64 {
    let begun = children_seconds();
    for _ in 0..LLVM_RUNS {
        let mut child = Command::new(llvm)
            .arg(format!("--obj={}", path.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        for address in addresses {
            writeln!(stdin, "{address:#x}").unwrap();
        }
        drop(stdin);
        assert!(child.wait().unwrap().success());
    }
    (children_seconds() - begun) / f64::from(LLVM_RUNS)
}

/// CPU seconds of children that were waited for, in steps of 10 ms (`cutime` and `cstime` of proc(5)).
fn children_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap();
    let behind_name = text.rsplit(')').next().unwrap_or_default();
    let fields = behind_name.split_whitespace().skip(13).take(2);
    fields
        .filter_map(|field| field.parse::<f64>().ok())
        .sum::<f64>()
        / 100.0
}
