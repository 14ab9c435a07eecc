//! Texts of strangers, made fit to be kept: bounded, and without characters that break a line or hide text.
//!
//! The rules are those of the symbol server's labels, so that a service has the same name in both.

use std::collections::HashMap;
use std::sync::Arc;

use unhex_pprof::{Profiles, StringId};

/// A text without control characters and marks of direction, at most so long, and whether that cut it.
pub(super) fn cleaned(text: &str, bytes_max: usize) -> (String, bool) {
    let mut kept = String::new();
    let mut is_cut = false;
    for c in text.trim().chars().filter(|c| !is_unseen(*c)) {
        if kept.len().saturating_add(c.len_utf8()) > bytes_max {
            is_cut = true;
            break;
        }
        kept.push(c);
    }
    kept.truncate(kept.trim_end().len());
    (kept, is_cut)
}

/// Control characters, line separators, and what turns text around or has no width.
fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// The cleaned strings of a message. Each is cleaned once: a message may refer to one long string a million times.
#[derive(Debug)]
pub(super) struct Texts<'m, 'a> {
    model: &'m Profiles<'a>,
    bytes_max: usize,
    done: HashMap<StringId, (Arc<str>, bool)>,
}

impl<'m, 'a> Texts<'m, 'a> {
    pub(super) fn new(model: &'m Profiles<'a>, bytes_max: usize) -> Self {
        Self {
            model,
            bytes_max,
            done: HashMap::new(),
        }
    }

    /// The text, and whether it was cut.
    pub(super) fn get(&mut self, id: StringId) -> (Arc<str>, bool) {
        let (model, bytes_max) = (self.model, self.bytes_max);
        let (text, is_cut) = self.done.entry(id).or_insert_with(|| {
            let (text, is_cut) = cleaned(model.text(id), bytes_max);
            (text.into(), is_cut)
        });
        (Arc::clone(text), *is_cut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_bounded_and_cannot_break_a_line() {
        assert_eq!(
            cleaned(" a\nb\u{202e}c\u{7f} ", 128),
            ("abc".to_owned(), false)
        );
        assert_eq!(cleaned("\u{0}\u{200b} ", 128), (String::new(), false));
        assert_eq!(cleaned("üü", 3), ("ü".to_owned(), true));
    }
}
