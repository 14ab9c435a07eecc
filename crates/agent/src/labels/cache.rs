//! What is known of each process, read when its first sample comes and again from time to time: an SDK publishes its context some
//! seconds after the start, and pods get their labels later than their processes.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::reading::{Evidence, ProcFolder};
use super::{Labels, Surroundings};
use crate::runtimes::Runtime;
use crate::sample::ProcessId;

/// Processes that are remembered: a large host has some thousands. Beyond it those that were not sampled for longest go.
const PROCESSES_MAX: usize = 16_384;
/// How old a first look may become: SDKs publish while the program starts.
const FIRST_LOOK_AGE_MAX: Duration = Duration::from_secs(5);
/// How old one may become when the process has mapped other code since: a runtime, perhaps, or it is another process of that number. Runtimes map
/// code all the time.
const MAPPED_AGE_MAX: Duration = Duration::from_secs(1);
/// How old later ones may become.
const LOOK_AGE_MAX: Duration = Duration::from_mins(1);

/// What a process has mapped, as far as it tells one process from another.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mapped<'a> {
    /// The path of its program, as far as its mappings tell: it counts when the process is gone before anybody could look.
    pub executable: &'a str,
    /// Another number whenever the program is another.
    pub incarnation: u64,
    /// Another number whenever the mappings are others.
    pub generation: u64,
}

/// What samples of a process are sent with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Its attributes.
    pub labels: Labels,
    /// What runs its code, if that is no native code.
    pub runtime: Option<Runtime>,
}

/// What is known of the processes of a host.
#[derive(Debug)]
pub struct LabelCache {
    proc: ProcFolder,
    surroundings: Surroundings,
    processes: HashMap<ProcessId, Entry>,
}

#[derive(Debug)]
struct Entry {
    known: Known,
    incarnation: u64,
    generation: u64,
    read_at: Instant,
    sampled_at: Instant,
    looks: u32,
}

impl LabelCache {
    /// A cache of the processes of a folder.
    pub fn new(proc: ProcFolder, surroundings: Surroundings) -> Self {
        Self {
            proc,
            surroundings,
            processes: HashMap::new(),
        }
    }

    /// What surrounds the processes, to be changed; it counts at the next look at each.
    pub fn surroundings_mut(&mut self) -> &mut Surroundings {
        &mut self.surroundings
    }

    /// What surrounds the processes.
    pub fn surroundings(&self) -> &Surroundings {
        &self.surroundings
    }

    /// What is known of a process at `now`; what it was known for before counts until it is looked at again.
    pub fn known(&mut self, process: ProcessId, now: Instant, seen: Mapped<'_>) -> &Known {
        if !self.processes.contains_key(&process) && self.processes.len() >= PROCESSES_MAX {
            self.make_room();
        }
        let entry = self.processes.entry(process).or_insert_with(|| Entry {
            known: Known::default(),
            incarnation: seen.incarnation,
            generation: seen.generation,
            read_at: now,
            sampled_at: now,
            looks: 0,
        });
        entry.sampled_at = now;
        // It executes another program, or its number belongs to another process.
        if entry.incarnation != seen.incarnation {
            entry.looks = 0;
        }
        let age = now.saturating_duration_since(entry.read_at);
        let age_max = match entry.looks {
            _ if entry.generation != seen.generation => MAPPED_AGE_MAX,
            0 | 1 => FIRST_LOOK_AGE_MAX,
            _ => LOOK_AGE_MAX,
        };
        if entry.looks == 0 || age > age_max {
            let evidence = self.proc.evidence(process);
            let is_settled = evidence.as_ref().is_none_or(Evidence::is_settled);
            // Of a process that is gone what was known remains good for its last samples.
            if evidence.is_some() || entry.looks == 0 {
                let evidence = evidence.unwrap_or_else(|| gone(seen.executable));
                entry.known = Known {
                    labels: Labels::of(&evidence, &self.surroundings),
                    runtime: Runtime::of(&evidence.mapped_files, &evidence.executable),
                };
            }
            entry.incarnation = seen.incarnation;
            entry.generation = seen.generation;
            entry.read_at = now;
            if is_settled {
                entry.looks = entry.looks.saturating_add(1);
            }
        }
        &entry.known
    }

    /// How many processes are remembered.
    pub fn len(&self) -> usize {
        self.processes.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    /// Forgets the half that was not sampled for longest.
    fn make_room(&mut self) {
        let mut times: Vec<Instant> = self.processes.values().map(|one| one.sampled_at).collect();
        times.sort_unstable();
        let Some(middle) = times.get(times.len() / 2).copied() else {
            return;
        };
        self.processes.retain(|_, one| one.sampled_at > middle);
    }
}

fn gone(executable: &str) -> Evidence {
    Evidence {
        executable: executable.to_owned(),
        ..Evidence::default()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::SERVICE_NAME;
    use super::*;

    struct Host {
        root: tempfile::TempDir,
        cache: LabelCache,
        start: Instant,
    }

    impl Host {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            let proc = ProcFolder::new(root.path(), Vec::new());
            Self {
                root,
                cache: LabelCache::new(proc, Surroundings::default()),
                start: Instant::now(),
            }
        }

        fn name(&self, pid: u32, name: &str) {
            let folder = self.root.path().join(pid.to_string());
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("cgroup"), "0::/\n").unwrap();
            fs::write(
                folder.join("environ"),
                format!("OTEL_SERVICE_NAME={name}\0"),
            )
            .unwrap();
        }

        fn service(&mut self, pid: u32, seconds: u64) -> String {
            self.service_of(pid, seconds, ("/opt/mapped", 1, 1))
        }

        fn service_of(&mut self, pid: u32, seconds: u64, of: (&str, u64, u64)) -> String {
            let now = self.start + Duration::from_secs(seconds);
            let (executable, incarnation, generation) = of;
            let seen = Mapped {
                executable,
                incarnation,
                generation,
            };
            let known = self.cache.known(ProcessId(pid), now, seen);
            known
                .labels
                .get(SERVICE_NAME)
                .unwrap_or_default()
                .to_owned()
        }
    }

    #[test]
    fn a_process_is_looked_at_again_soon_and_then_rarely() {
        let mut host = Host::new();
        host.name(7, "a");
        assert_eq!(host.service(7, 0), "a");
        host.name(7, "b");
        assert_eq!(host.service(7, 5), "a");
        assert_eq!(host.service(7, 6), "b");
        host.name(7, "c");
        assert_eq!(host.service(7, 60), "b");
        assert_eq!(host.service(7, 67), "c");
    }

    #[test]
    fn a_process_that_is_gone_keeps_its_name_for_late_samples() {
        let mut host = Host::new();
        host.name(7, "a");
        assert_eq!(host.service(7, 0), "a");
        fs::remove_dir_all(host.root.path().join("7")).unwrap();
        assert_eq!(host.service(7, 600), "a");
        // Its number was given to another process, which nobody could look at.
        assert_eq!(host.service_of(7, 600, ("/opt/other", 2, 2)), "other");
    }

    #[test]
    fn a_process_that_is_just_being_executed_is_looked_at_again_at_its_next_sample() {
        let mut host = Host::new();
        host.name(7, "");
        let folder = host.root.path().join("7");
        std::os::unix::fs::symlink("/opt/program", folder.join("exe")).unwrap();
        assert_eq!(host.service(7, 0), "program");
        host.name(7, "a");
        fs::write(folder.join("cmdline"), "program\0").unwrap();
        assert_eq!(host.service(7, 0), "a");
        host.name(7, "b");
        assert_eq!(host.service(7, 0), "a");
    }

    #[test]
    fn a_process_that_maps_other_code_is_looked_at_again_and_one_of_another_program_at_once() {
        let mut host = Host::new();
        host.name(7, "a");
        let old = ("/opt/old", 1, 1);
        assert_eq!(host.service_of(7, 0, old), "a");
        assert_eq!(host.service_of(7, 6, old), "a");
        host.name(7, "b");
        assert_eq!(host.service_of(7, 7, ("/opt/old", 1, 2)), "a");
        assert_eq!(host.service_of(7, 8, ("/opt/old", 1, 2)), "b");
        host.name(7, "c");
        assert_eq!(host.service_of(7, 8, ("/opt/new", 3, 3)), "c");
    }

    #[test]
    fn those_that_were_not_sampled_for_longest_are_forgotten_first() {
        let mut host = Host::new();
        for pid in 0..PROCESSES_MAX {
            host.service(u32::try_from(pid).unwrap(), pid as u64);
        }
        assert_eq!(host.cache.len(), PROCESSES_MAX);
        host.service(u32::MAX, 1 << 20);
        assert_eq!(host.cache.len(), PROCESSES_MAX / 2);
        assert!(host.cache.processes.contains_key(&ProcessId(16_383)));
        assert!(!host.cache.processes.contains_key(&ProcessId(0)));
    }
}
