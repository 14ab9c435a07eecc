//! The memory that the kernel shares with us for the records of one processor.
//!
//! The kernel writes records between its head and our tail, round and round, and leaves those out that do not fit;
//! what lies between tail and head is ours until we move the tail.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use memmap2::{MmapOptions, MmapRaw};

use super::event::Event;
use super::processors::online_processors;
use super::record;
use super::settings::Settings;

/// Where the head lies in the first page (`data_head` of `struct perf_event_mmap_page`).
const HEAD_OFFSET: usize = 1024;
/// Where the tail lies (`data_tail`).
const TAIL_OFFSET: usize = 1032;

/// Fewest bytes that a ring is worth having with: a sample has up to 64 KiB.
const RING_BYTES_MIN: usize = 128 << 10;

/// A ring of records of one event.
#[derive(Debug)]
pub struct Ring {
    memory: MmapRaw,
    page_bytes: usize,
    data_bytes: usize,
    /// Up to where records are there.
    head: u64,
    /// From where on they were not looked at.
    next: u64,
    /// The record that is looked at, if it goes around the end.
    joined: Vec<u8>,
}

impl Ring {
    /// A ring for an event, of so many bytes, rounded up to a power of two. Where the kernel lets nobody lock so much
    /// memory, of fewer.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn map(event: &Event, bytes: usize) -> io::Result<Self> {
        let page_bytes = rustix::param::page_size();
        let mut data_bytes = bytes.max(RING_BYTES_MIN).next_power_of_two();
        loop {
            let length = page_bytes.saturating_add(data_bytes);
            let mapped = MmapOptions::new()
                .len(length)
                .map_raw(event.as_fd().as_raw_fd());
            match mapped {
                Ok(memory) => {
                    return Ok(Self {
                        memory,
                        page_bytes,
                        data_bytes,
                        head: 0,
                        next: 0,
                        joined: Vec::new(),
                    });
                }
                Err(error)
                    if error.raw_os_error() == Some(libc::EPERM) && data_bytes > RING_BYTES_MIN =>
                {
                    data_bytes /= 2;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Bytes of memory that it takes.
    pub fn size_bytes(&self) -> usize {
        self.memory.len()
    }

    /// Looks how far the kernel has come.
    pub fn update(&mut self) {
        self.head = self.control(HEAD_OFFSET).load(Ordering::Acquire);
    }

    /// When the next record of those that were there at the last update was made, in nanoseconds of `CLOCK_MONOTONIC`;
    /// 0 for one that does not say.
    pub fn next_time(&self) -> Option<u64> {
        if self.head == self.next {
            return None;
        }
        let header = self.data(self.place(self.next), record::HEADER_BYTES);
        let offset = record::time_offset(header).and_then(|offset| u64::try_from(offset).ok());
        // Both records and times are aligned to 8 bytes: none goes around the end.
        let time = offset.map(|offset| self.data(self.place(self.next.wrapping_add(offset)), 8));
        Some(
            time.and_then(|time| time.try_into().ok())
                .map_or(0, u64::from_ne_bytes),
        )
    }

    /// The next record of those that were there at the last update, whole.
    pub fn peek(&mut self) -> Option<&[u8]> {
        let there = usize::try_from(self.head.wrapping_sub(self.next)).ok()?;
        if there == 0 {
            return None;
        }
        let at = self.place(self.next);
        // Records are multiples of 8 bytes, so that a header never goes around the end.
        let size = record::size_bytes(self.data(at, record::HEADER_BYTES));
        let Some(size) = size.filter(|&size| size <= there) else {
            // Nothing that is known of it helps to find the next one.
            self.next = self.head;
            return None;
        };
        let first = size.min(self.data_bytes.saturating_sub(at));
        if first == size {
            return Some(self.data(at, size));
        }
        let mut joined = std::mem::take(&mut self.joined);
        joined.clear();
        joined.extend_from_slice(self.data(at, first));
        joined.extend_from_slice(self.data(0, size.saturating_sub(first)));
        self.joined = joined;
        Some(&self.joined)
    }

    /// Goes on behind a record of that size.
    pub fn skip(&mut self, size_bytes: usize) {
        let size = u64::try_from(size_bytes).unwrap_or(u64::MAX);
        self.next = self
            .next
            .wrapping_add(size.min(self.head.wrapping_sub(self.next)));
    }

    /// Gives the room of all that was passed back to the kernel.
    pub fn release(&mut self) {
        self.control(TAIL_OFFSET)
            .store(self.next, Ordering::Release);
    }

    fn place(&self, position: u64) -> usize {
        let size = u64::try_from(self.data_bytes).unwrap_or(u64::MAX);
        usize::try_from(position % size.max(1)).unwrap_or(0)
    }

    fn control(&self, offset: usize) -> &AtomicU64 {
        debug_assert!(offset == HEAD_OFFSET || offset == TAIL_OFFSET, "{offset}");
        #[expect(unsafe_code, reason = "the kernel writes to this memory at any time")]
        // SAFETY: the first page of the mapping, which lives as long as `self`, has a u64 there, aligned to 8, and both
        // sides access it by atomic instructions only.
        unsafe {
            AtomicU64::from_ptr(self.memory.as_mut_ptr().add(offset).cast())
        }
    }

    /// Bytes of the data; as many as there are before its end.
    fn data(&self, offset: usize, length: usize) -> &[u8] {
        let offset = offset.min(self.data_bytes);
        let length = length.min(self.data_bytes.saturating_sub(offset));
        #[expect(unsafe_code, reason = "the kernel has written this memory")]
        // SAFETY: offset and length lie within the data, which follows the first page within the mapping. Callers ask for
        // what lies between `next` and `head`: the kernel writes there again only after the tail was moved beyond it,
        // which takes `&mut self` and so ends this borrow.
        unsafe {
            std::slice::from_raw_parts(self.memory.as_ptr().add(self.page_bytes + offset), length)
        }
    }
}

/// An event and its ring on each processor.
#[derive(Debug)]
pub struct PerProcessor {
    settings: Settings,
    ring_bytes: usize,
    rings: Vec<(u32, Event, Ring)>,
}

impl PerProcessor {
    /// Opens an event with a ring on each processor that runs now; they do not count yet.
    ///
    /// # Errors
    /// If the kernel refuses, other than that a processor was switched off just now.
    pub fn open(settings: Settings, ring_bytes: usize) -> io::Result<Self> {
        let mut opened = Self {
            settings,
            ring_bytes,
            rings: Vec::new(),
        };
        opened.open_missing(&online_processors()?)?;
        Ok(opened)
    }

    /// Follows processors that were switched on or off since: opens and enables what is missing, closes the rest.
    ///
    /// # Errors
    /// As [`PerProcessor::open`].
    pub fn follow_processors(&mut self) -> io::Result<()> {
        let online = online_processors()?;
        self.rings
            .retain(|(processor, ..)| online.contains(processor));
        let before = self.rings.len();
        self.open_missing(&online)?;
        let added = self.rings.iter().skip(before);
        added
            .into_iter()
            .try_for_each(|(_, event, _)| event.enable())
    }

    fn open_missing(&mut self, online: &[u32]) -> io::Result<()> {
        for &processor in online {
            if self.rings.iter().any(|&(known, ..)| known == processor) {
                continue;
            }
            let event = match Event::open(self.settings, processor) {
                Ok(event) => event,
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => continue,
                Err(error) => return Err(error),
            };
            let ring = Ring::map(&event, self.ring_bytes)?;
            self.rings.push((processor, event, ring));
        }
        Ok(())
    }

    /// The events.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.rings.iter().map(|(_, event, _)| event)
    }

    /// The rings.
    pub fn rings(&mut self) -> impl Iterator<Item = &mut Ring> {
        self.rings.iter_mut().map(|(_, _, ring)| ring)
    }

    /// The ring whose next record is the oldest of all, if it is not newer than that, and when it was made.
    pub fn earliest(&mut self, until_nanos: u64) -> Option<(u64, &mut Ring)> {
        let rings = self.rings.iter_mut();
        let next = rings.filter_map(|(_, _, ring)| Some((ring.next_time()?, ring)));
        next.min_by_key(|&(time, _)| time)
            .filter(|&(time, _)| time <= until_nanos)
    }

    /// Waits until the kernel says that there is more in a ring, but no longer than that. Whether it said so.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn wait(&self, at_most: Duration) -> io::Result<bool> {
        let events = self.rings.iter().map(|(_, event, _)| libc::pollfd {
            fd: event.as_fd().as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        });
        let mut events: Vec<libc::pollfd> = events.collect();
        let count = libc::nfds_t::try_from(events.len()).map_err(io::Error::other)?;
        let millis = libc::c_int::try_from(at_most.as_millis()).unwrap_or(libc::c_int::MAX);
        #[expect(unsafe_code, reason = "std cannot wait for several descriptors")]
        // SAFETY: the kernel reads and writes as many entries as there are, which live until it returns.
        let ready = unsafe { libc::poll(events.as_mut_ptr(), count, millis) };
        if ready < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::Interrupted => Ok(false),
                _ => Err(error),
            };
        }
        Ok(ready > 0)
    }

    /// Bytes of memory that all rings take.
    pub fn size_bytes(&self) -> usize {
        self.rings
            .iter()
            .map(|(_, _, ring)| ring.size_bytes())
            .sum()
    }
}
