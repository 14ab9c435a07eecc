//! `unhex convert-child`: one conversion, in a process that limits itself before it looks at a file.
//!
//! Hidden, since only [`crate::conversion`] starts it. Whatever a hostile file does to the parsers,
//! it can cost this process its life, and the machine no more than the limits.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::process::ExitCode;

use memmap2::{Mmap, UncheckedAdvice};
use rustix::process::{Resource, Rlimit, Signal, nice, set_parent_process_death_signal, setrlimit};
use unhex_build_id::Hex;
use unhex_symbols::CONVERTER_VERSION;
use unhex_symbols::convert::{ConvertError, ConvertLimits, ConvertSources, convert};
use unhex_symbols::index::{self, Facts, WriteError};

use crate::conversion::protocol::{ChildReport, ConvertChildArgs, SourceArg};
use crate::conversion::{Converted, IndexFailure, IndexFailureKind};

/// Stack of the converting thread. The walks are iterative; the demanglers recurse, to a depth that
/// they limit themselves.
const STACK_BYTES: usize = 64 << 20;
/// Open files: three standard ones, four inputs, the output, and one that a library may want.
const OPEN_FILES_MAX: u64 = 16;
/// How much less of the processors than the server itself.
const NICENESS: i32 = 10;
/// CPU seconds between the signal that says so and the end.
const CPU_SECONDS_GRACE: u64 = 2;

/// Converts, and prints one line of JSON that says what came of it.
pub(super) fn run(arguments: ConvertChildArgs) -> ExitCode {
    let report = report_of(arguments);
    let printed = serde_json::to_string(&report)
        .map_err(io::Error::from)
        .and_then(|line| writeln!(io::stdout().lock(), "{line}"));
    match printed {
        Ok(()) => ExitCode::SUCCESS,
        // The parent is gone, or nothing can be said to it.
        Err(_unheard) => ExitCode::FAILURE,
    }
}

fn report_of(arguments: ConvertChildArgs) -> ChildReport {
    let limited = limit_this_process(&arguments);
    let thread = limited.and_then(|()| {
        std::thread::Builder::new()
            .name("convert".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || convert_files(&arguments))
    });
    match thread.map(std::thread::JoinHandle::join) {
        Ok(Ok(Ok(converted))) => ChildReport::Converted(converted),
        Ok(Ok(Err(report))) => report,
        Ok(Err(_panicked)) => ChildReport::Failed(IndexFailure {
            kind: IndexFailureKind::Malformed,
            detail: "the converter failed on it".to_owned(),
        }),
        Err(error) => unavailable("the converter cannot start", &error),
    }
}

/// Sets the limits, the memory's by the sizes of the inputs, which are mapped beside it.
fn limit_this_process(arguments: &ConvertChildArgs) -> io::Result<()> {
    let mut input_bytes = 0_u64;
    for source in sources(arguments) {
        let size = std::fs::metadata(&source.0.path)?.len();
        input_bytes = input_bytes.saturating_add(size);
    }
    let address_space = arguments.memory_bytes_max.saturating_add(input_bytes);
    limit(Resource::Core, 0, 0)?;
    limit(Resource::As, address_space, address_space)?;
    let cpu = arguments.cpu_seconds_max;
    limit(Resource::Cpu, cpu, cpu.saturating_add(CPU_SECONDS_GRACE))?;
    limit(
        Resource::Fsize,
        arguments.output_bytes_max,
        arguments.output_bytes_max,
    )?;
    limit(Resource::Nofile, OPEN_FILES_MAX, OPEN_FILES_MAX)?;
    // The server may be killed itself.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // A server that runs at the lowest priority already cannot go lower, which is as good.
    let _lowest_is_fine = nice(NICENESS);
    Ok(())
}

/// Lowers a limit; one that is lower already stays.
fn limit(resource: Resource, soft: u64, hard: u64) -> io::Result<()> {
    let inherited = rustix::process::getrlimit(resource);
    let hard = inherited
        .maximum
        .map_or(hard, |inherited| inherited.min(hard));
    let limit = Rlimit {
        current: Some(soft.min(hard)),
        maximum: Some(hard),
    };
    Ok(setrlimit(resource, limit)?)
}

fn sources(arguments: &ConvertChildArgs) -> impl Iterator<Item = &SourceArg> {
    [
        &arguments.debuginfo,
        &arguments.executable,
        &arguments.supplement,
        &arguments.dwp,
    ]
    .into_iter()
    .flatten()
}

fn convert_files(arguments: &ConvertChildArgs) -> Result<Converted, ChildReport> {
    let map = |source: &Option<SourceArg>| {
        let mapped = source.as_ref().map(map_source).transpose();
        mapped.map_err(|error| unavailable("an input cannot be mapped", &error))
    };
    let debuginfo = map(&arguments.debuginfo)?;
    let executable = map(&arguments.executable)?;
    let supplement = map(&arguments.supplement)?;
    let dwp = map(&arguments.dwp)?;
    let source_sha256: Vec<[u8; 32]> = sources(arguments).map(|source| source.0.sha256).collect();
    let sources = ConvertSources {
        debuginfo: debuginfo.as_deref(),
        executable: executable.as_deref(),
        supplement: supplement.as_deref(),
        dwp: dwp.as_deref(),
        source_sha256: &source_sha256,
    };
    let mapped = [&debuginfo, &executable, &supplement, &dwp];
    let release = |bytes: &[u8]| {
        for map in mapped.into_iter().flatten() {
            release_pages(map, bytes);
        }
    };
    let limits = ConvertLimits {
        release: Some(&release),
        ..ConvertLimits::default()
    };
    let model = convert(sources, &limits).map_err(|error| of_convert(&error, arguments))?;
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&arguments.output)
        .map_err(|error| unavailable("its output cannot be made", &error))?;
    let mut output = BufWriter::new(file);
    let facts = index::write(model, &mut output).map_err(of_write)?;
    let file = output.into_inner().map_err(|error| of_io(error.error()))?;
    let size_bytes = file.metadata().map_err(|error| of_io(&error))?.len();
    Ok(converted(&facts, size_bytes))
}

fn converted(facts: &Facts, size_bytes: u64) -> Converted {
    Converted {
        quality: facts.quality,
        functions: u64::from(facts.functions),
        lines: facts.lines,
        units_failed: facts.units_failed,
        needs_supplement: facts
            .needs_supplement
            .as_deref()
            .map(|id| Hex(id).to_string()),
        converter_version: CONVERTER_VERSION,
        size_bytes,
    }
}

fn map_source(source: &SourceArg) -> io::Result<Mmap> {
    let file = File::open(&source.0.path)?;
    #[expect(
        unsafe_code,
        reason = "mapping is the point: pages that were read may be dropped, unlike memory"
    )]
    // SAFETY: the file is a blob of the store, which is never changed or cut, only unlinked; were
    // it cut all the same, the signal would end this process, which exists to be ended.
    unsafe {
        Mmap::map(&file)
    }
}

/// Lets go of the pages of `bytes`, if they lie in `map`: they would count as resident.
fn release_pages(map: &Mmap, bytes: &[u8]) {
    let start = bytes.as_ptr().addr().checked_sub(map.as_ptr().addr());
    let end = start.and_then(|start| start.checked_add(bytes.len()));
    let (Some(start), Some(_)) = (start, end.filter(|end| *end <= map.len())) else {
        return;
    };
    #[expect(
        unsafe_code,
        reason = "the pages of a mapping can be dropped in no other way"
    )]
    // SAFETY: the mapping is private, read-only and of a file that does not change, so a dropped
    // page is read again with the same bytes when it is needed.
    let dropped =
        unsafe { map.unchecked_advise_range(UncheckedAdvice::DontNeed, start, bytes.len()) };
    // Pages that stay cost memory and nothing else.
    let _ = dropped;
}

fn of_convert(error: &ConvertError, arguments: &ConvertChildArgs) -> ChildReport {
    let kind = match error {
        ConvertError::Unsupported { .. } => IndexFailureKind::Unsupported,
        ConvertError::TooLarge { .. } | ConvertError::OutOfMemory { .. } => {
            IndexFailureKind::TooLarge
        }
        ConvertError::Stopped { .. } => IndexFailureKind::Timeout,
        _ => IndexFailureKind::Malformed,
    };
    let mut detail = error.to_string();
    if let ConvertError::OutOfMemory { .. } = error {
        let max = arguments.memory_bytes_max;
        detail = format!("{detail}: the conversion's limit is {max} bytes");
    }
    ChildReport::Failed(IndexFailure { kind, detail })
}

fn of_write(error: WriteError) -> ChildReport {
    let kind = match error {
        WriteError::Io(error) => return of_io(&error),
        WriteError::TooLarge { .. } => IndexFailureKind::TooLarge,
        _ => IndexFailureKind::Malformed,
    };
    let detail = error.to_string();
    ChildReport::Failed(IndexFailure { kind, detail })
}

fn of_io(error: &io::Error) -> ChildReport {
    unavailable("its output cannot be written", error)
}

fn unavailable(what: &str, error: &io::Error) -> ChildReport {
    let detail = format!("{what}: {error}");
    ChildReport::Unavailable { detail }
}
