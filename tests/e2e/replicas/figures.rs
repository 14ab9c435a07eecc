//! What happened under load, to be printed and to be doubted when it was little.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// What was done, in phases one after another, shared by all who do it.
#[derive(Debug, Default)]
pub(super) struct Figures {
    phases: Mutex<Vec<Phase>>,
}

/// What ended between two things that were done to the servers.
#[derive(Debug)]
struct Phase {
    name: String,
    began: Instant,
    lasted: Option<Duration>,
    counts: BTreeMap<String, u64>,
    longest: BTreeMap<&'static str, Duration>,
}

impl Figures {
    /// What ends from here on belongs to the next phase.
    pub(super) fn begin(&self, name: &str) {
        let mut phases = self.phases.lock();
        end(&mut phases);
        phases.push(Phase {
            name: name.to_owned(),
            began: Instant::now(),
            lasted: None,
            counts: BTreeMap::new(),
            longest: BTreeMap::new(),
        });
    }

    /// Ends the last phase.
    pub(super) fn end(&self) {
        end(&mut self.phases.lock());
    }

    pub(super) fn count(&self, what: &str) {
        self.add(what, 1);
    }

    pub(super) fn add(&self, what: &str, number: u64) {
        let mut phases = self.phases.lock();
        let phase = phases.last_mut().expect("a phase");
        *phase.counts.entry(what.to_owned()).or_default() += number;
    }

    /// One of these was answered after so long, and failed so before.
    pub(super) fn answered(&self, what: &'static str, reasons: &[String], took: Duration) {
        self.count(what);
        for reason in reasons {
            self.count(&format!("retried: {reason}"));
        }
        let mut phases = self.phases.lock();
        let phase = phases.last_mut().expect("a phase");
        let longest = phase.longest.entry(what).or_default();
        *longest = took.max(*longest);
    }

    /// Panics if this was no load: then nothing was shown.
    pub(super) fn check_that_much_happened(&self, lasted: Duration) {
        let minutes = lasted.as_secs().div_ceil(60);
        for (what, least) in [("uploads", 20), ("downloads", 60), ("symbolizations", 20)] {
            let number = self.total(what);
            assert!(number >= least * minutes, "only {number} {what}");
        }
        assert!(self.total("evictions") > 0, "no file had to leave a disk");
    }

    pub(super) fn total(&self, what: &str) -> u64 {
        let phases = self.phases.lock();
        phases
            .iter()
            .filter_map(|phase| phase.counts.get(what))
            .sum()
    }
}

fn end(phases: &mut [Phase]) {
    if let Some(phase) = phases.last_mut() {
        phase.lasted.get_or_insert_with(|| phase.began.elapsed());
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let phases = self.phases.lock();
        for phase in phases.iter().filter(|phase| !phase.counts.is_empty()) {
            let lasted = phase.lasted.unwrap_or_else(|| phase.began.elapsed());
            write!(f, "\n  {}, {:.1} s:", phase.name, lasted.as_secs_f64())?;
            for (at, (what, number)) in phase.counts.iter().enumerate() {
                let comma = if at == 0 { "" } else { "," };
                write!(f, "{comma} {number} {what}")?;
                if let Some(longest) = phase.longest.get(what.as_str()) {
                    write!(f, " (the longest {:.1} s)", longest.as_secs_f64())?;
                }
            }
        }
        Ok(())
    }
}
