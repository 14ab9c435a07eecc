//! A program that runs, the engine on it, and what its stacks are called.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use object::{Object, ObjectSymbol};
use unhex_agent::engine::Engine;
use unhex_agent::engine::ebpf::{Ebpf, EbpfSettings};
use unhex_agent::limits::Limits;
use unhex_agent::processes::{Binary, BinaryKind, Processes};
use unhex_agent::sample::{FrameKind, ProcessId, Sample, Stop, UserFrame};
use unhex_symbols::address::{LinkAddress, ProcessAddress};
use unhex_testkit::{run, tools};

/// High, so that tests are short, and low enough for a busy machine to copy and unwind every stack until there are tables.
const SAMPLES_PER_SECOND: u32 = 97;
/// Whole stacks in a row after which a program runs, and there are tables of all that it consists of.
const SETTLED: usize = 20;
/// On a machine that compiles beside it, a program gets a tenth of a processor.
const DEADLINE: Duration = Duration::from_mins(2);

/// A program that runs until this is dropped.
pub(crate) struct Running(Child);

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self(
            command
                .stdin(Stdio::null())
                .spawn()
                .expect("a program that starts"),
        )
    }

    pub(crate) fn id(&self) -> ProcessId {
        ProcessId(self.0.id())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// A stack, innermost first: functions of the program by name, others by what they are in, and why it ends.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stack {
    pub(crate) frames: Vec<String>,
    pub(crate) stop: Stop,
    pub(crate) innermost: LinkAddress,
}

/// Functions of a program.
pub(crate) struct Functions {
    name: String,
    by_address: Vec<(u64, u64, String)>,
}

impl Functions {
    /// Of a program that has its symbols, under the name that it runs by.
    pub(crate) fn of(with_symbols: &Path, running: &Path) -> Self {
        let bytes = run::read(with_symbols);
        let file = object::File::parse(&*bytes).expect("an ELF file");
        let functions = file
            .symbols()
            .filter(|symbol| symbol.kind() == object::SymbolKind::Text);
        let named = functions.map(|symbol| {
            let name = symbol.name().expect("a name").to_owned();
            (symbol.address(), symbol.size().max(1), name)
        });
        let mut by_address: Vec<(u64, u64, String)> = named.collect();
        by_address.sort();
        let name = running.to_str().expect("a path").to_owned();
        Self { name, by_address }
    }

    fn name(&self, binary: &Binary, address: LinkAddress) -> String {
        if binary.kind == BinaryKind::Vdso {
            return "[vdso]".to_owned();
        }
        if binary.name != self.name {
            let file = binary.name.rsplit('/').next().unwrap_or_default();
            return format!("[{}]", file.split('.').next().unwrap_or_default());
        }
        let after = self
            .by_address
            .partition_point(|&(start, ..)| start <= address.0);
        let function = after
            .checked_sub(1)
            .and_then(|place| self.by_address.get(place));
        match function {
            Some((start, size, name)) if address.0 - start < *size => name.clone(),
            _ => format!("{address}"),
        }
    }

    fn stack(&self, processes: &Processes, sample: &Sample) -> Option<Stack> {
        let process = processes.get(sample.process)?;
        let place = |frame: &UserFrame| -> Option<(Arc<Binary>, LinkAddress)> {
            let address = match frame.kind {
                FrameKind::Exact => frame.address,
                FrameKind::Return => ProcessAddress(frame.address.0 - 1),
            };
            let region = process.region_at(address)?;
            Some((Arc::clone(&region.binary), region.link_address(address)?))
        };
        let name = |frame: &UserFrame| match place(frame) {
            Some((binary, address)) => self.name(&binary, address),
            None => "[nowhere]".to_owned(),
        };
        Some(Stack {
            frames: sample.user.iter().map(name).collect(),
            stop: sample.stop,
            innermost: sample
                .user
                .first()
                .and_then(place)
                .map_or(LinkAddress(0), |(_, at)| at),
        })
    }
}

/// The engine, and nobody else's: each looks at all processes.
pub(crate) struct Alone {
    pub(crate) engine: Ebpf,
    pub(crate) processes: Processes,
    _guard: MutexGuard<'static, ()>,
}

/// The engine; `None`, after saying so, where it may not be used.
pub(crate) fn engine(settings: EbpfSettings) -> Option<Alone> {
    static ALONE: Mutex<()> = Mutex::new(());
    if !rustix::process::geteuid().is_root() {
        tools::skip("the unwinder in the kernel needs root, or CAP_BPF and CAP_PERFMON");
        return None;
    }
    // A test that failed is no reason for others to fail.
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut processes = Processes::new(Limits::default());
    let started = Ebpf::start(settings, &mut processes);
    Some(Alone {
        engine: started.expect("the engine starts"),
        processes,
        _guard: guard,
    })
}

pub(crate) fn fast() -> EbpfSettings {
    EbpfSettings {
        samples_per_second: SAMPLES_PER_SECOND,
        ..EbpfSettings::default()
    }
}

/// So many stacks of a program that has settled, each with how often it was seen.
pub(crate) fn stacks(
    alone: &mut Alone,
    running: ProcessId,
    functions: &Functions,
    wanted: usize,
) -> BTreeMap<Stack, usize> {
    let (engine, processes) = (&mut alone.engine, &mut alone.processes);
    let (mut seen, mut in_a_row): (Vec<Stack>, usize) = (Vec::new(), 0);
    run::poll("stacks of a program", DEADLINE, || {
        let taken = engine.poll(processes, &mut |processes, sample| {
            if sample.process != running || sample.user.is_empty() {
                return;
            }
            let stack = functions
                .stack(processes, &sample)
                .expect("a known process");
            if in_a_row >= SETTLED {
                seen.push(stack);
                return;
            }
            let is_up = stack.frames.iter().any(|name| name == "main");
            let is_whole = is_up && stack.stop == Stop::Root;
            in_a_row = if is_whole { in_a_row + 1 } else { 0 };
        });
        taken.expect("the engine goes on");
        (seen.len() >= wanted).then_some(())
    });
    let mut counted = BTreeMap::new();
    for stack in seen {
        *counted.entry(stack).or_default() += 1;
    }
    counted
}

/// So many stacks of all processes of a program but the first, of each from its very beginning.
pub(crate) fn stacks_of_children(
    alone: &mut Alone,
    parent: ProcessId,
    functions: &Functions,
    wanted: usize,
) -> Vec<Stack> {
    let (engine, processes) = (&mut alone.engine, &mut alone.processes);
    let mut seen = Vec::new();
    run::poll("stacks of short processes", DEADLINE, || {
        let taken = engine.poll(processes, &mut |processes, sample| {
            let process = processes.get(sample.process);
            let first = process.and_then(|process| process.regions().first());
            let is_child = first.is_some_and(|first| first.binary.name == functions.name);
            if sample.process != parent && is_child && !sample.user.is_empty() {
                seen.extend(functions.stack(processes, &sample));
            }
        });
        taken.expect("the engine goes on");
        // As the agent does it, which is far longer than these processes live.
        std::thread::park_timeout(Duration::from_millis(200));
        (seen.len() >= wanted).then_some(())
    });
    seen
}

/// The path of a program, as the kernel has it.
pub(crate) fn real(path: &Path) -> PathBuf {
    path.canonicalize().expect("a program that is there")
}
