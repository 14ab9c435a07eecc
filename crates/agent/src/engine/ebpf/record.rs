//! What comes out of the kernel's ring: `struct sample` and `struct copy` of `bpf/unwind.h`.

use unhex_symbols::address::ProcessAddress;

use crate::perf_events::UserRegisters;
use crate::sample::{FrameKind, ProcessId, Sample, Stop, ThreadId, UserFrame};

/// The bit that marks addresses that ran or were interrupted; those of user code don't have it.
const EXACT: u64 = 1 << 63;

/// Where addresses, or registers, begin.
const HEADER_BYTES: usize = 40;

const KIND_COPIED: u8 = 1;
const KIND_COPY: u8 = 2;

/// What the ring has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Record {
    /// A sample. Its period is the time since its processor was looked at before, 0 if it never was.
    Sample {
        sample: Sample,
        /// Whether a copy of its stack came before it.
        has_copy: bool,
    },
    /// The copy of a stack.
    Copy(StackCopy),
}

/// The first pages of a stack, and the registers that it began with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StackCopy {
    pub(super) time_nanos: u64,
    pub(super) processor: u32,
    pub(super) registers: UserRegisters,
    pub(super) stack: Vec<u8>,
    /// Whether there may be more of it.
    pub(super) is_cut: bool,
}

/// A record; `None` for bytes that are none.
pub(super) fn record(bytes: &[u8]) -> Option<Record> {
    let (header, rest) = bytes.split_at_checked(HEADER_BYTES)?;
    let mut fields = Fields(header);
    let time_nanos = fields.u64()?;
    let period_nanos = fields.u64()?;
    let process = ProcessId(fields.u32()?);
    let thread = ThreadId(fields.u32()?);
    let processor = fields.u32()?;
    let kernel_frames = usize::from(fields.u16()?);
    let user_frames = usize::from(fields.u16()?);
    let (stop, kind, is_cut) = (fields.u8()?, fields.u8()?, fields.u8()?);
    if kind == KIND_COPY {
        let mut fields = Fields(rest);
        let (address, stack, frame) = (fields.u64()?, fields.u64()?, fields.u64()?);
        return Some(Record::Copy(StackCopy {
            time_nanos,
            processor,
            registers: UserRegisters {
                is_64_bit: true,
                // As `SampledRegisters::TO_UNWIND` has them.
                values: [frame, stack, address, 0],
            },
            stack: fields.0.to_vec(),
            is_cut: is_cut != 0,
        }));
    }
    let words = rest
        .chunks_exact(8)
        .filter_map(|bytes| bytes.try_into().ok());
    let mut addresses = words.map(u64::from_le_bytes);
    let kernel: Vec<u64> = addresses.by_ref().take(kernel_frames).collect();
    let user: Vec<UserFrame> = addresses.take(user_frames).map(frame).collect();
    let is_whole = kernel.len() == kernel_frames && user.len() == user_frames;
    let sample = Sample {
        time_monotonic_nanos: time_nanos,
        period_nanos,
        process,
        thread,
        processor,
        kernel,
        user,
        stop: *Stop::ALL.get(usize::from(stop))?,
    };
    is_whole.then_some(Record::Sample {
        sample,
        has_copy: kind == KIND_COPIED,
    })
}

fn frame(address: u64) -> UserFrame {
    let kind = if address & EXACT == 0 {
        FrameKind::Return
    } else {
        FrameKind::Exact
    };
    UserFrame {
        address: ProcessAddress(address & !EXACT),
        kind,
    }
}

/// Reads numbers one after the other.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take().map(u8::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(kind: u8) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(7_u64.to_le_bytes());
        bytes.extend(8_u64.to_le_bytes());
        for number in [1_u32, 2, 3] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(1_u16.to_le_bytes());
        bytes.extend(2_u16.to_le_bytes());
        bytes.extend([5, kind, 1, 0, 0, 0, 0, 0]);
        for address in [0xffff_ffff_8100_0000_u64, 0x40_1000 | EXACT, 0x40_2000] {
            bytes.extend(address.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn a_record_is_a_sample() {
        let frame = |address, kind| UserFrame {
            address: ProcessAddress(address),
            kind,
        };
        let expected = Sample {
            time_monotonic_nanos: 7,
            period_nanos: 8,
            process: ProcessId(1),
            thread: ThreadId(2),
            processor: 3,
            kernel: vec![0xffff_ffff_8100_0000],
            user: vec![
                frame(0x40_1000, FrameKind::Exact),
                frame(0x40_2000, FrameKind::Return),
            ],
            stop: Stop::ReadFault,
        };
        for (kind, has_copy) in [(0, false), (1, true)] {
            let sample = expected.clone();
            let expected = Record::Sample { sample, has_copy };
            assert_eq!(record(&bytes(kind)), Some(expected));
        }
    }

    #[test]
    fn a_copy_has_the_registers_before_the_stack() {
        let mut bytes = bytes(2);
        bytes.extend(b"stack");
        let expected = StackCopy {
            time_nanos: 7,
            processor: 3,
            registers: UserRegisters {
                is_64_bit: true,
                values: [0x40_2000, 0x40_1000 | EXACT, 0xffff_ffff_8100_0000, 0],
            },
            stack: b"stack".to_vec(),
            is_cut: true,
        };
        assert_eq!(record(&bytes), Some(Record::Copy(expected)));
    }

    #[test]
    fn a_record_that_is_cut_short_is_none() {
        for kind in [0, 2] {
            let whole = bytes(kind);
            for length in 0..whole.len() {
                assert_eq!(record(&whole[..length]), None, "{length}");
            }
        }
    }
}
