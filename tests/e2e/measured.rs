//! Figures for BENCHMARKS.md that need a real bucket or a million files: by hand, since they take
//! minutes. `UNHEX_MEASURED` names the program, which should be a release build.

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use unhex_testkit::fixture::Program;
use unhex_testkit::hostile::{self, SectionField};
use unhex_testkit::s3_server::S3Server;
use unhex_testkit::server::{Home, Server};
use unhex_testkit::{run, tools};

use crate::renamed::under_a_new_id;
use crate::symbol_server::UNHEX;

/// Bytes of a large artifact.
const FILE_BYTES: u64 = 500_000_000;

/// How often what is compared is done, in turns.
const ROUNDS: usize = 5;

/// Clients that fetch different artifacts at once.
const CLIENTS: usize = 32;

/// What a server may have resident then.
const MEMORY_BYTES_MAX: u64 = 200 << 20;

/// A content in which every 64 KiB are new bytes to that share, and zeros then.
#[derive(Clone, Copy)]
struct Density(f64);

pub(crate) fn program() -> PathBuf {
    std::env::var_os("UNHEX_MEASURED").map_or_else(|| UNHEX.into(), Into::into)
}

fn number(variable: &str, default: usize) -> usize {
    let set = std::env::var(variable).ok();
    set.map_or(default, |text| text.parse().expect("a number"))
}

pub(crate) fn load() -> String {
    let text = String::from_utf8(run::read("/proc/loadavg")).expect("ASCII");
    text.split(' ').next().expect("a number").to_owned()
}

fn server(s3: &S3Server, bucket: &str) -> Server {
    let home = Home::new().with_environment(s3.environment());
    Server::start_in(home, program(), &["--s3", bucket])
}

/// A sound debug file whose `.comment` makes it so large, and its build ID.
fn large_file(path: &Path, density: Density) -> String {
    let small = Program::c("int main(void) { return 0; }")
        .flags(&["-g"])
        .build();
    let start = small.bytes().len() as u64;
    let bytes = hostile::with_section(&small.bytes(), ".comment", SectionField::Offset, start);
    let size = FILE_BYTES - start;
    let bytes = hostile::with_section(&bytes, ".comment", SectionField::Size, size);
    let mut files = [bytes];
    let id = under_a_new_id(&small.build_id(), &mut files);
    let mut out = BufWriter::new(File::create(path).expect("created"));
    out.write_all(&files[0]).expect("written");
    let mut block = vec![0; 64 << 10];
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a share of 64 KiB"
    )]
    let random_bytes = (block.len() as f64 * density.0) as usize;
    let mut left = size;
    while left > 0 {
        rand::fill(&mut block[..random_bytes]);
        let part = block.len().min(usize::try_from(left).expect("it fits"));
        out.write_all(&block[..part]).expect("written");
        left -= part as u64;
    }
    out.flush().expect("written");
    id
}

fn curl() -> Command {
    let mut command = Command::new(tools::CURL.path());
    command.args(["--silent", "--show-error", "--fail-with-body"]);
    command.args(["--noproxy", "*", "--no-progress-meter"]);
    command.args(["--output", "/dev/null"]);
    command
}

fn upload(server: &Server, id: &str, path: &Path) {
    let url = server.url(&format!("/buildid/{id}/debuginfo"));
    run::succeed(curl().arg("--upload-file").arg(path).arg(url));
}

/// Seconds until the first byte, and until the last.
fn fetch(server: &Server, id: &str) -> [f64; 2] {
    let url = server.url(&format!("/buildid/{id}/debuginfo"));
    let format = "%{time_starttransfer} %{time_total}";
    let said = run::succeed(curl().args(["--write-out", format]).arg(url)).text();
    let (first, last) = said.split_once(' ').expect("two numbers");
    [first, last].map(|text| text.trim().parse().expect("seconds"))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
#[ignore = "takes minutes, prints figures"]
fn a_cold_fetch_beside_a_plain_download_of_the_same_object() {
    let Some(s3) = S3Server::shared() else {
        return;
    };
    let bucket = s3.bucket();
    let folder = tempfile::tempdir().expect("a folder");
    for (name, density) in [
        ("a third is new", Density(0.33)),
        ("all is new", Density(1.0)),
    ] {
        let prefix = name.replace(' ', "-");
        let url = format!("s3://{bucket}/{prefix}");
        let path = folder.path().join("large");
        let id = large_file(&path, density);
        let writer = server(s3, &url);
        upload(&writer, &id, &path);
        drop(writer);
        let objects = s3.objects(&bucket);
        let blob = |key: &str| key.starts_with(&prefix) && key.contains("/blob/");
        let (key, size_bytes) = objects
            .into_iter()
            .filter(|(key, _)| blob(key))
            .max_by_key(|(_, size_bytes)| *size_bytes)
            .expect("the blob");
        let (mut plain, mut first, mut last) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let parts = tempfile::tempdir_in(folder.path()).expect("a folder");
            let began = Instant::now();
            s3.download_in_ranges((&bucket, &key), size_bytes, parts.path());
            plain.push(began.elapsed().as_secs_f64());
            drop(parts);
            let cold = server(s3, &url);
            let [to_first, to_last] = fetch(&cold, &id);
            first.push(to_first);
            last.push(to_last);
        }
        let (plain, first, last) = (median(plain), median(first), median(last));
        println!(
            "{FILE_BYTES} bytes of which {name}, {size_bytes} in the bucket: plain ranged download \
             {plain:.2} s, first byte {first:.2} s ({:.2} times), last {last:.2} s; load {}",
            first / plain,
            load()
        );
    }
}

#[test]
#[ignore = "takes minutes and 32 GB of disk, prints figures"]
fn many_cold_fetches_at_once_lie_in_little_memory() {
    let Some(s3) = S3Server::shared() else {
        return;
    };
    let url = format!("s3://{}/many", s3.bucket());
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("large");
    let writer = server(s3, &url);
    let ids: Vec<String> = (0..number("UNHEX_MEASURED_CLIENTS", CLIENTS))
        .map(|_| {
            let id = large_file(&path, Density(0.02));
            upload(&writer, &id, &path);
            id
        })
        .collect();
    drop(writer);
    let cold = server(s3, &url);
    let watch = cold.watch_memory();
    let began = Instant::now();
    let mut clients = curl();
    clients.args(["--parallel", "--parallel-max", "64", "--parallel-immediate"]);
    for (at, id) in ids.iter().enumerate() {
        if at > 0 {
            clients.args(["--output", "/dev/null"]);
        }
        clients.arg(cold.url(&format!("/buildid/{id}/debuginfo")));
    }
    let ended = clients.status().expect("curl runs");
    assert!(ended.success(), "{}", cold.log());
    let most_bytes = watch.most_bytes();
    println!(
        "{} artifacts of {FILE_BYTES} bytes at once: {:.1} s, {} MiB resident at most; load {}",
        ids.len(),
        began.elapsed().as_secs_f64(),
        most_bytes >> 20,
        load()
    );
    assert!(most_bytes < MEMORY_BYTES_MAX, "{most_bytes} bytes resident");
}

/// Folders and records of so many build IDs, as `unhex` would have made them; what the records say
/// is nobody's question at a start.
fn fill(data: &Path, build_ids: usize) {
    let record = data.join("record");
    fs::create_dir_all(data).expect("a folder");
    for number in 0..build_ids {
        // A file has 65,000 names at most on ext4.
        if number % 60_000 == 0 {
            drop(fs::remove_file(&record));
            fs::write(&record, b"{}").expect("written");
        }
        let id: [u8; 20] = rand::random();
        let id = id.map(|byte| format!("{byte:02x}")).concat();
        let shard = id.get(..2).expect("hex");
        let folder = data.join("builds").join(shard).join(&id).join("rec");
        fs::create_dir_all(&folder).expect("a folder");
        let name = format!("debuginfo.{}.{}.json", "ab".repeat(32), "01".repeat(16));
        fs::hard_link(&record, folder.join(name)).expect("linked");
    }
}

#[test]
#[ignore = "takes minutes and two million folders, prints figures"]
fn a_start_with_a_million_build_ids() {
    let all = number("UNHEX_MEASURED_BUILD_IDS", 1_000_000);
    for build_ids in [0, all] {
        let mut home = Some(Home::new());
        fill(&home.as_ref().expect("a home").data(), build_ids);
        let (mut took, mut resident) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let began = Instant::now();
            let server = Server::start_in(home.take().expect("a home"), program(), &[]);
            took.push(began.elapsed());
            resident.push(server.memory_bytes());
            home = Some(server.kill());
        }
        let fastest: &Duration = took.iter().min().expect("rounds");
        println!(
            "{build_ids} build IDs: ready after {:.3} to {:.3} s, {} KiB resident; load {}",
            fastest.as_secs_f64(),
            took.iter().max().expect("rounds").as_secs_f64(),
            resident.iter().max().expect("rounds") >> 10,
            load()
        );
    }
}
