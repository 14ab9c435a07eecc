//! Kernels on which the unwinder is not loaded, although they would take it.
//!
//! Reading user memory at interrupt time takes a lock in some of them, if they are hardened, as those of distributions are:
//! where the interrupt came while its processor held the lock, the host freezes. The check that takes it came with 5.19;
//! "mm: Fix `copy_from_user_nofault()`" mended it in 6.4, and in 6.1.36 and 6.3.10 of the kernels that were kept up.

use aya::util::KernelVersion;

use crate::engine::EngineError;

/// The first kernel that has all that the program calls: `bpf_loop`.
const FIRST: KernelVersion = KernelVersion::new(5, 17, 0);

/// Whether this kernel is to be asked at all.
pub(super) fn check() -> Result<(), EngineError> {
    // What cannot be said is no reason: the kernel itself refuses what it does not know.
    let Ok(running) = KernelVersion::current() else {
        return Ok(());
    };
    match objection(running) {
        None => Ok(()),
        Some(objection) => Err(EngineError::Load(format!("Linux {running} {objection}"))),
    }
}

/// Kernels that may freeze: from the first one on, before the one that was mended.
const FREEZING: [[KernelVersion; 2]; 4] = [
    [KernelVersion::new(5, 19, 0), KernelVersion::new(6, 1, 0)],
    [KernelVersion::new(6, 1, 0), KernelVersion::new(6, 1, 36)],
    [KernelVersion::new(6, 2, 0), KernelVersion::new(6, 3, 0)],
    [KernelVersion::new(6, 3, 0), KernelVersion::new(6, 3, 10)],
];

fn objection(version: KernelVersion) -> Option<&'static str> {
    if version < FIRST {
        return Some("is too old: 5.17 is the first that can do it");
    }
    let freezes = |[first, mended]: &[KernelVersion; 2]| *first <= version && version < *mended;
    FREEZING.iter().any(freezes).then_some(
        "may freeze the host when a stack is read at interrupt time: 6.1.36, 6.3.10 and 6.4 do not",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_that_may_freeze_are_refused_and_those_that_were_mended_are_not() {
        let is_refused =
            |(major, minor, patch)| objection(KernelVersion::new(major, minor, patch)).is_some();
        for old in [(4, 19, 300), (5, 16, 9)] {
            assert!(is_refused(old), "{old:?}");
        }
        for freezing in [
            (5, 19, 0),
            (6, 0, 3),
            (6, 1, 0),
            (6, 1, 35),
            (6, 2, 16),
            (6, 3, 9),
        ] {
            assert!(is_refused(freezing), "{freezing:?}");
        }
        for good in [
            (5, 17, 0),
            (5, 18, 19),
            (6, 1, 36),
            (6, 1, 112),
            (6, 3, 10),
            (6, 4, 0),
        ] {
            assert!(!is_refused(good), "{good:?}");
        }
    }
}
