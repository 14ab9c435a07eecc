//! The way of a sample from an engine into a batch: whose it is, what its stack stands for.

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::clock::Moment;
use crate::engine::{Counters, Engine, EngineError};
use crate::labels::{Known, LabelCache, Mapped, Pods};
use crate::processes::{BinaryKind, Process, Processes};
use crate::profile::{Batch, FileNames, KernelSymbols, Namers, Period, Whose};
use crate::sample::{Sample, Stop};

/// Where the kernel lists its functions.
const KERNEL_LIST: &str = "/proc/kallsyms";
/// How long the list of the kernel's functions counts before it is read again for one that is not in it: reading takes 100 ms.
const KERNEL_AGE_MAX: Duration = Duration::from_mins(1);
/// How long a batch grows that no length was set for.
const BATCH_DEFAULT: Duration = Duration::from_secs(10);

/// Gathers samples into batches.
#[derive(Debug)]
pub struct Collector {
    engine: Box<dyn Engine>,
    processes: Processes,
    sorting: Sorting,
    batch: Batch,
    begun: Moment,
    batch_length: Duration,
    samples_per_second: u32,
    file_names: FileNames,
}

/// What samples are looked up in.
#[derive(Debug)]
struct Sorting {
    labels: LabelCache,
    namers: Namers,
    kernel: Known,
    kernel_read_at: Instant,
}

/// What a collector is made of beside its engine.
#[derive(Debug)]
pub struct Parts {
    /// What is mapped where.
    pub processes: Processes,
    /// Whose processes are.
    pub labels: LabelCache,
    /// Where processes are looked up: `/proc` but in tests.
    pub proc: PathBuf,
    /// How many samples of each processor are taken in a second.
    pub samples_per_second: u32,
    /// How files are called in batches.
    pub file_names: FileNames,
}

impl Collector {
    /// A collector that begins now.
    pub fn new(engine: Box<dyn Engine>, parts: Parts, now: Moment) -> Self {
        let kernel = Known {
            labels: parts.labels.surroundings().of_kernel(),
            runtime: None,
        };
        Self {
            engine,
            processes: parts.processes,
            sorting: Sorting {
                labels: parts.labels,
                namers: Namers::new(parts.proc, kernel_symbols()),
                kernel,
                kernel_read_at: now.instant,
            },
            batch: Batch::new(parts.file_names),
            begun: now,
            batch_length: BATCH_DEFAULT,
            samples_per_second: parts.samples_per_second,
            file_names: parts.file_names,
        }
    }

    /// Takes all samples that there are. To be called every 100 to 500 ms.
    ///
    /// # Errors
    /// If the engine can go on no more.
    pub fn poll(&mut self, now: Moment) -> Result<(), EngineError> {
        let Self {
            engine,
            processes,
            sorting,
            batch,
            ..
        } = self;
        engine.poll(processes, &mut |processes, sample| {
            sorting.add(batch, processes, &sample, now);
        })?;
        sorting.refresh_kernel(now.instant);
        Ok(())
    }

    /// Waits for what [`Collector::poll`] should not let wait, as a process that began, but no longer than `at_most`.
    ///
    /// # Errors
    /// If the engine can go on no more.
    pub fn wait(&self, at_most: Duration) -> Result<(), EngineError> {
        self.engine.wait(at_most)
    }

    /// Whether the batch is to be sent: it is old enough, or full.
    pub fn is_due(&self, now: Moment) -> bool {
        let age = now.instant.saturating_duration_since(self.begun.instant);
        self.batch.is_full() || age >= self.batch_length
    }

    /// Whether the batch can take no more.
    pub fn is_full(&self) -> bool {
        self.batch.is_full()
    }

    /// The batch up to now, and begins the next one, which is to grow for so long.
    pub fn take(&mut self, now: Moment, next_length: Duration) -> (Batch, Period) {
        let duration = now.instant.saturating_duration_since(self.begun.instant);
        let period = Period {
            start_unix_nanos: self.begun.unix_nanos,
            duration_nanos: u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX),
            sampling_nanos: 1_000_000_000 / u64::from(self.samples_per_second.max(1)),
        };
        self.begun = now;
        self.batch_length = next_length;
        let next = Batch::new(self.file_names);
        (std::mem::replace(&mut self.batch, next), period)
    }

    /// Takes samples at another rate from now on.
    ///
    /// # Errors
    /// As of [`Engine::set_rate`].
    pub fn set_rate(&mut self, samples_per_second: u32) -> Result<(), EngineError> {
        self.engine.set_rate(samples_per_second)?;
        self.samples_per_second = samples_per_second;
        Ok(())
    }

    /// The pods of this node, from now on.
    pub fn set_pods(&mut self, pods: Pods) {
        self.sorting.labels.surroundings_mut().pods = pods;
    }

    /// Who takes the samples.
    pub fn engine_name(&self) -> &'static str {
        self.engine.name()
    }

    /// What the engine counted.
    pub fn counters(&self) -> Counters {
        self.engine.counters()
    }

    /// How many processes are known.
    pub fn processes(&self) -> usize {
        self.processes.len()
    }

    /// Whether names of the kernel's functions may be known.
    pub fn knows_kernel(&self) -> bool {
        !self.sorting.namers.kernel.is_empty()
    }
}

impl Sorting {
    fn add(&mut self, batch: &mut Batch, processes: &Processes, sample: &Sample, now: Moment) {
        // Nobody runs: the processor is idle.
        if sample.process.0 == 0 {
            return;
        }
        let process = processes.get(sample.process);
        let is_kernel = sample.stop == Stop::NoUserStack
            && process.is_none_or(|process| process.regions().is_empty());
        let known = if is_kernel {
            &self.kernel
        } else {
            let seen = process.map(mapped).unwrap_or_default();
            self.labels.known(sample.process, now.instant, seen)
        };
        let whose = Whose {
            process,
            known,
            now: now.instant,
            unix_offset_nanos: now.unix_offset_nanos(),
        };
        batch.add(sample, whose, &mut self.namers);
    }

    /// Reads the kernel's functions again when one had no name; not if the kernel hides them all.
    fn refresh_kernel(&mut self, now: Instant) {
        let is_old = now.saturating_duration_since(self.kernel_read_at) > KERNEL_AGE_MAX;
        let lacks = std::mem::take(&mut self.namers.kernel_lacks);
        if lacks && is_old && !self.namers.kernel.is_empty() {
            self.namers.kernel = kernel_symbols();
            self.kernel_read_at = now;
        }
    }
}

/// What a process's mappings tell of it. Programs lie lowest in memory.
fn mapped(process: &Process) -> Mapped<'_> {
    let mut regions = process.regions().iter();
    let program = regions.find(|region| region.binary.kind == BinaryKind::File);
    Mapped {
        executable: program.map_or("", |region| &region.binary.name),
        incarnation: process.incarnation(),
        generation: process.generation(),
    }
}

fn kernel_symbols() -> KernelSymbols {
    match File::open(KERNEL_LIST) {
        Ok(list) => KernelSymbols::read(BufReader::new(list)),
        Err(error) => {
            tracing::warn!(%error, "the kernel's functions have no names, since {KERNEL_LIST} cannot be read: {error}");
            KernelSymbols::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::fs;

    use unhex_pprof::{Limits, Value, otlp};

    use super::*;
    use crate::labels::{ProcFolder, Surroundings};
    use crate::sample::{ProcessId, ThreadId};

    /// Hands out what it was given, a list at each poll.
    #[derive(Debug)]
    struct Replay {
        polls: VecDeque<Vec<Sample>>,
        rate: u32,
    }

    impl Engine for Replay {
        fn name(&self) -> &'static str {
            "replay"
        }

        fn poll(
            &mut self,
            processes: &mut Processes,
            sink: &mut dyn FnMut(&Processes, Sample),
        ) -> Result<(), EngineError> {
            for sample in self.polls.pop_front().unwrap_or_default() {
                sink(processes, sample);
            }
            Ok(())
        }

        fn wait(&self, _at_most: Duration) -> Result<(), EngineError> {
            Ok(())
        }

        fn set_rate(&mut self, samples_per_second: u32) -> Result<(), EngineError> {
            self.rate = samples_per_second;
            Ok(())
        }

        fn counters(&self) -> Counters {
            Counters::default()
        }
    }

    fn sample(process: u32, stop: Stop) -> Sample {
        Sample {
            time_monotonic_nanos: 1,
            period_nanos: 50_000_000,
            process: ProcessId(process),
            thread: ThreadId(process),
            processor: 0,
            kernel: vec![0xffff_ffff_ffff_ffff],
            user: Vec::new(),
            stop,
        }
    }

    /// A host on which process 7 is `shop`, and nothing is known of others.
    fn collector(polls: Vec<Vec<Sample>>) -> (tempfile::TempDir, Collector) {
        let proc = tempfile::tempdir().unwrap();
        fs::create_dir(proc.path().join("7")).unwrap();
        fs::write(
            proc.path().join("7/cgroup"),
            "0::/system.slice/shop.service\n",
        )
        .unwrap();
        let folder = ProcFolder::new(proc.path(), Vec::new());
        let parts = Parts {
            processes: Processes::default(),
            labels: LabelCache::new(folder, Surroundings::default()),
            proc: proc.path().to_owned(),
            samples_per_second: 20,
            file_names: FileNames::Base,
        };
        let engine = Replay {
            polls: polls.into(),
            rate: 20,
        };
        let collector = Collector::new(Box::new(engine), parts, Moment::now());
        (proc, collector)
    }

    /// Each service of a batch and how many samples it has.
    fn services(batch: Batch, period: Period) -> Vec<(String, usize)> {
        let message = otlp::encode(&batch.into_profiles(period));
        let read = otlp::decode(&message, &Limits::default()).unwrap();
        let model = &read.profiles;
        let profiles = model.profiles().iter().map(|profile| {
            let found = model.find_attribute(profile.resource, "service.name");
            let service = match found {
                Some(Value::Text(id)) => model.text(*id).to_owned(),
                _ => String::new(),
            };
            let samples = model.samples(profile);
            (service, samples.map(|sample| sample.observations()).sum())
        });
        profiles.collect()
    }

    #[test]
    fn samples_are_sorted_by_whose_they_are_and_idle_processors_are_nobodys() {
        let polls = vec![
            vec![sample(7, Stop::Root), sample(0, Stop::NoUserStack)],
            vec![sample(7, Stop::ReadFault), sample(2, Stop::NoUserStack)],
        ];
        let (_proc, mut collector) = collector(polls);
        collector.poll(Moment::now()).unwrap();
        collector.poll(Moment::now()).unwrap();
        let (batch, period) = collector.take(Moment::now(), Duration::ZERO);
        assert_eq!(period.sampling_nanos, 50_000_000);
        let expected = [("kernel".to_owned(), 1), ("shop".to_owned(), 2)];
        assert_eq!(services(batch, period), expected);
    }

    #[test]
    fn a_batch_is_due_when_its_time_is_over_and_the_next_one_has_its_own() {
        let (_proc, mut collector) = collector(vec![vec![sample(7, Stop::Root)]]);
        let start = collector.begun;
        let after = |seconds| Moment {
            instant: start.instant + Duration::from_secs(seconds),
            ..start
        };
        assert!(!collector.is_due(after(9)));
        assert!(collector.is_due(after(10)));
        collector.poll(after(10)).unwrap();
        let (batch, period) = collector.take(after(10), Duration::from_secs(5));
        assert_eq!((batch.len(), period.duration_nanos), (1, 10_000_000_000));
        assert!(!collector.is_due(after(14)));
        assert!(collector.is_due(after(15)));
        let (batch, _) = collector.take(after(15), Duration::ZERO);
        assert!(batch.is_empty());
    }

    #[test]
    fn another_rate_is_the_engines_and_the_batchs() {
        let (_proc, mut collector) = collector(Vec::new());
        collector.set_rate(10).unwrap();
        let (_, period) = collector.take(Moment::now(), Duration::ZERO);
        assert_eq!(period.sampling_nanos, 100_000_000);
        assert!(format!("{:?}", collector.engine).contains("rate: 10"));
    }
}
