//! How much of everything a conversion may make, and the counter that holds it to that.

use std::cell::{Cell, RefCell};
use std::fmt;

use super::ConvertError;
use crate::demangle::{Allowance, Demangled, ENDLESS_BYTES_MIN, Endless};
use crate::model::Language;

/// Told of bytes of a source that are seldom read again.
pub type ReleaseInput<'a> = dyn Fn(&[u8]) + 'a;

/// Bounds on one conversion. The figures in brackets are those of `libjvm`, with 364 MB of
/// DWARF one of the largest debug files in Debian.
#[derive(Clone, Copy)]
pub struct ConvertLimits<'a> {
    /// One section after decompression (libjvm: 257 MB); it may be allocated at once.
    pub section_bytes_max: u64,
    /// All needed sections after decompression (libjvm: 313 MB).
    pub sections_bytes_max: u64,
    /// DWARF units (libjvm: 1,071; Chromium some 60,000), 100 bytes of memory each.
    pub units_max: u64,
    /// Symbols, all tables together (libjvm: 48,000), 48 bytes of memory each.
    pub symbols_max: u64,
    /// Rows before equal ones are merged (libjvm: 1.6 million), 24 bytes of memory each, twice.
    pub rows_max: u64,
    /// Call nodes (libjvm: 750,000), 48 bytes of memory each.
    pub nodes_max: u64,
    /// Functions (libjvm: 81,000), 100 bytes and three names of memory each.
    pub functions_max: u64,
    /// Source files (libjvm: 2,154).
    pub files_max: u64,
    /// All names of functions and files, in bytes (libjvm: 12 MB).
    pub name_bytes_max: u64,
    /// Asked every 16,384 steps (at most some milliseconds): whether the deadline is over.
    pub should_stop: Option<&'a dyn Fn() -> bool>,
    /// Told of the bytes of a source that are seldom read again, since they were decompressed; a
    /// caller that maps its files can let go of those pages (libjvm: 141 MB).
    pub release: Option<&'a ReleaseInput<'a>>,
}

impl Default for ConvertLimits<'_> {
    fn default() -> Self {
        Self {
            section_bytes_max: 4 << 30,
            sections_bytes_max: 8 << 30,
            units_max: 1_000_000,
            symbols_max: 16_000_000,
            rows_max: 64_000_000,
            nodes_max: 32_000_000,
            functions_max: 8_000_000,
            files_max: 4_000_000,
            name_bytes_max: 2 << 30,
            should_stop: None,
            release: None,
        }
    }
}

impl fmt::Debug for ConvertLimits<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConvertLimits")
            .field("sections_bytes_max", &self.sections_bytes_max)
            .field("rows_max", &self.rows_max)
            .field("nodes_max", &self.nodes_max)
            .field("functions_max", &self.functions_max)
            .finish_non_exhaustive()
    }
}

/// Characters of a damaged name that an error shows.
const NAME_CHARS_SHOWN: usize = 64;

/// Steps between two questions whether to stop.
const STEPS_PER_QUESTION: u64 = 1 << 14;

/// What one conversion has used of its limits.
pub(crate) struct Budget<'a> {
    limits: ConvertLimits<'a>,
    steps: Cell<u64>,
    next_question: Cell<u64>,
    name_bytes: Cell<u64>,
    long_names: RefCell<Allowance>,
}

impl<'a> Budget<'a> {
    pub(crate) fn new(limits: &ConvertLimits<'a>) -> Self {
        Self {
            limits: *limits,
            steps: Cell::new(0),
            next_question: Cell::new(STEPS_PER_QUESTION),
            name_bytes: Cell::new(0),
            long_names: RefCell::default(),
        }
    }

    /// Counts work, and stops it when the deadline is over.
    #[inline]
    pub(crate) fn spend(&self, steps: u64) -> Result<(), ConvertError> {
        let total = self.steps.get().saturating_add(steps);
        self.steps.set(total);
        if total < self.next_question.get() {
            return Ok(());
        }
        self.ask(total)
    }

    #[cold]
    fn ask(&self, steps: u64) -> Result<(), ConvertError> {
        self.next_question
            .set(steps.saturating_add(STEPS_PER_QUESTION));
        if self.limits.should_stop.is_some_and(|stop| stop()) {
            return Err(ConvertError::Stopped { steps });
        }
        Ok(())
    }

    pub(crate) fn units(&self, count: usize) -> Result<(), ConvertError> {
        within("DWARF units", count, self.limits.units_max)
    }

    pub(crate) fn symbols(&self, count: usize) -> Result<(), ConvertError> {
        within("symbols", count, self.limits.symbols_max)
    }

    pub(crate) fn rows(&self, count: usize) -> Result<(), ConvertError> {
        within("rows", count, self.limits.rows_max)
    }

    pub(crate) fn nodes(&self, count: usize) -> Result<(), ConvertError> {
        within("call nodes", count, self.limits.nodes_max)
    }

    pub(crate) fn functions(&self, count: usize) -> Result<(), ConvertError> {
        within("functions", count, self.limits.functions_max)
    }

    pub(crate) fn files(&self, count: usize) -> Result<(), ConvertError> {
        within("source files", count, self.limits.files_max)
    }

    /// Demangles a name, unless it is one that has no end.
    pub(crate) fn demangle(
        &self,
        linkage_name: &str,
        language: Language,
    ) -> Result<Demangled, ConvertError> {
        let mut allowance = self.long_names.borrow_mut();
        Demangled::counted(linkage_name, language, &mut allowance).map_err(|Endless| {
            let start: String = linkage_name.chars().take(NAME_CHARS_SHOWN).collect();
            ConvertError::Malformed {
                what: format!("the name {start}..."),
                detail: format!(
                    "its {} bytes demangle to more than {ENDLESS_BYTES_MIN}",
                    linkage_name.len()
                ),
            }
        })
    }

    /// Bounds the bytes of all names before they are demangled.
    pub(crate) fn name_pool(&self, bytes: usize) -> Result<(), ConvertError> {
        within("bytes of names", bytes, self.limits.name_bytes_max)
    }

    /// Counts the bytes of a name that is kept.
    pub(crate) fn name(&self, bytes: usize) -> Result<(), ConvertError> {
        let total = self.name_bytes.get().saturating_add(bytes as u64);
        self.name_bytes.set(total);
        let max = self.limits.name_bytes_max;
        if total > max {
            return Err(ConvertError::TooLarge {
                what: "bytes of names",
                count: total,
                max,
            });
        }
        Ok(())
    }
}

fn within(what: &'static str, count: usize, max: u64) -> Result<(), ConvertError> {
    let count = count as u64;
    if count > max {
        return Err(ConvertError::TooLarge { what, count, max });
    }
    Ok(())
}
