//! What the store said of a build ID when it was asked, and since when it does not answer.
//!
//! A note of the ledger says what was so when a profile came, on a replica that may be gone. Before it
//! counts the store is asked; that it cannot say is no answer, and counts only when it lasts.

use unhex_build_id::Identity;

use rustc_hash::FxHashMap;

use super::ledger::Entry;
use super::observation::Missing;
use super::view::Rules;

/// When a replica that has started cannot ask about a build ID for so long, the note of its ledger
/// stands. It is less than the five minutes for which the alert remembers the last value, so that an
/// alert goes on over a restart even then.
const UNANSWERED_MILLIS_MAX: u64 = 4 * 60_000;

/// What is known of each listed build ID by asking.
pub(super) type Checks = FxHashMap<Identity, Checked>;

/// What is known of one build ID by asking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Checked {
    answer: Option<Answer>,
    /// When asking failed for the first time since the answer.
    failing_since: Option<u64>,
    asked_at: Option<u64>,
}

/// What the store said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    /// When it was asked, in milliseconds since 1970.
    pub(super) at: u64,
    /// Why there are no symbols; `None` when there are.
    pub(super) missing: Option<Missing>,
}

/// What is to be said of a build ID that is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It has symbols.
    Mended,
    /// It has none, and the store said so behind the grace: it may count.
    Confirmed(Missing),
    /// It had none when it was seen or asked about last; it has to be asked about before it counts.
    Noted(Missing),
}

impl Checked {
    /// Notes an answer, unless a later one is known.
    pub(super) fn note(&mut self, answer: Answer) {
        self.asked_at = self.asked_at.max(Some(answer.at));
        if self.answer.is_none_or(|known| known.at <= answer.at) {
            self.answer = Some(answer);
            self.failing_since = None;
        }
    }

    /// Notes that the store could not say.
    pub(super) fn note_failed(&mut self, at: u64) {
        self.asked_at = self.asked_at.max(Some(at));
        self.failing_since.get_or_insert(at);
    }

    /// When the store was asked last, in vain or not; those that never were come first.
    pub(super) fn last_asked(self) -> Option<u64> {
        self.asked_at
    }

    /// What is to be said of it now.
    pub(super) fn verdict(self, entry: &Entry, rules: Rules, now: u64) -> Verdict {
        let has_failed_for = |millis: u64| {
            let since = self.failing_since;
            since.is_some_and(|since| now.saturating_sub(since) > millis)
        };
        match self.answer {
            Some(Answer { missing: None, .. }) => Verdict::Mended,
            Some(Answer {
                at,
                missing: Some(missing),
            }) => {
                if has_failed_for(rules.grace) || rules.is_past_grace(entry.first_seen, at) {
                    Verdict::Confirmed(missing)
                } else {
                    Verdict::Noted(missing)
                }
            }
            None if has_failed_for(UNANSWERED_MILLIS_MAX.min(rules.grace)) => {
                Verdict::Confirmed(Missing::Unavailable)
            }
            None => Verdict::Noted(entry.missing),
        }
    }

    /// Whether the last answer is that it has symbols.
    pub(super) fn is_mended(self) -> bool {
        self.answer.is_some_and(|answer| answer.missing.is_none())
    }

    /// Whether nobody saw it since the store said that it has symbols.
    pub(super) fn is_mended_for(self, entry: &Entry) -> bool {
        self.answer
            .is_some_and(|answer| answer.missing.is_none() && answer.at >= entry.last_seen)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::SignalConfig;
    use crate::signal::LabelSet;
    use crate::signal::lately::Sent;
    use crate::signal::ledger::Sighting;

    const MINUTE: u64 = 60_000;

    fn verdict(checked: Checked, now: u64) -> Verdict {
        let sighting = Sighting {
            labels: &LabelSet::other(),
            name: None,
            missing: Missing::UnknownBuildId,
            sent: Sent::default(),
            profiles: 1,
            at: 0,
        };
        let rules = Rules::new(&SignalConfig {
            grace: Duration::from_mins(10),
            ..SignalConfig::default()
        });
        checked.verdict(&Entry::new(&sighting), rules, now)
    }

    #[test]
    fn what_passes_by_itself_is_confirmed_once_it_outlasts_the_grace() {
        let mut checked = Checked::default();
        let missing = Some(Missing::Pending);
        checked.note(Answer {
            at: 9 * MINUTE,
            missing,
        });
        let noted = Verdict::Noted(Missing::Pending);
        assert_eq!(verdict(checked, 11 * MINUTE), noted);
        checked.note(Answer {
            at: 11 * MINUTE,
            missing,
        });
        let confirmed = Verdict::Confirmed(Missing::Pending);
        assert_eq!(verdict(checked, 11 * MINUTE), confirmed);
    }

    #[test]
    fn a_failure_is_no_answer_and_leaves_the_last_one_until_it_lasts() {
        let mut checked = Checked::default();
        assert_eq!(
            verdict(checked, 11 * MINUTE),
            Verdict::Noted(Missing::UnknownBuildId)
        );
        checked.note_failed(11 * MINUTE);
        checked.note_failed(14 * MINUTE);
        assert_eq!(
            verdict(checked, 15 * MINUTE),
            Verdict::Noted(Missing::UnknownBuildId)
        );
        assert_eq!(
            verdict(checked, 16 * MINUTE),
            Verdict::Confirmed(Missing::Unavailable)
        );
        let missing = None;
        checked.note(Answer {
            at: 17 * MINUTE,
            missing,
        });
        checked.note_failed(18 * MINUTE);
        assert_eq!(verdict(checked, 60 * MINUTE), Verdict::Mended);
        checked.note(Answer {
            at: 12 * MINUTE,
            missing: Some(Missing::NoDebugInfo),
        });
        assert!(checked.is_mended(), "an older answer changes nothing");
    }
}
