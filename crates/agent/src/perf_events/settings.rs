//! What an event records, in words, and as the kernel wants to hear it.
//!
//! The numbers are those of `linux/perf_event.h`, which never change.

/// What makes an event count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Nothing: for records of what processes do, which come with any event.
    Dummy,
    /// Time that a processor works, in nanoseconds; idle time is left out.
    CpuClock,
}

/// Registers of the process that a sample has, as bits of `asm/perf_regs.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampledRegisters(pub u64);

impl SampledRegisters {
    /// Frame pointer, stack pointer and instruction pointer, in this order.
    #[cfg(target_arch = "x86_64")]
    pub const TO_UNWIND: Self = Self(1 << 6 | 1 << 7 | 1 << 8);
    /// Frame pointer (x29), link register, stack pointer and program counter, in this order.
    #[cfg(target_arch = "aarch64")]
    pub const TO_UNWIND: Self = Self(1 << 29 | 1 << 30 | 1 << 31 | 1 << 32);
    /// None: engines know no other architecture.
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    pub const TO_UNWIND: Self = Self(0);
}

/// What an event of one processor records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    source: Source,
    samples: Option<Samples>,
    changes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Samples {
    period_nanos: u64,
    registers: SampledRegisters,
    stack_bytes: u32,
}

/// `struct perf_event_attr` as of Linux 4.8, 112 bytes; later kernels take it for their own with zeros at the end.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clockid: i32,
    sample_regs_intr: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved: u16,
}

/// Bytes of records of changes after which who waits is woken: the beginning of a program makes a thousand.
const CHANGES_WAKEUP_BYTES: u32 = 512;

const ATTRIBUTES_BYTES: u32 = 112;
const _: () = assert!(size_of::<Attributes>() == 112);

const TYPE_SOFTWARE: u32 = 1;
const COUNT_CPU_CLOCK: u64 = 0;
const COUNT_DUMMY: u64 = 9;

const SAMPLE_IP: u64 = 1 << 0;
const SAMPLE_TID: u64 = 1 << 1;
const SAMPLE_TIME: u64 = 1 << 2;
const SAMPLE_CALLCHAIN: u64 = 1 << 5;
const SAMPLE_CPU: u64 = 1 << 7;
const SAMPLE_REGS_USER: u64 = 1 << 12;
const SAMPLE_STACK_USER: u64 = 1 << 13;

const FLAG_DISABLED: u64 = 1 << 0;
const FLAG_EXCLUDE_IDLE: u64 = 1 << 7;
const FLAG_MMAP: u64 = 1 << 8;
const FLAG_COMM: u64 = 1 << 9;
const FLAG_TASK: u64 = 1 << 13;
const FLAG_WATERMARK: u64 = 1 << 14;
const FLAG_SAMPLE_ID_ALL: u64 = 1 << 18;
const FLAG_EXCLUDE_CALLCHAIN_USER: u64 = 1 << 22;
const FLAG_MMAP2: u64 = 1 << 23;
const FLAG_COMM_EXEC: u64 = 1 << 24;
const FLAG_USE_CLOCKID: u64 = 1 << 25;

impl Settings {
    /// Records of what processes do: executable mappings, programs, beginnings and ends.
    ///
    /// Not with build IDs, which the kernel would say from 5.12 on: it then leaves the flag for them set in the records of others who asked for
    /// none (seen on 6.18), and the perf of Debian 12 takes an inode for a build ID of any length and ends with a smashed stack.
    pub fn changes() -> Self {
        Self {
            source: Source::Dummy,
            samples: None,
            changes: true,
        }
    }

    /// A sample of whatever runs, once in so many nanoseconds of work, with the kernel's stack, the registers of the
    /// process and a copy of its stack; 0 bytes for none.
    pub fn samples(period_nanos: u64, registers: SampledRegisters, stack_bytes: u32) -> Self {
        Self {
            source: Source::CpuClock,
            samples: Some(Samples {
                period_nanos,
                registers,
                stack_bytes,
            }),
            changes: false,
        }
    }

    pub(super) fn attributes(self) -> Attributes {
        let mut attributes = Attributes {
            kind: TYPE_SOFTWARE,
            size: ATTRIBUTES_BYTES,
            config: match self.source {
                Source::Dummy => COUNT_DUMMY,
                Source::CpuClock => COUNT_CPU_CLOCK,
            },
            sample_type: SAMPLE_TID | SAMPLE_TIME | SAMPLE_CPU,
            flags: FLAG_DISABLED | FLAG_SAMPLE_ID_ALL | FLAG_USE_CLOCKID | FLAG_EXCLUDE_IDLE,
            clockid: libc::CLOCK_MONOTONIC,
            // Nobody waits for a ring of samples; one wakeup in a lifetime is the fewest that can be said.
            wakeup: u32::MAX,
            ..Attributes::default()
        };
        if self.changes {
            attributes.flags |= FLAG_MMAP | FLAG_MMAP2 | FLAG_COMM | FLAG_COMM_EXEC | FLAG_TASK;
            // Who waits for it ([`super::PerProcessor::wait`]) is woken, not for each record.
            attributes.flags |= FLAG_WATERMARK;
            attributes.wakeup = CHANGES_WAKEUP_BYTES;
        }
        if let Some(samples) = self.samples {
            attributes.sample_period = samples.period_nanos;
            attributes.sample_type |= SAMPLE_IP | SAMPLE_CALLCHAIN;
            attributes.flags |= FLAG_EXCLUDE_CALLCHAIN_USER;
            if samples.registers.0 != 0 {
                attributes.sample_type |= SAMPLE_REGS_USER;
                attributes.sample_regs_user = samples.registers.0;
            }
            if samples.stack_bytes != 0 {
                attributes.sample_type |= SAMPLE_STACK_USER;
                attributes.sample_stack_user = samples.stack_bytes;
            }
        }
        attributes
    }
}
