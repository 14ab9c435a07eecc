//! What processes do to what is known of them.

use std::sync::Arc;

use unhex_symbols::address::{FileOffset, LinkAddress, ProcessAddress};
use unhex_symbols::segments::{LoadSegment, LoadSegments, Mapping};

use super::*;
fn region(start: u64, end: u64) -> Region {
    let segment = LoadSegment {
        address: 0x40_1000,
        file_offset: 0x1000,
        file_size_bytes: 0x2000,
        memory_size_bytes: 0x2000,
        align: 0x1000,
        executable: true,
    };
    Region {
        mapping: Mapping {
            start: ProcessAddress(start),
            end: ProcessAddress(end),
            file_offset: FileOffset(0x1000),
        },
        binary: Arc::new(Binary {
            segments: LoadSegments(vec![segment]),
            ..Binary::anonymous()
        }),
    }
}

#[test]
fn an_address_finds_the_region_that_has_it() {
    let mut processes = Processes::default();
    let id = ProcessId(7);
    processes.set(id, vec![region(0x9000, 0xa000), region(0x1000, 0x3000)]);
    let process = processes.get(id).unwrap();
    let at = |address| {
        let region = process.region_at(ProcessAddress(address))?;
        region.link_address(ProcessAddress(address))
    };
    assert_eq!(at(0xfff), None);
    assert_eq!(at(0x1000), Some(LinkAddress(0x40_1000)));
    assert_eq!(at(0x2fff), Some(LinkAddress(0x40_2fff)));
    assert_eq!(at(0x3000), None);
    assert_eq!(at(0x9001), Some(LinkAddress(0x40_1001)));
    assert_eq!(
        process.regions()[1].bias(),
        Some(0x9000_u64.wrapping_sub(0x40_1000))
    );
}

#[test]
fn other_mappings_are_another_generation_also_those_of_another_process_of_that_number() {
    let mut processes = Processes::default();
    let id = ProcessId(7);
    processes.set(id, Vec::new());
    let before = processes.get(id).unwrap().generation();
    processes.set(id, vec![region(0x1000, 0x3000)]);
    assert_ne!(processes.get(id).unwrap().generation(), before);
    let first = processes.get(id).unwrap().generation();
    processes.remove(id);
    assert!(processes.is_empty());
    processes.set(id, Vec::new());
    assert_ne!(processes.get(id).unwrap().generation(), first);
}

#[test]
fn the_bias_is_that_of_the_executable_segment_also_where_the_page_begins_with_another_one() {
    // As lld lays them out: the first page of the code is the last of what is read only.
    let segment = |address, file_offset, executable| LoadSegment {
        address,
        file_offset,
        file_size_bytes: 0x1234,
        memory_size_bytes: 0x1234,
        align: 0x1000,
        executable,
    };
    let mut region = region(0x7000_0000, 0x7000_3000);
    region.binary = Arc::new(Binary {
        segments: LoadSegments(vec![
            segment(0x20_0000, 0, false),
            segment(0x20_2234, 0x1234, true),
        ]),
        ..Binary::anonymous()
    });
    let linked = region.link_address(ProcessAddress(0x7000_0300)).unwrap();
    assert_eq!(linked, LinkAddress(0x20_2300));
    assert_eq!(region.bias().unwrap().wrapping_add(linked.0), 0x7000_0300);
    region.binary = Arc::new(Binary::anonymous());
    assert_eq!(region.bias(), None);
}

fn id_of(child: &std::process::Child) -> ProcessId {
    ProcessId(child.id())
}

fn anonymous_at(start: u64, end: u64) -> MappedFile {
    MappedFile {
        mapping: Mapping {
            start: ProcessAddress(start),
            end: ProcessAddress(end),
            file_offset: FileOffset(0),
        },
        inode: 0,
        told: None,
        backing: Backing::Anonymous,
    }
}

fn ranges(processes: &Processes, id: ProcessId) -> Vec<(u64, u64)> {
    let regions = processes.get(id).map(Process::regions).unwrap_or_default();
    let range = |region: &Region| (region.mapping.start.0, region.mapping.end.0);
    regions.iter().map(range).collect()
}

#[test]
fn a_new_mapping_takes_the_place_of_what_was_there() {
    let mut processes = Processes::default();
    let id = ProcessId(7);
    processes.set(
        id,
        vec![
            region(0x1000, 0x5000),
            region(0x6000, 0x7000),
            region(0x8000, 0x9000),
        ],
    );
    processes.map(id, &anonymous_at(0x2000, 0x3000), 1);
    assert_eq!(
        ranges(&processes, id),
        [
            (0x1000, 0x2000),
            (0x2000, 0x3000),
            (0x3000, 0x5000),
            (0x6000, 0x7000),
            (0x8000, 0x9000)
        ]
    );
    let process = processes.get(id).unwrap();
    let offsets: Vec<u64> = process
        .regions()
        .iter()
        .map(|region| region.mapping.file_offset.0)
        .collect();
    assert_eq!(offsets, [0x1000, 0, 0x3000, 0x1000, 0x1000]);
    processes.map(id, &anonymous_at(0x4000, 0x8800), 1);
    assert_eq!(
        ranges(&processes, id),
        [
            (0x1000, 0x2000),
            (0x2000, 0x3000),
            (0x3000, 0x4000),
            (0x4000, 0x8800),
            (0x8800, 0x9000)
        ]
    );
}

#[test]
fn the_same_mapping_once_more_changes_nothing() {
    let mut processes = Processes::default();
    let id = ProcessId(7);
    processes.set(id, Vec::new());
    processes.map(id, &anonymous_at(0x1000, 0x2000), 1);
    let before = processes.get(id).unwrap().generation();
    processes.map(id, &anonymous_at(0x1000, 0x2000), 2);
    assert_eq!(processes.get(id).unwrap().generation(), before);
    processes.map(id, &anonymous_at(0x1000, 0x3000), 3);
    assert_ne!(processes.get(id).unwrap().generation(), before);
}

#[test]
fn a_fork_copies_an_exec_clears_and_an_end_lasts_five_seconds() {
    // Numbers that no process of Linux has.
    let (parent, child) = (ProcessId(1 << 30), ProcessId((1 << 30) + 1));
    let mut processes = Processes::default();
    processes.set(parent, vec![region(0x1000, 0x2000)]);
    processes.fork(parent, child, 10);
    assert_eq!(ranges(&processes, child), [(0x1000, 0x2000)]);
    let forked = processes.get(child).unwrap().incarnation();
    processes.exec(child, 20);
    assert_eq!(ranges(&processes, child), []);
    assert_ne!(processes.get(child).unwrap().incarnation(), forked);
    assert_eq!(ranges(&processes, parent), [(0x1000, 0x2000)]);
    processes.end(child, 30);
    let mut forgotten = Vec::new();
    processes.forget_ended(29 + ENDED_NANOS, |id| forgotten.push(id));
    assert!(forgotten.is_empty() && processes.get(child).is_some());
    processes.forget_ended(30 + ENDED_NANOS, |id| forgotten.push(id));
    assert_eq!(forgotten, [child]);
    assert!(processes.get(child).is_none() && processes.get(parent).is_some());
}

#[test]
fn the_end_of_a_process_does_not_forget_the_next_of_its_number() {
    let (parent, child) = (ProcessId(1 << 30), ProcessId((1 << 30) + 1));
    let mut processes = Processes::default();
    processes.set(parent, vec![region(0x1000, 0x2000)]);
    processes.fork(parent, child, 10);
    processes.end(child, 20);
    processes.fork(parent, child, 30);
    processes.forget_ended(30 + ENDED_NANOS, |id| panic!("{id:?} was forgotten"));
    assert_eq!(ranges(&processes, child), [(0x1000, 0x2000)]);
}

#[test]
fn what_is_older_than_what_was_read_changes_nothing() {
    let own = ProcessId(std::process::id());
    let mut processes = Processes::default();
    processes.scan(100).unwrap();
    let before = ranges(&processes, own);
    assert!(before.len() > 2, "{before:?}");
    processes.exec(own, 99);
    processes.map(own, &anonymous_at(before[0].0, before[0].1), 99);
    processes.fork(ProcessId(1), own, 99);
    processes.end(own, 99);
    processes.forget_ended(u64::MAX, |id| panic!("{id:?} was forgotten"));
    assert_eq!(ranges(&processes, own), before);
    assert_ne!(
        processes.get(own).unwrap().regions()[0].binary.kind,
        BinaryKind::Anonymous
    );
    processes.exec(own, 101);
    assert_eq!(ranges(&processes, own), []);
}

#[test]
fn there_are_never_more_than_the_limits_allow() {
    let limits = Limits {
        processes_max: 8,
        mappings_per_process_max: 2,
    };
    let mut processes = Processes::new(limits);
    for number in 0..100 {
        processes.set(ProcessId(number), Vec::new());
        processes.get(ProcessId(0));
    }
    assert!(processes.len() <= 8, "{}", processes.len());
    assert_eq!(
        processes.forgotten_processes(),
        100 - u64::try_from(processes.len()).unwrap()
    );
    assert!(
        processes.get(ProcessId(0)).is_some(),
        "what is looked at stays"
    );
    assert!(processes.get(ProcessId(99)).is_some(), "the newest stays");
    let id = ProcessId(0);
    for start in [0x1000, 0x3000, 0x5000] {
        processes.map(id, &anonymous_at(start, start + 0x1000), 1);
    }
    assert_eq!(ranges(&processes, id), [(0x1000, 0x2000), (0x3000, 0x4000)]);
    assert_eq!(processes.dropped_mappings(), 1);
    processes.map(id, &anonymous_at(0x3000, 0x6000), 1);
    assert_eq!(ranges(&processes, id), [(0x1000, 0x2000), (0x3000, 0x6000)]);
    processes.set(id, vec![region(1, 2), region(3, 4), region(5, 6)]);
    assert_eq!(
        (ranges(&processes, id).len(), processes.dropped_mappings()),
        (2, 2)
    );
}

#[test]
fn the_own_process_has_its_program_its_libraries_and_the_vdso() {
    let own = ProcessId(std::process::id());
    let mut processes = Processes::default();
    assert!(processes.ensure(own, 1));
    let process = processes.get(own).unwrap();
    let code = ProcessAddress(
        the_own_process_has_its_program_its_libraries_and_the_vdso as *const () as u64,
    );
    let region = process.region_at(code).unwrap();
    let executable = std::env::current_exe().unwrap();
    assert_eq!(region.binary.name, executable.to_str().unwrap());
    let bytes = std::fs::read(&executable).unwrap();
    let identity = unhex_build_id::ElfIdentities::read(&bytes).gnu.unwrap();
    assert_eq!(
        region.binary.identity,
        Some(unhex_build_id::Identity::Gnu(identity))
    );
    assert!(region.link_address(code).is_some());
    let elf = processes.open(own, region).unwrap();
    let sections = elf.unwind_sections();
    assert!(sections.eh_frame.is_some() && sections.eh_frame_hdr.is_some());
    let vdso = process
        .regions()
        .iter()
        .find(|region| region.binary.kind == BinaryKind::Vdso)
        .unwrap();
    assert!(vdso.binary.identity.is_some());
    assert!(
        processes
            .open(own, vdso)
            .unwrap()
            .section(".eh_frame")
            .is_some()
    );
}

#[test]
fn a_binary_is_shared_by_all_that_have_it_mapped() {
    let children = [(); 2].map(|()| {
        std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap()
    });
    let ids = [id_of(&children[0]), id_of(&children[1])];
    let mut processes = Processes::default();
    let libc = |processes: &mut Processes, id| {
        // Until the child has loaded its libraries.
        unhex_testkit::run::poll("libc", std::time::Duration::from_secs(20), || {
            processes.remove(id);
            processes.ensure(id, 1);
            let regions = processes.get(id)?.regions();
            let found = regions
                .iter()
                .find(|region| region.binary.name.ends_with("/libc.so.6"))?;
            Some(Arc::clone(&found.binary))
        })
    };
    let [first, second] = ids.map(|id| libc(&mut processes, id));
    assert!(Arc::ptr_eq(&first, &second));
    for mut child in children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn a_process_that_is_not_there_is_not_looked_for_all_the_time() {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let id = id_of(&child);
    child.wait().unwrap();
    let mut processes = Processes::default();
    assert!(!processes.ensure(id, 1));
    assert_eq!(processes.absent.get(&id), Some(&1));
    assert!(!processes.ensure(id, ABSENT_NANOS));
    assert_eq!(processes.absent.get(&id), Some(&1));
    assert!(!processes.ensure(id, 1 + ABSENT_NANOS));
    assert_eq!(processes.absent.get(&id), Some(&(1 + ABSENT_NANOS)));
}
