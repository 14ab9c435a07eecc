//! File name patterns as `GET /metadata?key=glob` has them: fnmatch(3) with `FNM_PATHNAME`.
//!
//! `*`, `?` and `[...]` never match a `/`, so pattern and path are compared part by part, and each
//! part costs at most the product of the two lengths: no pattern is slow.

/// Whether `path` matches `pattern`, whole.
pub(super) fn matches(pattern: &str, path: &str) -> bool {
    let mut patterns = pattern.split('/');
    let mut parts = path.split('/');
    loop {
        match (patterns.next(), parts.next()) {
            (None, None) => return true,
            (Some(pattern), Some(part)) if part_matches(pattern, part) => {}
            _ => return false,
        }
    }
}

/// What the next characters of a pattern accept.
enum Item {
    /// Any characters, also none.
    Any,
    /// One character of any kind.
    One,
    /// One character of a set, or one outside of it.
    Set {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
    /// This character.
    Literal(char),
}

impl Item {
    fn accepts(&self, c: char) -> bool {
        match self {
            Self::Any => false,
            Self::One => true,
            Self::Literal(literal) => *literal == c,
            Self::Set { negated, ranges } => {
                ranges
                    .iter()
                    .any(|(first, last)| (*first..=*last).contains(&c))
                    != *negated
            }
        }
    }
}

fn part_matches(pattern: &str, part: &str) -> bool {
    let items = items(pattern);
    let characters: Vec<char> = part.chars().collect();
    // Where the last `*` stands, and how far it was stretched: the only choice to come back to.
    let mut star: Option<(usize, usize)> = None;
    let (mut item, mut character) = (0, 0);
    loop {
        match (items.get(item), characters.get(character)) {
            (Some(Item::Any), _) => {
                star = Some((item, character));
                item = item.saturating_add(1);
                continue;
            }
            (Some(found), Some(c)) if found.accepts(*c) => {
                item = item.saturating_add(1);
                character = character.saturating_add(1);
                continue;
            }
            (None, None) => return true,
            _ => {}
        }
        let Some((at, stretched)) = star else {
            return false;
        };
        if stretched >= characters.len() {
            return false;
        }
        let stretched = stretched.saturating_add(1);
        star = Some((at, stretched));
        item = at.saturating_add(1);
        character = stretched;
    }
}

fn items(pattern: &str) -> Vec<Item> {
    let mut items = Vec::new();
    let mut rest = pattern.chars();
    while let Some(c) = rest.next() {
        items.push(match c {
            '*' => Item::Any,
            '?' => Item::One,
            '[' => match set(rest.as_str()) {
                Some((set, behind)) => {
                    rest = behind.chars();
                    set
                }
                // A bracket that is never closed stands for itself.
                None => Item::Literal('['),
            },
            literal => Item::Literal(literal),
        });
    }
    items
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

    #[test]
    fn patterns_match_as_fnmatch_does_it_with_paths() {
        for (pattern, path) in [
            ("/usr/bin/*", "/usr/bin/ls"),
            ("/usr/*/l?", "/usr/bin/ls"),
            ("*", ""),
            ("a*b*c", "aXbYbZc"),
            ("[a-c]x[!0-9]", "bxz"),
            ("[]]", "]"),
            ("[a-]", "-"),
            ("[x", "[x"),
            ("é?", "éa"),
        ] {
            assert!(matches(pattern, path), "{pattern} {path}");
        }
        for (pattern, path) in [
            ("/usr/*", "/usr/bin/ls"),
            ("*", "/"),
            ("a?b", "a/b"),
            ("a*b", "ab/"),
            ("[!a]", "a"),
            ("[!a]", "/"),
            ("ls", "/usr/bin/ls"),
            ("", "a"),
        ] {
            assert!(!matches(pattern, path), "{pattern} {path}");
        }
    }

    #[test]
    fn a_hostile_pattern_is_not_slow() {
        let pattern = "*a".repeat(2_000);
        assert!(!matches(&pattern, &"a".repeat(1_999)));
        assert!(!matches(&format!("{pattern}b"), &"a".repeat(8_000)));
    }

    proptest! {
        #[test]
        fn a_path_without_wildcards_matches_itself_and_every_star(path in "[a-z/.]{0,20}") {
            prop_assert!(matches(&path, &path));
            let stars: Vec<&str> = path.split('/').map(|_| "*").collect();
            prop_assert!(matches(&stars.join("/"), &path));
        }

        #[test]
        fn no_pattern_panics(pattern in ".{0,30}", path in ".{0,30}") {
            matches(&pattern, &path);
        }
    }
}
