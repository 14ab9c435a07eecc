//! What records mean, without a kernel that makes them.

use unhex_symbols::address::{FileOffset, ProcessAddress};
use unhex_symbols::segments::Mapping;

use super::*;
use crate::perf_events::{MappedRecord, TaskRecord};
use crate::sample::ThreadId;

fn task(process: u32, parent: u32, thread: u32) -> TaskRecord {
    TaskRecord {
        process: ProcessId(process),
        parent: ProcessId(parent),
        thread: ThreadId(thread),
    }
}

fn mapped(process: ProcessId, name: &[u8]) -> Record<'_> {
    Record::Mapped(MappedRecord {
        process,
        mapping: Mapping {
            start: ProcessAddress(0x1000),
            end: ProcessAddress(0x2000),
            file_offset: FileOffset(0),
        },
        inode: 0,
        device: 0,
        generation: 0,
        name,
    })
}

#[test]
fn threads_begin_and_end_without_changing_their_process() {
    assert_eq!(change(Record::Began(task(7, 7, 8))), None);
    assert_eq!(change(Record::Ended(task(7, 7, 8))), None);
    let forked = Change::Forked {
        parent: ProcessId(7),
        child: ProcessId(9),
    };
    assert_eq!(change(Record::Began(task(9, 7, 9))), Some(forked));
    assert_eq!(
        change(Record::Ended(task(9, 7, 9))),
        Some(Change::Ended(ProcessId(9)))
    );
    assert_eq!(change(Record::Lost(3)), None);
}

#[test]
fn a_process_has_what_its_records_say_one_after_another() {
    // Numbers that no process of Linux has.
    let (shell, child) = (1 << 30, (1 << 30) + 1);
    let records = [
        Record::Executed(ProcessId(shell)),
        mapped(ProcessId(shell), b"//anon"),
        Record::Began(task(child, shell, child)),
        Record::Executed(ProcessId(shell)),
        Record::Ended(task(child, shell, child)),
    ];
    let mut processes = Processes::default();
    let mut seen = Vec::new();
    for (time, record) in records.into_iter().enumerate() {
        let time = u64::try_from(time).unwrap();
        let id = apply(change(record).unwrap(), time, &mut processes);
        let regions = |id| {
            processes
                .get(ProcessId(id))
                .map(|known| known.regions().len())
        };
        seen.push((id.0, regions(shell), regions(child)));
    }
    assert_eq!(
        seen,
        [
            (shell, Some(0), None),
            (shell, Some(1), None),
            (child, Some(1), Some(1)),
            (shell, Some(0), Some(1)),
            (child, Some(0), Some(1)),
        ]
    );
    processes.forget_ended(u64::MAX, |_| {});
    assert!(processes.get(ProcessId(child)).is_none());
}
