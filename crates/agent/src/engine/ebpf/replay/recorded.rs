//! Snapshots that programs take of themselves: registers, the stack, and what they have mapped.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use object::{Object, ObjectSymbol};
use unhex_symbols::address::{FileOffset, ProcessAddress};
use unhex_symbols::segments::Mapping;
use unhex_testkit::fixture::{Fixture, Program};
use unhex_testkit::run;

use super::{EXACT, Hit, Snapshot};
use crate::engine::ebpf::builder::{Order, Outcome, outcome};
use crate::engine::ebpf::kernel::Way;
use crate::engine::ebpf::mappings::origin;
use crate::engine::ebpf::slot::code;
use crate::processes::{Binary, BinaryFile, BinaryKind, Region};
use crate::sample::Stop;

/// Writes where it is, its stack, and `/proc/self/maps`.
const RECORDER: &str = "
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define KEEP __attribute__((noinline, noclone))
volatile long turns;
static char maps[1 << 16];
static unsigned long length;
static void put(const void *from, unsigned long bytes) {
    while (bytes) { long n = write(1, from, bytes); if (n <= 0) _exit(3); from = (const char *)from + n; bytes -= n; }
}
static void prepare(void) {
    int file = open(\"/proc/self/maps\", O_RDONLY);
    for (long n; (n = read(file, maps + length, sizeof maps - 1 - length)) > 0;) length += n;
    close(file);
}
KEEP long record(void) {
    unsigned long at[5];
    __asm__ volatile(\"lea 0(%%rip), %0\\n\\tmov %%rsp, %1\\n\\tmov %%rbp, %2\" : \"=&r\"(at[0]), \"=&r\"(at[1]), \"=&r\"(at[2]));
    const char *line = strstr(maps, \"[stack]\");
    while (line > maps && line[-1] != '\\n') line--;
    at[3] = at[1];
    at[4] = strtoul(strchr(line, '-') + 1, 0, 16) - at[1];
    put(at, sizeof at);
    put((const void *)at[3], at[4]);
    put(maps, length);
    return turns;
}
";

/// An executable line of `/proc/PID/maps`.
struct Mapped {
    mapping: Mapping,
    path: PathBuf,
}

fn mapped(line: &str) -> Option<Mapped> {
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let (access, offset) = (fields.next()?, fields.next()?);
    let path = fields.nth(2)?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    (access.contains('x') && path.starts_with('/')).then_some(Mapped {
        mapping: Mapping {
            start: ProcessAddress(number(start)?),
            end: ProcessAddress(number(end)?),
            file_offset: FileOffset(number(offset)?),
        },
        path: path.into(),
    })
}

/// A region of a snapshot: where, what for names, and how addresses become linked ones.
struct Recorded {
    snapshot: Snapshot,
    regions: Vec<Region>,
    program: Fixture,
}

fn recorded(text: &str, flags: &[&str]) -> Recorded {
    let program = Program::c(format!("{RECORDER}{text}")).flags(flags).build();
    let said = run::succeed(&mut Command::new(program.path())).stdout;
    let word = |place: usize| u64::from_le_bytes(said[place * 8..][..8].try_into().unwrap());
    let stack_bytes = usize::try_from(word(4)).unwrap();
    let stack = said[40..][..stack_bytes].to_vec();
    let maps = String::from_utf8(said[40 + stack_bytes..].to_vec()).unwrap();
    let mut snapshot = Snapshot {
        address: word(0),
        stack: word(1),
        frame: word(2),
        memory: vec![(word(3), stack)],
        ..Snapshot::default()
    };
    let mut regions = Vec::new();
    for Mapped { mapping, path } in maps.lines().filter_map(mapped) {
        let file = BinaryFile::of_file(File::open(&path).unwrap()).unwrap();
        let binary = Arc::new(Binary {
            name: path.display().to_string(),
            segments: file.segments(),
            kind: BinaryKind::File,
            ..Binary::anonymous()
        });
        let region = Region { mapping, binary };
        let table = add_table(&mut snapshot, &region, file);
        let (start, end) = (mapping.start.0, mapping.end.0);
        snapshot
            .mappings
            .push([start, end, origin(&region).unwrap(), table]);
        let content = run::read(&path);
        let from = usize::try_from(mapping.file_offset.0).unwrap();
        let length = usize::try_from(end - start).unwrap();
        let content = content[from..].iter().copied().take(length).collect();
        snapshot.memory.push((start, content));
        regions.push(region);
    }
    Recorded {
        snapshot,
        regions,
        program,
    }
}

fn add_table(snapshot: &mut Snapshot, region: &Region, file: BinaryFile) -> u64 {
    let order = Order {
        slot: 0,
        token: 0,
        file,
        code: code(&region.binary),
        base: region.binary.segments.image_base().unwrap().0,
    };
    match outcome(&order) {
        Outcome::Table {
            table,
            frame_pointers_in_gaps,
        } => snapshot.add_rows(table.rows(), |root| Way::Rows {
            root,
            frame_pointers_in_gaps,
        }),
        Outcome::Bare => snapshot.add_table(Way::FramePointers),
        Outcome::Refused(reason) => panic!("{reason}"),
    }
}

impl Recorded {
    /// The stack, by names of the program and file names of others.
    fn names(&self) -> (Stop, Vec<String>) {
        let bytes = self.program.bytes();
        let file = object::File::parse(&*bytes).unwrap();
        let functions: BTreeMap<u64, String> = file
            .symbols()
            .filter(|symbol| symbol.kind() == object::SymbolKind::Text)
            .map(|symbol| (symbol.address(), symbol.name().unwrap().to_owned()))
            .collect();
        let own = self.program.path().canonicalize().unwrap();
        let name = |&address: &u64| {
            let at = if address & EXACT == 0 {
                address - 1
            } else {
                address & !EXACT
            };
            let at = ProcessAddress(at);
            let is_of = |region: &&Region| region.mapping.start <= at && at < region.mapping.end;
            let Some(region) = self.regions.iter().find(is_of) else {
                return "[nowhere]".to_owned();
            };
            let path = Path::new(&region.binary.name);
            if path != own {
                let name = path.file_name().unwrap().to_str().unwrap();
                return format!("[{}]", name.split('.').next().unwrap());
            }
            let link = region.link_address(at).unwrap();
            let function = functions.range(..=link.0).next_back();
            function.map_or_else(|| link.to_string(), |(_, name)| name.clone())
        };
        let unwound = self.snapshot.unwound();
        (unwound.stop, unwound.addresses.iter().map(name).collect())
    }
}

#[track_caller]
fn assert_stack(mut recorded: Recorded, inner: &[&str]) {
    let outermost = ["main", "[libc]", "[libc]", "_start"];
    let names: Vec<&str> = ["record"]
        .iter()
        .chain(inner)
        .chain(&outermost)
        .copied()
        .collect();
    for hit in [Hit::User, Hit::Kernel] {
        recorded.snapshot.hit = hit;
        let (stop, found) = recorded.names();
        assert_eq!(found, names, "{hit:?}");
        assert_eq!(stop, Stop::Root);
    }
}

const RECURSION: &str = "
KEEP long down(long depth) { if (depth == 0) turns += record(); else turns += down(depth - 1); return turns; }
int main(void) { prepare(); return (int)(down(100) & 0); }
";

#[test]
fn a_deep_recursion_without_frame_pointers_is_whole() {
    let flags = [
        "-O2",
        "-fomit-frame-pointer",
        "-fno-optimize-sibling-calls",
        "-fno-ipa-cp",
    ];
    assert_stack(recorded(RECURSION, &flags), &["down"; 101]);
}

#[test]
fn frame_pointers_are_followed_where_there_is_nothing_else() {
    let flags = [
        "-O0",
        "-fno-asynchronous-unwind-tables",
        "-fno-unwind-tables",
    ];
    assert_stack(recorded(RECURSION, &flags), &["down"; 101]);
}

#[test]
fn a_large_frame_and_an_aligned_one_are_crossed() {
    let text = "
KEEP long large(long place) { volatile char room[3 << 20]; room[place] = 1; turns += record(); return room[place]; }
KEEP long aligned(long place) {
    volatile char room[256] __attribute__((aligned(128)));
    volatile char more[place + 10];
    room[place] = 1; more[place] = 2;
    turns += large(place + room[place] + more[place]);
    return turns;
}
int main(int count, char **words) { (void)words; prepare(); return (int)(aligned(count) & 0); }
";
    let flags = ["-O2", "-fomit-frame-pointer"];
    assert_stack(recorded(text, &flags), &["large", "aligned"]);
}

#[test]
fn a_signal_handler_is_left_for_what_it_interrupted() {
    let text = "
KEEP void handler(int number) { turns += number; record(); _exit(0); }
KEEP long faulty(volatile long *nothing) { *nothing = 1; return turns; }
int main(int count, char **words) {
    (void)words; prepare(); signal(SIGSEGV, handler);
    return (int)faulty((long *)(long)(count - 1)) + 1;
}
";
    let flags = ["-O2", "-fomit-frame-pointer"];
    assert_stack(recorded(text, &flags), &["handler", "[libc]", "faulty"]);
}
