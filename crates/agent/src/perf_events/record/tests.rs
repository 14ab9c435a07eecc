//! Records as kernels write them, and as they never should.

use proptest::prelude::*;

use super::*;

/// A record of a kind, with its trailer: process 10, thread 11, time 12345, processor 1.
fn record(kind: u32, flags: u16, body: &[u8]) -> Vec<u8> {
    let mut body = body.to_vec();
    body.resize(body.len().next_multiple_of(8), 0);
    let trailer = [words32(&[10, 11]), words(&[12345]), words32(&[1, 0])].concat();
    with_header(kind, flags, &[body, trailer].concat())
}

fn with_header(kind: u32, flags: u16, body: &[u8]) -> Vec<u8> {
    let size = u16::try_from(body.len() + HEADER_BYTES).unwrap();
    [
        &kind.to_ne_bytes()[..],
        &flags.to_ne_bytes(),
        &size.to_ne_bytes(),
        body,
    ]
    .concat()
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn words32(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

const REGISTERS: SampledRegisters = SampledRegisters(0b111 << 6);

fn parsed(bytes: &[u8]) -> Record<'_> {
    let stamped = Stamped::parse(bytes, REGISTERS).unwrap_or_else(|| panic!("{bytes:?}"));
    assert_eq!(stamped.time_nanos, 12345);
    assert_eq!(Stamped::time_of(bytes), Some(12345));
    assert_eq!(size_bytes(bytes), Some(bytes.len()));
    stamped.record
}

fn mmap2(flags: u16, file: &[u8], protection: u32, name: &str) -> Vec<u8> {
    let body = [
        words32(&[20, 21]),
        words(&[0x7000_0000, 0x2000, 0x3000]),
        file.to_vec(),
        words32(&[protection, 2]),
        name.as_bytes().to_vec(),
        vec![0],
    ];
    record(RECORD_MMAP2, flags, &body.concat())
}

#[test]
fn a_mapping_has_its_inode_whatever_others_asked_for() {
    let file = [words32(&[8, 1]), words(&[77, 5])].concat();
    let bytes = mmap2(0, &file, 5, "/usr/lib/a b.so");
    let Record::Mapped(mapped) = parsed(&bytes) else {
        panic!("{bytes:?}");
    };
    assert_eq!(mapped.process, ProcessId(20));
    assert_eq!(mapped.mapping.start, ProcessAddress(0x7000_0000));
    assert_eq!(mapped.mapping.end, ProcessAddress(0x7000_2000));
    assert_eq!(mapped.mapping.file_offset, FileOffset(0x3000));
    assert_eq!((mapped.inode, mapped.name), (77, &b"/usr/lib/a b.so"[..]));
    assert_eq!((mapped.device, mapped.generation), (8 << 32 | 1, 5));
    // The kernel leaves the flag of another's event set, and writes the inode.
    let flagged = mmap2(1 << 14, &file, 5, "/usr/lib/a b.so");
    assert_eq!(parsed(&flagged), parsed(&bytes));
}

#[test]
fn what_is_not_executable_and_names_of_threads_are_of_no_interest() {
    assert_eq!(parsed(&mmap2(0, &[0; 24], 3, "/x")), Record::Other);
    let comm = [words32(&[10, 11]), b"name\0\0\0\0".to_vec()].concat();
    assert_eq!(parsed(&record(RECORD_COMM, 0, &comm)), Record::Other);
    assert_eq!(
        parsed(&record(RECORD_COMM, MISC_COMM_EXEC, &comm)),
        Record::Executed(ProcessId(10))
    );
    assert_eq!(parsed(&record(99, 0, &[])), Record::Other);
}

#[test]
fn beginnings_ends_and_losses() {
    let task = [words32(&[30, 1, 31, 1]), words(&[12345])].concat();
    let expected = TaskRecord {
        process: ProcessId(30),
        parent: ProcessId(1),
        thread: ThreadId(31),
    };
    assert_eq!(
        parsed(&record(RECORD_FORK, 0, &task)),
        Record::Began(expected)
    );
    assert_eq!(
        parsed(&record(RECORD_EXIT, 0, &task)),
        Record::Ended(expected)
    );
    assert_eq!(
        parsed(&record(RECORD_LOST, 0, &words(&[5, 17]))),
        Record::Lost(17)
    );
}

fn sampled(chain: &[u64], rest: &[u8]) -> Vec<u8> {
    let count = u64::try_from(chain.len()).unwrap();
    let body = [
        words(&[0x1000]),
        words32(&[40, 41]),
        words(&[12345]),
        words32(&[3, 0]),
        words(&[count]),
        words(chain),
        rest.to_vec(),
    ];
    with_header(RECORD_SAMPLE, 0, &body.concat())
}

#[test]
fn a_sample_has_the_kernel_registers_and_what_was_copied_of_the_stack() {
    let marks = [
        0u64.wrapping_sub(128),
        0xffff_ffff_8100_0001,
        0xffff_ffff_8100_0002,
    ];
    let rest = [
        words(&[2, 6, 7, 8]),
        words(&[16]),
        vec![9; 16],
        words(&[12]),
    ]
    .concat();
    let bytes = sampled(&marks, &rest);
    let Record::Sampled(sample) = parsed(&bytes) else {
        panic!("{bytes:?}");
    };
    assert_eq!(
        (sample.process, sample.thread, sample.processor),
        (ProcessId(40), ThreadId(41), 3)
    );
    assert_eq!(
        sample.kernel,
        [0xffff_ffff_8100_0001, 0xffff_ffff_8100_0002]
    );
    let registers = sample.registers.unwrap();
    assert!(registers.is_64_bit);
    assert_eq!(registers.values, [6, 7, 8, 0]);
    assert_eq!((sample.stack, sample.stack_room_bytes), (&[9; 12][..], 16));
}

#[test]
fn a_thread_of_the_kernel_has_no_registers_and_no_stack() {
    let bytes = sampled(&[], &words(&[0, 0]));
    let Record::Sampled(sample) = parsed(&bytes) else {
        panic!("{bytes:?}");
    };
    assert_eq!(
        (sample.registers, sample.stack, sample.kernel.len()),
        (None, &[][..], 0)
    );
}

#[test]
fn lengths_that_lie_are_not_believed() {
    let registers = words(&[2, 6, 7, 8]);
    let too_long = sampled(
        &[],
        &[registers.clone(), words(&[u64::MAX]), vec![9; 16]].concat(),
    );
    let Record::Sampled(sample) = parsed(&too_long) else {
        panic!("{too_long:?}");
    };
    assert!(sample.stack.is_empty(), "{sample:?}");
    let more_filled = sampled(
        &[],
        &[registers, words(&[16]), vec![9; 16], words(&[u64::MAX])].concat(),
    );
    let Record::Sampled(sample) = parsed(&more_filled) else {
        panic!("{more_filled:?}");
    };
    assert_eq!(sample.stack, [9; 16]);
    let mut chain = sampled(&[1, 2], &[]);
    chain[40..48].copy_from_slice(&(u64::MAX / 8 + 1).to_ne_bytes());
    assert_eq!(Stamped::parse(&chain, REGISTERS), None);
    for size in [0_u16, 4, 12] {
        assert_eq!(
            size_bytes(&[&[0; 6][..], &size.to_ne_bytes()].concat()),
            None
        );
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(
        kind in 0_u32..12,
        flags: u16,
        body in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let bytes = with_header(kind, flags, &body);
        let _ = Stamped::parse(&bytes, REGISTERS);
        let _ = Stamped::parse(&body, REGISTERS);
    }
}

#[test]
fn a_record_that_lacks_a_word_is_none_or_another_one() {
    let whole = mmap2(0, &[1; 24], 5, "/usr/lib/libc.so.6");
    let full = Stamped::parse(&whole, REGISTERS);
    for length in 0..=whole.len() - 8 {
        assert_ne!(
            Stamped::parse(&whole[..length], REGISTERS),
            full,
            "{length}"
        );
    }
}
