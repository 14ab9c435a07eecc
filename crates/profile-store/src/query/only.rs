//! Which stacks rows are added up of, found in the order in which files have them.

use unhex_pprof::StackHash;

/// Stacks of which it is known whether they count.
#[derive(Clone, Debug)]
pub(super) struct OnlyStacks {
    /// As integers, sorted.
    known: Box<[u128]>,
    /// Whether each of them counts.
    counts: Box<[bool]>,
    others: Others,
}

/// What becomes of stacks of which nothing is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Others {
    /// They do not count.
    LeftOut,
    /// They are noted, for whoever asks what they are.
    Noted,
}

/// What is known of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It counts.
    Counts,
    /// It does not.
    LeftOut,
    /// Nothing is.
    Unknown,
}

/// Where the stack of the last row is among those that are known: rows come in order, so that the next is mostly there or right behind.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cursor(usize);

impl OnlyStacks {
    /// Those that count, and others of which it is known that they do not.
    pub(super) fn new(
        known: impl IntoIterator<Item = StackHash>,
        counting: &[StackHash],
        others: Others,
    ) -> Self {
        let number = |stack: StackHash| u128::from_be_bytes(stack.0);
        let mut all: Vec<(u128, bool)> = known
            .into_iter()
            .map(|stack| (number(stack), false))
            .collect();
        all.extend(counting.iter().map(|stack| (number(*stack), true)));
        // Of one that is there twice the one that counts.
        all.sort_unstable_by_key(|(number, counts)| (*number, !counts));
        all.dedup_by_key(|(number, _)| *number);
        let (known, counts): (Vec<u128>, Vec<bool>) = all.into_iter().unzip();
        Self {
            known: known.into(),
            counts: counts.into(),
            others,
        }
    }

    /// What is known of a stack; `cursor` is where the one before was.
    pub(super) fn standing(&self, stack: StackHash, cursor: &mut Cursor) -> Standing {
        let number = u128::from_be_bytes(stack.0);
        let is_behind = |at: usize| {
            let before = at.checked_sub(1).and_then(|at| self.known.get(at));
            before.is_none_or(|before| *before < number)
        };
        let is_before = |at: usize| self.known.get(at).is_none_or(|known| number <= *known);
        let is_place = |at: usize| at <= self.known.len() && is_behind(at) && is_before(at);
        if !is_place(cursor.0) {
            let next = cursor.0.saturating_add(1);
            cursor.0 = if is_place(next) {
                next
            } else {
                self.known.partition_point(|known| *known < number)
            };
        }
        match (self.known.get(cursor.0), self.counts.get(cursor.0)) {
            (Some(known), Some(true)) if *known == number => Standing::Counts,
            (Some(known), Some(false)) if *known == number => Standing::LeftOut,
            _ if self.others == Others::Noted => Standing::Unknown,
            _ => Standing::LeftOut,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: u128) -> StackHash {
        StackHash(number.to_be_bytes())
    }

    #[test]
    fn a_stack_is_found_in_whichever_order_they_come() {
        let only = OnlyStacks::new([2, 4, 6].map(hash), &[4, 9].map(hash), Others::Noted);
        let expected = |number: u128| match number {
            4 | 9 => Standing::Counts,
            2 | 6 => Standing::LeftOut,
            _ => Standing::Unknown,
        };
        for first in 0..12 {
            for then in 0..12 {
                let mut cursor = Cursor::default();
                for number in [first, then, first] {
                    let standing = only.standing(hash(number), &mut cursor);
                    assert_eq!(standing, expected(number), "{number} of {first}, {then}");
                }
            }
        }
    }

    #[test]
    fn without_any_nothing_counts() {
        let only = OnlyStacks::new([], &[], Others::LeftOut);
        let standing = only.standing(hash(3), &mut Cursor::default());
        assert_eq!(standing, Standing::LeftOut);
    }
}
