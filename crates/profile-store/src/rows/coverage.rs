//! Which stage of profiling a stack broke in, as far as it shows before the symbol server is asked.

use std::sync::Arc;

use unhex_pprof::StackHash;

use super::batch::Batch;
use super::frames::FrameCoverage;

/// How a stack ends.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StackCoverage {
    /// The profiler stopped before the end of the stack, for this reason.
    Truncated(Arc<str>),
    /// It has a frame of a runtime that the profiler cannot unwind.
    MissingUnwinder(Arc<str>),
    /// Unwinding worked; whether frames have names is a question for each.
    Unwound,
}

impl Batch {
    /// How a stack ends. If several things went wrong, the one nearest to the root: there the stack is cut.
    ///
    /// None for a stack that is not of the batch.
    pub fn stack_coverage(&self, stack: StackHash) -> Option<StackCoverage> {
        let frames = self.stacks.get(&stack)?.iter().rev();
        let frames = frames.filter_map(|frame| self.frames.get(frame));
        let mut broken = frames.filter_map(|frame| match frame.coverage() {
            FrameCoverage::Truncated(reason) => Some(StackCoverage::Truncated(reason)),
            FrameCoverage::MissingUnwinder(runtime) => {
                Some(StackCoverage::MissingUnwinder(runtime))
            }
            _ => None,
        });
        Some(broken.next().unwrap_or(StackCoverage::Unwound))
    }
}
