//! Names that runtimes write for the code that they made: `/tmp/perf-PID.map`, as perf reads it.
//!
//! The file lies in a folder where everybody may write, so it counts only if it is a plain file of the user that the process runs as, or of
//! the superuser, and only up to a bound.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::within;
use crate::sample::ProcessId;

/// Bytes of one map: large programs of Node.js have some megabytes.
const MAP_BYTES_MAX: u64 = 32 << 20;
/// Names of one map: 200,000 functions are 20 MB in memory.
const NAMES_MAX: usize = 200_000;
/// Bytes of a name, which is cut there: those of Node.js have a path in them.
const NAME_BYTES_MAX: usize = 512;
/// Names of all maps together, some 50 MB of memory; beyond it the maps go that were not asked for longest.
const NAMES_TOTAL_MAX: usize = 500_000;
/// Processes whose maps are kept, those that were not asked for longest out.
const MAPS_MAX: usize = 64;
/// How old what was read may become before the file is looked at again: runtimes append to it all the time.
const AGE_MAX: Duration = Duration::from_secs(10);

/// The names of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PerfMap {
    /// Sorted by start; they do not overlap.
    ranges: Vec<Range>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Range {
    start: u64,
    end: u64,
    name: Box<str>,
}

/// The names of all processes that have some.
#[derive(Debug)]
pub struct PerfMaps {
    proc: PathBuf,
    maps: HashMap<ProcessId, Entry>,
}

#[derive(Debug)]
struct Entry {
    map: PerfMap,
    /// Length and time of the file that was read.
    stamp: Option<(u64, i64, i64)>,
    looked_at: Instant,
    used_at: Instant,
}

impl PerfMap {
    /// The names of a file of lines `START SIZE name`, in hexadecimal digits. Of names for one address the last counts: memory is
    /// used again.
    pub fn of(text: &str) -> Self {
        let mut ranges: Vec<Range> = text.lines().filter_map(range).collect();
        // What was written last counts.
        ranges.drain(..ranges.len().saturating_sub(NAMES_MAX));
        // The sort is stable, so that the last of several stays behind the others.
        ranges.sort_by_key(|range| range.start);
        let mut kept: Vec<Range> = Vec::with_capacity(ranges.len());
        for range in ranges {
            if kept.last().is_some_and(|last| last.start == range.start) {
                kept.pop();
            }
            if let Some(last) = kept.last_mut() {
                last.end = last.end.min(range.start);
            }
            kept.push(range);
        }
        Self { ranges: kept }
    }

    /// The name at an address of the process.
    pub fn name(&self, address: u64) -> Option<&str> {
        let behind = self.ranges.partition_point(|range| range.start <= address);
        let range = self.ranges.get(behind.checked_sub(1)?)?;
        (address < range.end).then_some(&*range.name)
    }
}

fn range(line: &str) -> Option<Range> {
    let mut fields = line.splitn(3, ' ');
    let mut number = || {
        let digits = fields.next()?;
        u64::from_str_radix(digits.strip_prefix("0x").unwrap_or(digits), 16).ok()
    };
    let (start, size) = (number()?, number()?);
    let name = fields.next()?.trim();
    let name = name.get(..name.floor_char_boundary(NAME_BYTES_MAX))?;
    let end = start.checked_add(size)?;
    (size > 0 && !name.is_empty()).then(|| Range {
        start,
        end,
        name: name.into(),
    })
}

impl PerfMaps {
    /// The maps of the processes under a folder, `/proc` but in tests.
    pub fn new(proc: impl Into<PathBuf>) -> Self {
        Self {
            proc: proc.into(),
            maps: HashMap::new(),
        }
    }

    /// The name at an address of a process, if its runtime wrote one.
    pub fn name(&mut self, process: ProcessId, address: u64, now: Instant) -> Option<&str> {
        if !self.maps.contains_key(&process) && self.maps.len() >= MAPS_MAX {
            self.forget_oldest(process);
        }
        let is_new = !self.maps.contains_key(&process);
        let entry = self.maps.entry(process).or_insert_with(|| Entry {
            map: PerfMap::default(),
            stamp: None,
            looked_at: now,
            used_at: now,
        });
        entry.used_at = now;
        if is_new || now.saturating_duration_since(entry.looked_at) > AGE_MAX {
            entry.looked_at = now;
            entry.look(&self.proc.join(process.0.to_string()), process);
            while self.names() > NAMES_TOTAL_MAX && self.maps.len() > 1 {
                self.forget_oldest(process);
            }
        }
        self.maps.get(&process)?.map.name(address)
    }

    /// Names of all maps.
    fn names(&self) -> usize {
        self.maps.values().map(|entry| entry.map.ranges.len()).sum()
    }

    /// Forgets the map that was not asked for longest, but not that of a process.
    fn forget_oldest(&mut self, but: ProcessId) {
        let others = self.maps.iter().filter(|(process, _)| **process != but);
        let oldest = others.min_by_key(|(_, entry)| entry.used_at);
        if let Some(oldest) = oldest.map(|(process, _)| *process) {
            self.maps.remove(&oldest);
        }
    }
}

impl Entry {
    /// Reads the map again if it is another one; `folder` is the process's under `/proc`.
    fn look(&mut self, folder: &Path, process: ProcessId) {
        let Some((file, stamp)) = map_file(folder, process) else {
            // Of a process that is gone what was read remains good for its last samples; another one of that number
            // has no part in it.
            if folder.exists() {
                self.map = PerfMap::default();
                self.stamp = None;
            }
            return;
        };
        if self.stamp == Some(stamp) {
            return;
        }
        let mut bytes = Vec::new();
        if file.take(MAP_BYTES_MAX).read_to_end(&mut bytes).is_ok() {
            self.map = PerfMap::of(&String::from_utf8_lossy(&bytes));
            self.stamp = Some(stamp);
        }
    }
}

/// The map of a process, open, if it is one that can be believed.
fn map_file(folder: &Path, process: ProcessId) -> Option<(File, (u64, i64, i64))> {
    let own = own_pid(folder).unwrap_or(process.0);
    let path = PathBuf::from(format!("/tmp/perf-{own}.map"));
    let file = within::open(folder, &path).ok()?;
    let found = file.metadata().ok()?;
    let owner = fs::metadata(folder).ok()?.uid();
    let is_believed = found.is_file() && (found.uid() == owner || found.uid() == 0);
    is_believed.then_some((file, (found.len(), found.mtime(), found.mtime_nsec())))
}

/// The number that a process has in its own namespace, by which it names its files.
fn own_pid(process: &Path) -> Option<u32> {
    let status = fs::read_to_string(process.join("status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_ascii_whitespace().last()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_found_by_address_and_the_last_of_one_counts() {
        let map = PerfMap::of(
            "2000 10 py::f:/a b.py\n1000 20 old\n1000 10 new\nzz 1 x\n3000 0 empty\n0x4000 8 hex\n",
        );
        for (address, expected) in [
            (0xfff, None),
            (0x1000, Some("new")),
            (0x100f, Some("new")),
            (0x1010, None),
            (0x2005, Some("py::f:/a b.py")),
            (0x3000, None),
            (0x4007, Some("hex")),
        ] {
            assert_eq!(map.name(address), expected, "{address:#x}");
        }
    }

    #[test]
    fn a_range_ends_where_the_next_one_starts() {
        let map = PerfMap::of("1000 100 a\n1010 10 b\n");
        assert_eq!(map.name(0x100f), Some("a"));
        assert_eq!(map.name(0x1010), Some("b"));
        assert_eq!(map.name(0x1020), None);
    }

    proptest! {
        #[test]
        fn any_text_is_a_map(text in "([0-9a-f]{0,17} ?){0,3}.{0,5}\n?([0-9a-f]{1,4} [0-9a-f]{1,4} x\n){0,5}", address: u64) {
            let _any = PerfMap::of(&text).name(address);
        }
    }

    fn host() -> (tempfile::TempDir, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let process = root.path().join("7");
        fs::create_dir_all(process.join("root/tmp")).unwrap();
        fs::write(process.join("status"), "Name:\tx\nNSpid:\t7\t3\n").unwrap();
        let map = process.join("root/tmp/perf-3.map");
        (root, map)
    }

    #[test]
    fn a_map_is_read_under_the_number_of_its_own_namespace_and_again_when_it_grew() {
        let (root, path) = host();
        fs::write(&path, "1000 10 a\n").unwrap();
        let mut maps = PerfMaps::new(root.path());
        let start = Instant::now();
        assert_eq!(maps.name(ProcessId(7), 0x1000, start), Some("a"));
        fs::write(&path, "1000 10 a\n2000 10 b\n").unwrap();
        assert_eq!(maps.name(ProcessId(7), 0x2000, start + AGE_MAX), None);
        let later = start + AGE_MAX + Duration::from_secs(1);
        assert_eq!(maps.name(ProcessId(7), 0x2000, later), Some("b"));
        assert_eq!(maps.name(ProcessId(8), 0x2000, later), None);
        fs::remove_file(&path).unwrap();
        let later = later + AGE_MAX + Duration::from_secs(1);
        assert_eq!(maps.name(ProcessId(7), 0x2000, later), None);
    }

    #[test]
    fn links_and_pipes_are_no_maps() {
        let (root, path) = host();
        let elsewhere = root.path().join("elsewhere");
        fs::write(&elsewhere, "1000 10 a\n").unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        assert_eq!(
            PerfMaps::new(root.path()).name(ProcessId(7), 0x1000, Instant::now()),
            None
        );
        fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        // It would hang here if it waited for a writer.
        assert_eq!(
            PerfMaps::new(root.path()).name(ProcessId(7), 0x1000, Instant::now()),
            None
        );
    }

    #[test]
    fn all_maps_together_have_a_bounded_number_of_names() {
        let root = tempfile::tempdir().unwrap();
        let mut maps = PerfMaps::new(root.path());
        let start = Instant::now();
        let lines: Vec<String> = (1..=NAMES_MAX).map(|at| format!("{at:x} 1 f")).collect();
        let text = lines.join("\n");
        for (process, second) in [(7, 0), (8, 1), (9, 2)] {
            let tmp = root.path().join(process.to_string()).join("root/tmp");
            fs::create_dir_all(&tmp).unwrap();
            fs::write(tmp.join(format!("perf-{process}.map")), &text).unwrap();
            let now = start + Duration::from_secs(second);
            assert_eq!(maps.name(ProcessId(process), 1, now), Some("f"));
        }
        let mut kept: Vec<u32> = maps.maps.keys().map(|process| process.0).collect();
        kept.sort_unstable();
        assert_eq!(kept, [8, 9]);
        // Of a map with too many names those that were written last count.
        let one_more = format!("fffffff 1 last\n1 1 new\n{text}");
        assert_eq!(PerfMap::of(&one_more).name(0xfff_ffff), None);
    }

    #[test]
    fn the_maps_of_a_bounded_number_of_processes_are_kept() {
        let (root, _) = host();
        let mut maps = PerfMaps::new(root.path());
        for pid in 0..200 {
            maps.name(ProcessId(pid), 0, Instant::now());
        }
        assert_eq!(maps.maps.len(), MAPS_MAX);
    }
}
