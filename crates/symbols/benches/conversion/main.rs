//! How long a conversion takes and how much memory, beside symbolic's symcache and GSYM.
//!
//! `cargo bench -p unhex-symbols --bench conversion -- FILE...` takes debug files. Each engine runs
//! in a process of its own, maps the file, converts and writes on one thread. Times are CPU time of
//! the whole process, the best of several rounds in which the engines take turns; memory is the
//! largest resident set, input pages included. DWARF is counted uncompressed, all `.debug_*`.

#![expect(clippy::print_stdout, reason = "a bench reports on standard output")]
#![expect(
    clippy::cast_precision_loss,
    reason = "figures for people have four digits"
)]

use std::error::Error;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object, ObjectSection};
use unhex_symbols::convert::{ConvertLimits, ConvertSources, convert};
use unhex_symbols::index::write;

/// Rounds of each engine; the best counts.
const ROUNDS: usize = 3;

/// What one run took.
#[derive(Clone, Copy, Debug)]
struct Cost {
    cpu_seconds: f64,
    resident_bytes: f64,
    output_bytes: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| a != "--bench")
        .collect();
    if let [flag, engine, file] = arguments.as_slice()
        && flag == "--engine"
    {
        return run_engine(engine, Path::new(file));
    }
    if arguments.is_empty() {
        println!("skipped: no debug files were given; see the head of benches/conversion");
    }
    for file in arguments.iter().map(PathBuf::from) {
        measure_file(&file)?;
    }
    Ok(())
}

fn measure_file(file: &Path) -> Result<(), Box<dyn Error>> {
    let dwarf_bytes = dwarf_bytes(file)?;
    println!(
        "\n## {}: {:.1} MB of DWARF",
        file.display(),
        dwarf_bytes / 1e6
    );
    let engines = ["unhex", "unhex without index", "symcache", "gsym"];
    let mut best: [Option<Cost>; 4] = [None; 4];
    for _ in 0..ROUNDS {
        for (engine, best) in engines.iter().zip(&mut best) {
            let cost = match *engine {
                "gsym" => gsym(file)?,
                engine => own_process(engine, file)?,
            };
            let better = |best: &Cost| cost.is_none_or(|c| best.cpu_seconds <= c.cpu_seconds);
            if !best.as_ref().is_some_and(better) {
                *best = cost;
            }
        }
    }
    for (engine, best) in engines.iter().zip(&best) {
        match best {
            Some(cost) => println!(
                "{engine:20} {:7.3} CPU s, {:5.2} s per 100 MB, {:6.0} MB resident ({:.2} x DWARF), {:.2} MB out",
                cost.cpu_seconds,
                cost.cpu_seconds / dwarf_bytes * 1e8,
                cost.resident_bytes / 1e6,
                cost.resident_bytes / dwarf_bytes,
                cost.output_bytes / 1e6,
            ),
            None => println!("{engine:20} not run: llvm-gsymutil-19 or /usr/bin/time is missing"),
        }
    }
    Ok(())
}

/// The bytes of all sections of DWARF, uncompressed.
fn dwarf_bytes(file: &Path) -> Result<f64, Box<dyn Error>> {
    let data = std::fs::read(file)?;
    let object = object::File::parse(&*data)?;
    let sizes = object.sections().map(|section| {
        let is_dwarf = section.name().is_ok_and(|name| name.starts_with(".debug_"));
        let size = section
            .compressed_data()
            .map_or(0, |data| data.uncompressed_size);
        if is_dwarf { size } else { 0 }
    });
    Ok(sizes.sum::<u64>() as f64)
}

/// Runs this program again for one engine.
fn own_process(engine: &str, file: &Path) -> Result<Option<Cost>, Box<dyn Error>> {
    let output = Command::new(std::env::current_exe()?)
        .args(["--engine", engine])
        .arg(file)
        // As the server starts its converters.
        .env("MALLOC_ARENA_MAX", "1")
        .env("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    let figures: Vec<f64> = text
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    let [cpu_seconds, resident_bytes, output_bytes] = figures.as_slice() else {
        return Err(format!("{engine}: {}", String::from_utf8_lossy(&output.stderr)).into());
    };
    Ok(Some(Cost {
        cpu_seconds: *cpu_seconds,
        resident_bytes: *resident_bytes,
        output_bytes: *output_bytes,
    }))
}

/// What runs in a process of its own.
#[expect(
    unsafe_code,
    reason = "the file is mapped, as in the server's converter"
)]
fn run_engine(engine: &str, file: &Path) -> Result<(), Box<dyn Error>> {
    let file = File::open(file)?;
    // SAFETY: the bench's input does not change while it runs.
    let data = unsafe { memmap2::Mmap::map(&file)? };
    let mut out = Vec::new();
    if engine == "symcache" {
        let object = symbolic_debuginfo::Object::parse(&data)?;
        let mut converter = symbolic_symcache::SymCacheConverter::new();
        converter.process_object(&object)?;
        converter.serialize(&mut out)?;
    } else {
        let sources = ConvertSources {
            debuginfo: Some(&data),
            ..ConvertSources::default()
        };
        let release = |bytes: &[u8]| {
            let start = bytes.as_ptr().addr().wrapping_sub(data.as_ptr().addr());
            // SAFETY: the file does not change, so a dropped page is read again as it was.
            let _ = unsafe {
                data.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, start, bytes.len())
            };
        };
        let limits = ConvertLimits {
            release: Some(&release),
            ..ConvertLimits::default()
        };
        let model = convert(sources, &limits)?;
        if engine == "unhex" {
            write(model, &mut out)?;
        }
    }
    let ticks = std::fs::read_to_string("/proc/self/schedstat")?;
    let nanoseconds: f64 = ticks
        .split_whitespace()
        .next()
        .unwrap_or_default()
        .parse()?;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes: f64 = peak
        .unwrap_or_default()
        .trim()
        .trim_end_matches(" kB")
        .parse()?;
    println!("{} {} {}", nanoseconds / 1e9, kilobytes * 1024.0, out.len());
    Ok(())
}

/// llvm-gsymutil, measured by GNU time.
fn gsym(file: &Path) -> Result<Option<Cost>, Box<dyn Error>> {
    let out = std::env::temp_dir().join(format!("unhex-bench-{}.gsym", std::process::id()));
    let run = Command::new("/usr/bin/time")
        .args([
            "-f",
            "%U %S %M",
            "llvm-gsymutil-19",
            "--num-threads=1",
            "--quiet",
            "--convert",
        ])
        .arg(file)
        .arg(format!("--out-file={}", out.display()))
        .output();
    let Ok(run) = run else { return Ok(None) };
    let Ok(written) = std::fs::metadata(&out) else {
        return Ok(None);
    };
    std::fs::remove_file(&out)?;
    let text = String::from_utf8_lossy(&run.stderr).into_owned();
    let last = text.lines().last().unwrap_or_default();
    let figures: Vec<f64> = last
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    let [user, system, kilobytes] = figures.as_slice() else {
        return Ok(None);
    };
    Ok(Some(Cost {
        cpu_seconds: user + system,
        resident_bytes: kilobytes * 1024.0,
        output_bytes: written.len() as f64,
    }))
}
