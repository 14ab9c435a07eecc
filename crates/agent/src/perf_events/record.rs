//! One record of a ring, taken apart. The layouts are those of `linux/perf_event.h`, for the settings that
//! [`super::Settings`] has; no length in them is believed.

use unhex_symbols::address::{FileOffset, ProcessAddress};
use unhex_symbols::segments::Mapping;

use super::settings::SampledRegisters;
use crate::sample::{ProcessId, ThreadId};

/// Kind, flags and size, which begin each record.
pub(super) const HEADER_BYTES: usize = 8;

/// What ends each record other than samples: process and thread, time, processor.
const TRAILER_BYTES: usize = 24;

/// Addresses of a kernel stack that are taken: ten times what kernels record by default.
const KERNEL_FRAMES_MAX: usize = 1270;

const RECORD_LOST: u32 = 2;
const RECORD_COMM: u32 = 3;
const RECORD_EXIT: u32 = 4;
const RECORD_FORK: u32 = 7;
const RECORD_SAMPLE: u32 = 9;
const RECORD_MMAP2: u32 = 10;

const MISC_COMM_EXEC: u16 = 1 << 13;
const PROTECTION_EXECUTE: u32 = 4;

/// Addresses from here on are marks within a call chain (`PERF_CONTEXT_MAX`).
const CONTEXT_MARKS: u64 = 0u64.wrapping_sub(4095);

/// A record and its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamped<'ring> {
    /// When, in nanoseconds of `CLOCK_MONOTONIC`.
    pub time_nanos: u64,
    /// What.
    pub record: Record<'ring>,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Record<'ring> {
    /// A process has a new executable mapping.
    Mapped(MappedRecord<'ring>),
    /// A process runs another program.
    Executed(ProcessId),
    /// A process or thread began.
    Began(TaskRecord),
    /// A process or thread ended.
    Ended(TaskRecord),
    /// So many records did not fit into the ring.
    Lost(u64),
    /// A processor was looked at.
    Sampled(SampleRecord<'ring>),
    /// What is of no interest: other names of threads, mappings that are not executable.
    Other,
}

/// A new mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedRecord<'ring> {
    /// Whose.
    pub process: ProcessId,
    /// Where, and which part of the file.
    pub mapping: Mapping,
    /// The inode of the file; 0 where there is none.
    pub inode: u64,
    /// What tells the inode from others with its number: its device, and its generation there.
    pub device: u64,
    /// As above.
    pub generation: u64,
    /// The path, or a name like `[vdso]` or `//anon`.
    pub name: &'ring [u8],
}

/// A beginning or an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskRecord {
    /// Whose.
    pub process: ProcessId,
    /// The process that began it.
    pub parent: ProcessId,
    /// Which thread.
    pub thread: ThreadId,
}

/// A look at a processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleRecord<'ring> {
    /// Who ran.
    pub process: ProcessId,
    /// Its thread.
    pub thread: ThreadId,
    /// Where.
    pub processor: u32,
    /// Addresses of the kernel, innermost first; empty when it hit user code.
    pub kernel: Vec<u64>,
    /// Registers of the process; `None` for a thread of the kernel.
    pub registers: Option<UserRegisters>,
    /// A copy of the stack from the stack pointer on.
    pub stack: &'ring [u8],
    /// How long the copy could have been.
    pub stack_room_bytes: usize,
}

/// Registers of a process, in the order of their bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserRegisters {
    /// Whether the process is one of 64 bits.
    pub is_64_bit: bool,
    /// As many as were asked for; zeros behind.
    pub values: [u64; 4],
}

/// Where in a record its time stands, by its header; `None` if it is too short to have one.
pub(super) fn time_offset(header: &[u8]) -> Option<usize> {
    let size = size_bytes(header)?;
    let offset = match Fields(header).u32()? {
        RECORD_SAMPLE => HEADER_BYTES.checked_add(16)?,
        _ => size.checked_sub(16)?,
    };
    let after_header = offset >= HEADER_BYTES.checked_add(8)?;
    (after_header && offset.checked_add(8)? <= size).then_some(offset)
}

/// The size of a record by its header; `None` if no record has such a header.
pub(super) fn size_bytes(header: &[u8]) -> Option<usize> {
    let size = usize::from(u16::from_ne_bytes(header.get(6..8)?.try_into().ok()?));
    (size >= HEADER_BYTES && size.is_multiple_of(8)).then_some(size)
}

impl<'ring> Stamped<'ring> {
    /// When a record was made, without the rest of it.
    pub fn time_of(bytes: &[u8]) -> Option<u64> {
        Fields(bytes.get(time_offset(bytes)?..)?).u64()
    }

    /// A whole record with its header; `None` if it is shorter than its kind has to be. `registers` are those that
    /// samples were asked to have.
    pub fn parse(bytes: &'ring [u8], registers: SampledRegisters) -> Option<Self> {
        let time_nanos = Self::time_of(bytes)?;
        let mut fields = Fields(bytes);
        let (kind, flags) = (fields.u32()?, fields.u16()?);
        let record = if kind == RECORD_SAMPLE {
            Record::Sampled(sample(Fields(bytes.get(HEADER_BYTES..)?), registers)?)
        } else {
            let end = bytes.len().checked_sub(TRAILER_BYTES)?;
            let body = Fields(bytes.get(HEADER_BYTES..end)?);
            match kind {
                RECORD_MMAP2 => mapped(body)?,
                RECORD_COMM if flags & MISC_COMM_EXEC != 0 => executed(body)?,
                RECORD_FORK => Record::Began(task(body)?),
                RECORD_EXIT => Record::Ended(task(body)?),
                RECORD_LOST => lost(body)?,
                _ => Record::Other,
            }
        };
        Some(Self { time_nanos, record })
    }
}

/// The flag for a build ID instead of an inode is not looked at: the kernel leaves it set when another's event asked for build IDs, and this one did not.
fn mapped(mut fields: Fields<'_>) -> Option<Record<'_>> {
    let (process, _thread) = (fields.u32()?, fields.u32()?);
    let (start, length, offset) = (fields.u64()?, fields.u64()?, fields.u64()?);
    let file = fields.bytes(24)?;
    let protection = fields.u32()?;
    let _flags = fields.u32()?;
    if protection & PROTECTION_EXECUTE == 0 {
        return Some(Record::Other);
    }
    let mut file = Fields(file);
    let (major, minor) = (file.u32()?, file.u32()?);
    let (inode, generation) = (file.u64()?, file.u64()?);
    let name = fields.0.split(|&byte| byte == 0).next();
    Some(Record::Mapped(MappedRecord {
        process: ProcessId(process),
        mapping: Mapping {
            start: ProcessAddress(start),
            end: ProcessAddress(start.checked_add(length)?),
            file_offset: FileOffset(offset),
        },
        inode,
        device: u64::from(major) << 32 | u64::from(minor),
        generation,
        name: name.unwrap_or_default(),
    }))
}

fn executed(mut fields: Fields<'_>) -> Option<Record<'_>> {
    Some(Record::Executed(ProcessId(fields.u32()?)))
}

fn task(mut fields: Fields<'_>) -> Option<TaskRecord> {
    let (process, parent, thread) = (fields.u32()?, fields.u32()?, fields.u32()?);
    Some(TaskRecord {
        process: ProcessId(process),
        parent: ProcessId(parent),
        thread: ThreadId(thread),
    })
}

fn lost(mut fields: Fields<'_>) -> Option<Record<'_>> {
    let _event = fields.u64()?;
    Some(Record::Lost(fields.u64()?))
}

fn sample(mut fields: Fields<'_>, registers: SampledRegisters) -> Option<SampleRecord<'_>> {
    let _address = fields.u64()?;
    let (process, thread) = (fields.u32()?, fields.u32()?);
    let _time = fields.u64()?;
    let (processor, _) = (fields.u32()?, fields.u32()?);
    let count = usize::try_from(fields.u64()?).ok()?;
    let mut chain = Fields(fields.bytes(count.checked_mul(8)?)?);
    let addresses = std::iter::from_fn(|| chain.u64());
    let kernel = addresses.filter(|&address| address < CONTEXT_MARKS);
    let kernel = kernel.take(KERNEL_FRAMES_MAX).collect();
    let registers = match registers.0 {
        0 => None,
        mask => user_registers(&mut fields, mask),
    };
    let (stack, stack_room_bytes) = match registers {
        Some(_) => copied_stack(&mut fields).unwrap_or_default(),
        None => (&[][..], 0),
    };
    Some(SampleRecord {
        process: ProcessId(process),
        thread: ThreadId(thread),
        processor,
        kernel,
        registers,
        stack,
        stack_room_bytes,
    })
}

/// `None` for a thread of the kernel, which has none.
fn user_registers(fields: &mut Fields<'_>, mask: u64) -> Option<UserRegisters> {
    // PERF_SAMPLE_REGS_ABI_NONE, _32 and _64.
    let abi = fields.u64().filter(|&abi| abi != 0)?;
    let mut values = [0; 4];
    for place in 0..mask.count_ones() {
        let value = fields.u64()?;
        if let Some(slot) = usize::try_from(place)
            .ok()
            .and_then(|place| values.get_mut(place))
        {
            *slot = value;
        }
    }
    let is_64_bit = abi == 2;
    Some(UserRegisters { is_64_bit, values })
}

/// The room for the copy has the size that was asked for; how much of it was filled stands behind.
fn copied_stack<'ring>(fields: &mut Fields<'ring>) -> Option<(&'ring [u8], usize)> {
    let room = usize::try_from(fields.u64()?).ok()?;
    if room == 0 {
        return None;
    }
    let copy = fields.bytes(room)?;
    let filled = usize::try_from(fields.u64()?).ok()?;
    Some((copy.get(..filled.min(room))?, room))
}

/// Numbers one after another, in the order of bytes that this machine has: the kernel writes them for us.
struct Fields<'ring>(&'ring [u8]);

impl<'ring> Fields<'ring> {
    fn bytes(&mut self, count: usize) -> Option<&'ring [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_ne_bytes(self.bytes(2)?.try_into().ok()?))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_ne_bytes(self.bytes(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_ne_bytes(self.bytes(8)?.try_into().ok()?))
    }
}

#[cfg(test)]
mod tests;
