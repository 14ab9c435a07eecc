//! What happened under load, to be printed and to be doubted when it was little.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use parking_lot::Mutex;

/// Counts of everything that was done, shared by all who do it.
#[derive(Debug, Default)]
pub(super) struct Figures {
    counts: Mutex<BTreeMap<String, u64>>,
    longest: Mutex<Duration>,
}

impl Figures {
    pub(super) fn count(&self, what: &str) {
        self.add(what, 1);
    }

    pub(super) fn add(&self, what: &str, number: u64) {
        *self.counts.lock().entry(what.to_owned()).or_default() += number;
    }

    /// Something took so long until it was done, and failed so before.
    pub(super) fn cured(&self, reasons: &[String], took: Duration) {
        for reason in reasons {
            self.count(&format!("retried: {reason}"));
        }
        let mut longest = self.longest.lock();
        *longest = took.max(*longest);
    }

    /// Panics if this was no load: then nothing was shown.
    pub(super) fn check_that_much_happened(&self, lasted: Duration) {
        let counts = self.counts.lock();
        let of = |what: &str| counts.get(what).copied().unwrap_or_default();
        let minutes = lasted.as_secs().div_ceil(60);
        for (what, least) in [
            ("uploads", 20),
            ("downloads", 60),
            ("symbolizations", 20),
            ("kills", 2),
        ] {
            assert!(of(what) >= least * minutes, "only {} {what}", of(what));
        }
        assert!(of("evictions") > 0, "no file had to leave a disk");
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, number) in &*self.counts.lock() {
            write!(f, "{number} {what}, ")?;
        }
        write!(f, "the longest took {:.1?}", *self.longest.lock())
    }
}
