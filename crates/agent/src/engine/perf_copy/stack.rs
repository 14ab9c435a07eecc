//! From registers and a copy of the stack to frames: one step after another, each by the unwind information of the binary
//! that the address lies in, or by frame pointers where there is none, until the root or a reason to stop.

use std::cell::Cell;
use std::sync::Arc;

use framehop::{Error, FrameAddress, Unwinder as _};
use gimli::UnwindContext;
use rustc_hash::FxHashMap;
use unhex_symbols::address::{LinkAddress, ProcessAddress};

use super::arch::{self, Cache, Registers, Start, Unwinder};
use super::row::How;
use super::unwind_data::UnwindData;
use crate::perf_events::UserRegisters;
use crate::processes::{BinaryKind, Process, Region};
use crate::sample::{FrameKind, Stop, UserFrame};

/// Largest stack that a frame pointer may go up by: more than that is no frame pointer.
const STACK_BYTES_MAX: u64 = 64 << 20;

/// Addresses of which it is remembered how to leave their functions.
const KNOWN_SLOTS: usize = 2048;

/// What was sampled of a process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copied<'ring> {
    pub(super) registers: UserRegisters,
    pub(super) stack: &'ring [u8],
    /// Whether there may be more of the stack than what was copied.
    pub(super) is_cut: bool,
}

/// Where unwind information comes from.
pub(super) trait DataSource {
    /// That of the binary of a region; `None` if it cannot be had.
    fn data(&mut self, region: &Region) -> Option<Arc<UnwindData>>;
}

/// The modules of one process that stacks went through, for framehop.
#[derive(Default)]
pub(super) struct Modules {
    unwinder: Unwinder<Arc<[u8]>>,
    /// By the start of their mappings.
    loaded: FxHashMap<u64, Loaded>,
    pub(super) generation: u64,
    pub(super) used: u64,
}

#[derive(Clone)]
struct Loaded {
    data: Arc<UnwindData>,
    bias: u64,
}

/// What is kept between stacks.
pub(super) struct Unwinding {
    cache: Cache,
    /// How many modules were added with this cache: framehop tells lists of modules apart by 16 bits.
    added: u16,
    /// How to leave functions, by binary and link address.
    known: Vec<(u64, u64, How)>,
    context: UnwindContext<usize>,
}

impl Default for Unwinding {
    fn default() -> Self {
        Self {
            cache: Cache::new(),
            added: 0,
            known: vec![(0, 0, How::Unknown); KNOWN_SLOTS],
            context: UnwindContext::new(),
        }
    }
}

/// How one step went.
enum Step {
    /// To the caller, or to what a signal interrupted.
    To(FrameAddress),
    End(Stop),
}

impl Unwinding {
    /// The frames of a stack, innermost first, at most `frames_max`, and why there are no more.
    pub(super) fn frames(
        &mut self,
        process: &Process,
        modules: &mut Modules,
        source: &mut dyn DataSource,
        copied: Copied<'_>,
        frames_max: usize,
    ) -> (Vec<UserFrame>, Stop) {
        let Start {
            instruction,
            stack,
            mut registers,
        } = Start::of(&copied.registers);
        let mut frames = Vec::new();
        let mut address = FrameAddress::from_instruction_pointer(instruction);
        let copy = StackCopy {
            start: stack,
            bytes: copied.stack,
            is_cut: copied.is_cut,
            ran_out: Cell::new(false),
        };
        let stop = loop {
            frames.push(UserFrame {
                address: ProcessAddress(address.address()),
                kind: kind(address),
            });
            if !copied.registers.is_64_bit {
                break Stop::UnsupportedRule;
            }
            if frames.len() >= frames_max {
                break Stop::Depth;
            }
            let Some(region) = process.region_at(ProcessAddress(address.address_for_lookup()))
            else {
                break Stop::NoMapping;
            };
            let loaded = modules.load(region, source, &mut self.added);
            if self.added == u16::MAX {
                self.cache = Cache::new();
                self.added = 0;
            }
            let how = loaded
                .as_ref()
                .map_or(How::Unknown, |loaded| self.how(loaded, address));
            let step = match (how, loaded) {
                (How::Root, _) => Step::End(Stop::Root),
                (How::ByFramehop, Some(loaded)) => {
                    self.by_framehop(modules, &loaded, address, &mut registers, &copy)
                }
                (How::ByRow, Some(loaded)) => self.by_row(&loaded, address, &mut registers, &copy),
                _ => by_frame_pointer(process, region, &mut registers, &copy, frames.len()),
            };
            match step {
                Step::To(caller) => address = caller,
                Step::End(stop) => break stop,
            }
        };
        (frames, stop)
    }

    fn how(&mut self, loaded: &Loaded, address: FrameAddress) -> How {
        let linked = loaded.linked(address);
        // Its place tells the information of a binary from that of all others; who lets go of some forgets these.
        let whose = u64::try_from(Arc::as_ptr(&loaded.data).addr()).unwrap_or(0);
        let hash = (linked.0 ^ whose).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let slots = u64::try_from(self.known.len()).unwrap_or(1).max(1);
        let slot = usize::try_from(hash % slots)
            .ok()
            .and_then(|at| self.known.get_mut(at));
        let Some(slot) = slot else {
            return loaded.data.how(linked, &mut self.context);
        };
        if (slot.0, slot.1) != (whose, linked.0) {
            *slot = (whose, linked.0, loaded.data.how(linked, &mut self.context));
        }
        slot.2
    }

    /// A step in one of the ways that framehop remembers.
    fn by_framehop(
        &mut self,
        modules: &Modules,
        loaded: &Loaded,
        address: FrameAddress,
        registers: &mut Registers,
        copy: &StackCopy<'_>,
    ) -> Step {
        copy.ran_out.set(false);
        let mut read = |address| copy.read(address);
        let stepped = modules
            .unwinder
            .unwind_frame(address, registers, &mut self.cache, &mut read);
        match stepped {
            Ok(Some(caller)) => loaded.to(caller, address),
            // The return address is 0: who made the stack put it there.
            Ok(None) => Step::End(Stop::Root),
            Err(_) if copy.ran_out.get() => Step::End(copy.end()),
            Err(Error::CouldNotReadStack(_)) => Step::End(Stop::ReadFault),
            Err(_) => Step::End(Stop::UnsupportedRule),
        }
    }

    /// A step by the rules that framehop does not follow.
    fn by_row(
        &mut self,
        loaded: &Loaded,
        address: FrameAddress,
        registers: &mut Registers,
        copy: &StackCopy<'_>,
    ) -> Step {
        copy.ran_out.set(false);
        let before = registers.sp();
        let linked = loaded.linked(address);
        let mut read = |address| copy.read(address);
        let stepped = loaded.data.row(linked, &mut self.context, |row| {
            row.step(registers, &mut read)
        });
        match stepped.flatten() {
            Some(0) => Step::End(Stop::Root),
            // Another stack than that of the signal's handler may lie anywhere.
            Some(_) if registers.sp() <= before && !loaded.data.is_signal_return(linked) => {
                Step::End(Stop::UnsupportedRule)
            }
            Some(caller) => loaded.to(caller, address),
            None if copy.ran_out.get() => Step::End(copy.end()),
            None => Step::End(Stop::UnsupportedRule),
        }
    }
}

impl Loaded {
    /// To the caller of the function at an address.
    fn to(&self, caller: u64, address: FrameAddress) -> Step {
        if self.data.is_signal_return(self.linked(address)) {
            return Step::To(FrameAddress::from_instruction_pointer(caller));
        }
        FrameAddress::from_return_address(caller).map_or(Step::End(Stop::Root), Step::To)
    }

    fn linked(&self, address: FrameAddress) -> LinkAddress {
        LinkAddress(address.address_for_lookup().wrapping_sub(self.bias))
    }
}

impl Modules {
    /// None of a process in this state of its mappings.
    pub(super) fn of(generation: u64) -> Self {
        Self {
            generation,
            ..Self::default()
        }
    }

    /// Makes the binary of a region known to framehop; `None` if nothing is to be had of it.
    fn load(
        &mut self,
        region: &Region,
        source: &mut dyn DataSource,
        added: &mut u16,
    ) -> Option<Loaded> {
        if let Some(known) = self.loaded.get(&region.mapping.start.0) {
            return Some(known.clone());
        }
        let bias = region.bias()?;
        let data = source.data(region)?;
        let linked = LinkAddress(region.mapping.start.0.wrapping_sub(bias));
        self.unwinder.add_module(data.module(region, linked));
        *added = added.saturating_add(1);
        let loaded = Loaded { data, bias };
        self.loaded.insert(region.mapping.start.0, loaded.clone());
        Some(loaded)
    }
}

fn kind(address: FrameAddress) -> FrameKind {
    if address.is_return_address() {
        FrameKind::Return
    } else {
        FrameKind::Exact
    }
}

/// A step through code that nothing is said about: the caller's frame pointer and the return address lie one behind the
/// other where the frame pointer shows, if the code has one. What is found is believed if it leads into code.
fn by_frame_pointer(
    process: &Process,
    region: &Region,
    registers: &mut Registers,
    copy: &StackCopy<'_>,
    depth: usize,
) -> Step {
    let unknown = match region.binary.kind {
        BinaryKind::Anonymous => Stop::Jit,
        BinaryKind::File | BinaryKind::Vdso => Stop::NoUnwindInfo,
    };
    let frame = arch::frame_pointer(registers);
    if frame == 0 {
        // Who makes a new stack sets it to zero; code that was made at run time may have it at zero for no reason.
        let is_root = depth > 1 && region.binary.kind != BinaryKind::Anonymous;
        return Step::End(if is_root { Stop::Root } else { unknown });
    }
    let height = frame.checked_sub(registers.sp());
    let Some(after) = frame
        .checked_add(16)
        .filter(|_| height.is_some_and(|height| height <= STACK_BYTES_MAX))
    else {
        return Step::End(unknown);
    };
    copy.ran_out.set(false);
    let slots = (copy.read(frame), copy.read(frame.saturating_add(8)));
    let (Ok(caller_frame), Ok(returns_to)) = slots else {
        let stop = if copy.ran_out.get() {
            copy.end()
        } else {
            unknown
        };
        return Step::End(stop);
    };
    if returns_to == 0 {
        return Step::End(Stop::Root);
    }
    let returns_to = arch::set_caller(registers, caller_frame, after, returns_to);
    let address = FrameAddress::from_return_address(returns_to);
    let is_code = |address: &FrameAddress| {
        process
            .region_at(ProcessAddress(address.address_for_lookup()))
            .is_some()
    };
    address.filter(is_code).map_or(Step::End(unknown), Step::To)
}

/// The part of the stack that was copied.
struct StackCopy<'ring> {
    start: u64,
    bytes: &'ring [u8],
    is_cut: bool,
    /// Whether something beyond its end was asked for.
    ran_out: Cell<bool>,
}

impl StackCopy<'_> {
    fn read(&self, address: u64) -> Result<u64, ()> {
        let within = address
            .checked_sub(self.start)
            .and_then(|within| usize::try_from(within).ok());
        let within = within.ok_or(())?;
        let bytes = within
            .checked_add(8)
            .and_then(|end| self.bytes.get(within..end));
        if bytes.is_none() {
            self.ran_out.set(true);
        }
        let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
        bytes.map(u64::from_ne_bytes).ok_or(())
    }

    /// Why there is nothing behind its end: there was no more of the stack, or no more of it was copied.
    fn end(&self) -> Stop {
        if self.is_cut {
            Stop::Truncated
        } else {
            Stop::ReadFault
        }
    }
}
