//! Patterns for file names and paths, in the dialects that their users know from elsewhere.
//!
//! Every place in the pattern that can be reached is carried along from character to character, so
//! that no pattern takes longer than its length times that of the text.

/// What the signs of a pattern mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// `*` is any characters, `?` is one; a `/` is a character like others.
    Names,
    /// As fnmatch(3) with `FNM_PATHNAME`: `*`, `?` and `[...]`, none of which is a `/`.
    Fnmatch,
    /// As shells have it for paths: `*` and `?` stay within a folder, `**` does not.
    Folders,
}

/// A pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Glob {
    items: Vec<Item>,
}

/// What the next characters of a text may be.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Item {
    /// Any characters, also none.
    Many(Reach),
    /// One character of any kind.
    One(Reach),
    /// One character of a set, or one outside of it; never a `/`.
    Set {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
    /// This character.
    Literal(char),
}

/// Whether a `/` is among any characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    WithinFolder,
    Everywhere,
}

impl Reach {
    fn covers(self, c: char) -> bool {
        self == Self::Everywhere || c != '/'
    }
}

impl Item {
    /// Whether this one character is what the item is for.
    fn accepts(&self, c: char) -> bool {
        match self {
            Self::Many(_) => false,
            Self::One(reach) => reach.covers(c),
            Self::Literal(literal) => *literal == c,
            Self::Set { negated, ranges } => {
                let within = |(first, last): &(char, char)| (*first..=*last).contains(&c);
                c != '/' && ranges.iter().any(within) != *negated
            }
        }
    }
}

impl Glob {
    /// The pattern that a text is in a dialect; every text is one.
    pub(crate) fn new(pattern: &str, dialect: Dialect) -> Self {
        let reach = match dialect {
            Dialect::Names => Reach::Everywhere,
            Dialect::Fnmatch | Dialect::Folders => Reach::WithinFolder,
        };
        let mut items = Vec::new();
        let mut rest = pattern.chars();
        while let Some(c) = rest.next() {
            let item = match c {
                '*' => Item::Many(match items.last() {
                    Some(Item::Many(_)) if dialect == Dialect::Folders => {
                        items.pop();
                        Reach::Everywhere
                    }
                    _ => reach,
                }),
                '?' => Item::One(reach),
                '[' if dialect == Dialect::Fnmatch => match set(rest.as_str()) {
                    Some((set, behind)) => {
                        rest = behind.chars();
                        set
                    }
                    // A bracket that is never closed stands for itself.
                    None => Item::Literal('['),
                },
                literal => Item::Literal(literal),
            };
            // Several stars are no more than one.
            if !(matches!(item, Item::Many(_)) && items.last() == Some(&item)) {
                items.push(item);
            }
        }
        Self { items }
    }

    /// Whether `text` matches, whole.
    pub(crate) fn matches(&self, text: &str) -> bool {
        let places = self.items.len().saturating_add(1);
        let (mut reached, mut next) = (vec![false; places], vec![false; places]);
        mark(&mut reached, 0);
        self.pass_over(&mut reached);
        for c in text.chars() {
            next.fill(false);
            let mut is_dead = true;
            let places = self.items.iter().zip(&reached).enumerate();
            for (at, (item, _)) in places.filter(|(_, (_, reached))| **reached) {
                let to = match item {
                    Item::Many(reach) if reach.covers(c) => at,
                    item if item.accepts(c) => at.saturating_add(1),
                    _ => continue,
                };
                mark(&mut next, to);
                is_dead = false;
            }
            if is_dead {
                return false;
            }
            std::mem::swap(&mut reached, &mut next);
            self.pass_over(&mut reached);
        }
        reached.last().copied().unwrap_or(false)
    }

    /// Marks what is behind a star that is reached: it may be no character at all.
    fn pass_over(&self, reached: &mut [bool]) {
        for (at, item) in self.items.iter().enumerate() {
            if matches!(item, Item::Many(_)) && reached.get(at).copied().unwrap_or(false) {
                mark(reached, at.saturating_add(1));
            }
        }
    }
}

fn mark(reached: &mut [bool], at: usize) {
    if let Some(place) = reached.get_mut(at) {
        *place = true;
    }
}

/// The set behind a `[`, and what follows its `]`. A `]` that comes first is a member.
fn set(text: &str) -> Option<(Item, &str)> {
    let inner = text.strip_prefix(['!', '^']);
    let negated = inner.is_some();
    let mut rest = inner.unwrap_or(text).chars();
    let mut ranges = Vec::new();
    loop {
        let first = rest.next()?;
        if first == ']' && !ranges.is_empty() {
            return Some((Item::Set { negated, ranges }, rest.as_str()));
        }
        let mut ahead = rest.clone();
        match (ahead.next(), ahead.next()) {
            (Some('-'), Some(last)) if last != ']' => {
                ranges.push((first, last));
                rest = ahead;
            }
            _ => ranges.push((first, first)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(dialect: Dialect, matching: &[(&str, &str)], others: &[(&str, &str)]) {
        for (pattern, text) in matching {
            assert!(
                Glob::new(pattern, dialect).matches(text),
                "{pattern} {text}"
            );
        }
        for (pattern, text) in others {
            assert!(
                !Glob::new(pattern, dialect).matches(text),
                "{pattern} {text}"
            );
        }
    }

    #[test]
    fn in_names_stars_and_question_marks_are_any_characters() {
        let matching = [
            ("libnvidia-*.so*", "libnvidia-glcore.so.470"),
            ("*", ""),
            ("a?c", "a/c"),
            ("/opt/*/x", "/opt/a/b/x"),
            ("*.so", "x.so.so"),
            ("a*b*c", "aXbXbc"),
            ("[vdso]", "[vdso]"),
        ];
        let others = [
            ("a?", "a"),
            ("a*b", "ab "),
            ("", "a"),
            ("*x", "y"),
            ("a", ""),
        ];
        check(Dialect::Names, &matching, &others);
    }

    #[test]
    fn fnmatch_compares_paths_part_by_part() {
        let matching = [
            ("/usr/bin/*", "/usr/bin/ls"),
            ("/usr/*/l?", "/usr/bin/ls"),
            ("*", ""),
            ("a*b*c", "aXbYbZc"),
            ("[a-c]x[!0-9]", "bxz"),
            ("[]]", "]"),
            ("[a-]", "-"),
            ("[x", "[x"),
            ("é?", "éa"),
            ("**", "ab"),
        ];
        let others = [
            ("/usr/*", "/usr/bin/ls"),
            ("**", "a/b"),
            ("*", "/"),
            ("a?b", "a/b"),
            ("a*b", "ab/"),
            ("[!a]", "a"),
            ("[!a]", "/"),
            ("ls", "/usr/bin/ls"),
            ("", "a"),
        ];
        check(Dialect::Fnmatch, &matching, &others);
    }

    #[test]
    fn in_folders_two_stars_cross_a_slash_and_one_does_not() {
        let matching = [
            ("target/*/app", "target/release/app"),
            ("target/**/app", "target/release/deps/app"),
            ("**/deps/*", "/x/target/deps/app"),
            ("a***b", "a/x/b"),
        ];
        let others = [("target/*/app", "target/release/deps/app"), ("a?b", "a/b")];
        check(Dialect::Folders, &matching, &others);
    }

    #[test]
    fn a_hostile_pattern_is_not_slow() {
        let pattern = "*a".repeat(2_000);
        for dialect in [Dialect::Names, Dialect::Fnmatch, Dialect::Folders] {
            let glob = |pattern: &str| Glob::new(pattern, dialect);
            assert!(!glob(&pattern).matches(&"a".repeat(1_999)));
            assert!(!glob(&format!("{pattern}b")).matches(&"a".repeat(4_000)));
        }
    }

    proptest! {
        #[test]
        fn a_path_without_wildcards_matches_itself_and_every_star(path in "[a-z/.]{0,20}") {
            for dialect in [Dialect::Names, Dialect::Fnmatch, Dialect::Folders] {
                prop_assert!(Glob::new(&path, dialect).matches(&path));
                let stars: Vec<&str> = path.split('/').map(|_| "*").collect();
                prop_assert!(Glob::new(&stars.join("/"), dialect).matches(&path));
            }
        }

        #[test]
        fn no_pattern_panics(pattern in ".{0,30}", path in ".{0,30}") {
            for dialect in [Dialect::Names, Dialect::Fnmatch, Dialect::Folders] {
                Glob::new(&pattern, dialect).matches(&path);
            }
        }
    }
}
