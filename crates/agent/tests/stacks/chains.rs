//! Stacks of a program whose call chain is known by how it was written.
//!
//! A program says `ready` when it is where it stays. From then on nearly each of its samples has to have the same
//! functions, by the addresses in its own files, and has to end as expected.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use unhex_agent::engine::Engine;
use unhex_agent::processes::{BinaryKind, Process, Processes};
use unhex_agent::sample::{FrameKind, ProcessId, Sample, Stop, UserFrame};
use unhex_symbols::address::{ProcessAddress, ReturnAddress};
use unhex_testkit::run;

use crate::engines::Opened;
use crate::symbols::Symbols;

/// Samples that are looked at.
const SAMPLES: usize = 200;

/// How many times as many samples an engine may take until it has all tables of a program.
const ROUNDS_TO_BE_READY: usize = 20;

/// Of a hundred, how many have to be as expected: one may have hit the way into a signal or out of a system call.
const PERCENT: usize = 99;

const DEADLINE: Duration = Duration::from_mins(3);

/// A program that runs, until this is dropped.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
}

impl Running {
    /// Starts it and waits until it says `ready`.
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        let running = Self { child };
        assert_eq!(line, "ready\n", "{command:?}");
        running
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// What is expected of the samples of a program.
#[derive(Debug)]
pub(crate) struct Expected {
    /// The files whose functions are named, by the end of the name that they are mapped by.
    files: Vec<(String, Symbols)>,
    /// Chains of function names of which each stack has one, innermost first; all frames in the files.
    chains: Vec<Vec<String>>,
    /// Whether stacks go on in functions that are not named here.
    is_prefix: bool,
    stop: Stop,
    or_cut_by: &'static [Stop],
    which: Which,
}

/// Which samples of the program count.
#[derive(Clone, Copy, Debug)]
enum Which {
    All,
    /// Those in one of these functions: the program has other threads.
    In(&'static [&'static str]),
    /// Those that hit no code of the kernel: what a process is that begins or ends just then is for nobody to say.
    InUserCode,
}

impl Expected {
    /// Complete stacks with one of these chains. Functions of which there are many in a row are written `name*60`.
    pub(crate) fn chains(file: &Path, chains: &[&[&str]]) -> Self {
        Self {
            files: vec![(mapped_name(file), Symbols::of(file))],
            chains: chains.iter().map(|chain| written_out(chain)).collect(),
            is_prefix: false,
            stop: Stop::Root,
            or_cut_by: &[],
            which: Which::All,
        }
    }

    /// Of the samples that are in one of these functions.
    pub(crate) fn in_functions(mut self, functions: &'static [&'static str]) -> Self {
        self.which = Which::In(functions);
        self
    }

    /// Of the samples that hit no code of the kernel.
    pub(crate) fn in_user_code(mut self) -> Self {
        self.which = Which::InUserCode;
        self
    }

    /// The functions of another file, too.
    pub(crate) fn file(mut self, file: &Path) -> Self {
        self.files.push((mapped_name(file), Symbols::of(file)));
        self
    }

    /// What runs is another file with the same functions, mapped by that name.
    pub(crate) fn of_mapped(mut self, name: &str) -> Self {
        name.clone_into(&mut self.files[0].0);
        self
    }

    /// The chains are the innermost part; what calls them is not written down.
    pub(crate) fn and_callers(mut self) -> Self {
        self.is_prefix = true;
        self
    }

    /// Stacks end otherwise, after some of the chain.
    pub(crate) fn cut_by(mut self, stop: Stop) -> Self {
        self.stop = stop;
        self
    }

    /// Whether a process runs the program.
    fn concerns(&self, processes: &Processes, id: ProcessId) -> bool {
        let Some((name, _)) = self.files.first() else {
            return false;
        };
        let process = processes.get(id);
        let mut regions = process.into_iter().flat_map(Process::regions);
        regions.any(|region| region.binary.name.ends_with(name.as_str()))
    }

    /// Stacks may also end early, for such a reason.
    pub(crate) fn or_cut_by(mut self, reasons: &'static [Stop]) -> Self {
        self.or_cut_by = reasons;
        self
    }

    fn is_met_by(&self, seen: &Seen) -> bool {
        let begins = |chain: &Vec<String>| chain.starts_with(&seen.names);
        let is_one = |chain: &Vec<String>| match self.stop {
            Stop::Root if self.is_prefix => seen.names.starts_with(chain),
            Stop::Root => seen.names == *chain,
            _ => begins(chain) && !seen.names.is_empty(),
        };
        if self.or_cut_by.contains(&seen.stop) {
            return self.chains.iter().any(begins);
        }
        seen.stop == self.stop && self.chains.iter().any(is_one)
    }

    fn names(&self, processes: &Processes, sample: &Sample) -> Vec<String> {
        let Some(process) = processes.get(sample.process) else {
            return vec!["[unknown process]".to_owned()];
        };
        let name = |frame: &UserFrame| {
            let address = place(frame);
            let region = process.region_at(address)?;
            let (_, symbols) = self
                .files
                .iter()
                .find(|(name, _)| region.binary.name.ends_with(name.as_str()))?;
            let function = symbols.function_at(region.link_address(address)?)?;
            // Part of it may lie elsewhere, where the compiler puts what is rarely run.
            Some(
                function
                    .strip_suffix(".cold")
                    .unwrap_or(function)
                    .to_owned(),
            )
        };
        sample.user.iter().filter_map(name).collect()
    }
}

/// The byte whose function a frame is in.
fn place(frame: &UserFrame) -> ProcessAddress {
    match frame.kind {
        FrameKind::Exact => frame.address,
        FrameKind::Return => ReturnAddress(frame.address).call_site(),
    }
}

fn mapped_name(file: &Path) -> String {
    file.to_str().unwrap().to_owned()
}

fn written_out(chain: &[&str]) -> Vec<String> {
    let mut all = Vec::new();
    for name in chain {
        let (name, count) = name.split_once('*').unwrap_or((name, "1"));
        all.extend(std::iter::repeat_n(name.to_owned(), count.parse().unwrap()));
    }
    all
}

/// What a sample looks like, by names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Seen {
    names: Vec<String>,
    stop: Stop,
}

/// All that was seen of a program.
#[derive(Debug, Default)]
pub(crate) struct Sight {
    seen: BTreeMap<Seen, usize>,
    /// Samples with a frame in the code of the kernel that every process has.
    pub(crate) in_vdso: usize,
    /// Identities of the binaries of innermost frames.
    pub(crate) identities: Vec<unhex_build_id::Identity>,
}

/// Takes samples of all processes that have the first of the files mapped, and compares each.
///
/// An engine that makes tables aside says so by reasons while it does that: of its samples those count that it has when
/// it is ready.
pub(crate) fn compare(opened: &mut Opened, expected: &Expected) -> Sight {
    let (engine, processes) = opened.parts();
    let counted = |engine: &dyn Engine| engine.counters().samples.iter().sum::<u64>();
    let counted_before = counted(engine);
    let mut sight = Sight::default();
    let mut delivered = 0;
    let mut rounds_left = if engine.name() == "ebpf" {
        ROUNDS_TO_BE_READY
    } else {
        0
    };
    run::poll("enough samples", DEADLINE, || {
        let mut look = |processes: &Processes, sample: Sample| {
            delivered += 1;
            if expected.concerns(processes, sample.process) {
                sight.add(processes, &sample, expected);
            }
        };
        engine.poll(processes, &mut look).unwrap();
        let is_enough = sight.seen.values().sum::<usize>() >= SAMPLES;
        if is_enough && rounds_left > 0 && sight.judged(expected).is_err() {
            rounds_left -= 1;
            sight = Sight::default();
            return None;
        }
        is_enough.then_some(())
    });
    if let Err(others) = sight.judged(expected) {
        panic!("{others}");
    }
    assert_eq!(
        counted(engine) - counted_before,
        delivered,
        "{:?}",
        engine.counters()
    );
    sight
}

impl Sight {
    fn add(&mut self, processes: &Processes, sample: &Sample, expected: &Expected) {
        let names = expected.names(processes, sample);
        let counts = match expected.which {
            Which::All => true,
            Which::In(functions) => names
                .first()
                .is_some_and(|name| functions.contains(&name.as_str())),
            Which::InUserCode => sample.kernel.is_empty(),
        };
        if !counts {
            return;
        }
        let stop = sample.stop;
        *self.seen.entry(Seen { names, stop }).or_default() += 1;
        let process = processes.get(sample.process).unwrap();
        let mut binaries = sample
            .user
            .iter()
            .filter_map(|frame| Some(&process.region_at(place(frame))?.binary));
        if let Some(identity) = binaries
            .clone()
            .next()
            .and_then(|binary| binary.identity.clone())
            && !self.identities.contains(&identity)
        {
            self.identities.push(identity);
        }
        self.in_vdso += usize::from(binaries.any(|binary| binary.kind == BinaryKind::Vdso));
    }

    /// Whether nearly all are as expected; else what they are.
    fn judged(&self, expected: &Expected) -> Result<(), String> {
        let total: usize = self.seen.values().sum();
        let (met, others): (Vec<_>, Vec<_>) = self
            .seen
            .iter()
            .partition(|(seen, _)| expected.is_met_by(seen));
        let met: usize = met.into_iter().map(|(_, count)| count).sum();
        if met * 100 >= total * PERCENT {
            return Ok(());
        }
        let others: Vec<String> = others
            .into_iter()
            .map(|(seen, count)| format!("{count} x {seen:?}"))
            .collect();
        let (chains, stop, others) = (&expected.chains, expected.stop, others.join("\n"));
        Err(format!(
            "{met} of {total} stacks are {chains:?} ({stop:?}); others:\n{others}"
        ))
    }
}

/// A folder of its own for files that a test puts somewhere.
pub(crate) fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    (folder, path)
}
