//! What comes out of the kernel's ring: `struct sample` of `bpf/unwind.h`, as a [`Sample`].

use unhex_symbols::address::ProcessAddress;

use crate::sample::{FrameKind, ProcessId, Sample, Stop, ThreadId, UserFrame};

/// The bit that marks addresses that ran or were interrupted; those of user code don't have it.
const EXACT: u64 = 1 << 63;

/// Where the addresses begin.
const HEADER_BYTES: usize = 40;

/// A record of the ring as a sample; `None` for bytes that are none. Its period is the time since its processor was
/// looked at before, 0 if it never was.
pub(super) fn sample(record: &[u8]) -> Option<Sample> {
    let (header, rest) = record.split_at_checked(HEADER_BYTES)?;
    let mut fields = Fields(header);
    let time_monotonic_nanos = fields.u64()?;
    let period_nanos = fields.u64()?;
    let process = ProcessId(fields.u32()?);
    let thread = ThreadId(fields.u32()?);
    let processor = fields.u32()?;
    let kernel_frames = usize::from(fields.u16()?);
    let user_frames = usize::from(fields.u16()?);
    let stop = *Stop::ALL.get(usize::from(fields.u8()?))?;
    let mut addresses = rest
        .chunks_exact(8)
        .filter_map(|bytes| bytes.try_into().ok())
        .map(u64::from_le_bytes);
    let kernel: Vec<u64> = addresses.by_ref().take(kernel_frames).collect();
    let user: Vec<UserFrame> = addresses.take(user_frames).map(frame).collect();
    let is_whole = kernel.len() == kernel_frames && user.len() == user_frames;
    is_whole.then_some(Sample {
        time_monotonic_nanos,
        period_nanos,
        process,
        thread,
        processor,
        kernel,
        user,
        stop,
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

    fn record() -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(7_u64.to_le_bytes());
        bytes.extend(8_u64.to_le_bytes());
        for number in [1_u32, 2, 3] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(1_u16.to_le_bytes());
        bytes.extend(2_u16.to_le_bytes());
        bytes.extend([5, 0, 0, 0, 0, 0, 0, 0]);
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
        assert_eq!(sample(&record()), Some(expected));
    }

    #[test]
    fn a_record_that_is_cut_short_is_none() {
        let whole = record();
        for length in 0..whole.len() {
            assert_eq!(sample(&whole[..length]), None, "{length}");
        }
    }
}
