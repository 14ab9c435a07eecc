//! Three kinds of address, three types: what a profiler saw, where it lies in the file, and as it was linked.
//!
//! Mixing them up is the classic fault of symbolization: the answer looks right and is wrong.
//! So there are no casts between them; [`crate::segments`] has the only conversions.

use std::fmt;

macro_rules! address {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl CodeAddress for $name {
            fn byte_before(self) -> Self {
                Self(self.0.saturating_sub(1))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#x}", self.0)
            }
        }
    };
}

address! {
    /// An address in a running process: the link address plus the load bias.
    ProcessAddress
}
address! {
    /// An offset into the file that the executable was mapped from.
    FileOffset
}
address! {
    /// An address as linked, in the `p_vaddr` space; others say SVMA or ELF virtual address.
    LinkAddress
}
address! {
    /// An offset from the image base, which is the lowest `p_vaddr` of a PT_LOAD rounded down to its page.
    RelativeAddress
}
/// The address that a call returns to; it may lie in the next line, inlined call or function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReturnAddress<A>(pub A);

/// A kind of address that code has.
pub trait CodeAddress: Copy {
    /// The address of the byte before, or 0 at 0.
    #[must_use]
    fn byte_before(self) -> Self;
}

impl<A: CodeAddress> ReturnAddress<A> {
    /// An address inside the call instruction that returns here, of the same kind: one byte before, or
    /// 0 at 0.
    pub fn call_site(self) -> A {
        self.0.byte_before()
    }
}
