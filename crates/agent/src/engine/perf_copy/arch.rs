//! What differs between architectures: which registers a sample brings, and how they are set after a step that was
//! taken by frame pointers.

use gimli::Register;

use crate::perf_events::UserRegisters;

#[cfg(target_arch = "aarch64")]
pub(super) use framehop::aarch64::{
    CacheAarch64 as Cache, UnwindRegsAarch64 as Registers, UnwinderAarch64 as Unwinder,
};
#[cfg(target_arch = "x86_64")]
pub(super) use framehop::x86_64::{
    CacheX86_64 as Cache, UnwindRegsX86_64 as Registers, UnwinderX86_64 as Unwinder,
};

/// Addresses of user code have 48 bits; what stands above in a return address is its signature.
#[cfg(target_arch = "aarch64")]
const HIGHEST_USER_ADDRESS: u64 = (1 << 48) - 1;

/// The numbers that unwind information has for the stack pointer, the frame pointer and where a function returns to.
#[cfg(target_arch = "x86_64")]
pub(super) const STACK: Register = gimli::X86_64::RSP;
#[cfg(target_arch = "x86_64")]
pub(super) const FRAME: Register = gimli::X86_64::RBP;
#[cfg(target_arch = "x86_64")]
pub(super) const RETURN: Register = gimli::X86_64::RA;
#[cfg(target_arch = "aarch64")]
pub(super) const STACK: Register = gimli::AArch64::SP;
#[cfg(target_arch = "aarch64")]
pub(super) const FRAME: Register = gimli::AArch64::X29;
#[cfg(target_arch = "aarch64")]
pub(super) const RETURN: Register = gimli::AArch64::X30;

/// Where a process was.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    pub(super) instruction: u64,
    pub(super) stack: u64,
    pub(super) registers: Registers,
}

impl Start {
    /// From the registers of a sample, which are those of `SampledRegisters::TO_UNWIND` in its order.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn of(registers: &UserRegisters) -> Self {
        let [frame, stack, instruction, _] = registers.values;
        Self {
            instruction,
            stack,
            registers: Registers::new(instruction, stack, frame),
        }
    }

    /// From the registers of a sample, which are those of `SampledRegisters::TO_UNWIND` in its order.
    #[cfg(target_arch = "aarch64")]
    pub(super) fn of(registers: &UserRegisters) -> Self {
        let [frame, link, stack, instruction] = registers.values;
        let mask = framehop::aarch64::PtrAuthMask::from_max_known_address(HIGHEST_USER_ADDRESS);
        Self {
            instruction,
            stack,
            registers: Registers::new_with_ptr_auth_mask(mask, link, stack, frame),
        }
    }
}

/// The frame pointer.
#[cfg(target_arch = "x86_64")]
pub(super) fn frame_pointer(registers: &Registers) -> u64 {
    registers.bp()
}

/// The frame pointer.
#[cfg(target_arch = "aarch64")]
pub(super) fn frame_pointer(registers: &Registers) -> u64 {
    registers.fp()
}

/// The caller's registers, which were found behind the frame pointer. Returns where it goes on.
#[cfg(target_arch = "x86_64")]
pub(super) fn set_caller(
    registers: &mut Registers,
    frame: u64,
    stack: u64,
    returns_to: u64,
) -> u64 {
    registers.set_bp(frame);
    registers.set_sp(stack);
    registers.set_ip(returns_to);
    returns_to
}

/// The caller's registers, which were found behind the frame pointer. Returns where it goes on.
#[cfg(target_arch = "aarch64")]
pub(super) fn set_caller(
    registers: &mut Registers,
    frame: u64,
    stack: u64,
    returns_to: u64,
) -> u64 {
    let returns_to = registers.lr_mask().strip_ptr_auth(returns_to);
    registers.set_fp(frame);
    registers.set_sp(stack);
    registers.set_lr(returns_to);
    returns_to
}

/// The value of a register, of those that are followed.
pub(super) fn value(registers: &Registers, register: Register) -> Option<u64> {
    match register {
        STACK => Some(registers.sp()),
        FRAME => Some(frame_pointer(registers)),
        RETURN => Some(return_value(registers)),
        _ => None,
    }
}

#[cfg(target_arch = "x86_64")]
fn return_value(registers: &Registers) -> u64 {
    registers.ip()
}

#[cfg(target_arch = "aarch64")]
fn return_value(registers: &Registers) -> u64 {
    registers.lr()
}
