//! Patterns for file names, as shells have them: `*`, `?` and `**`.

use std::path::Path;
use std::str::FromStr;

/// Longest pattern; matching takes its length times that of the name.
const PATTERN_CHARS_MAX: usize = 1_000;

/// A pattern. One without `/` is for file names, one with `/` for the path as it is printed, where
/// `*` stays within a folder and `**` does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Glob {
    tokens: Vec<Token>,
    is_for_path: bool,
}

/// A pattern that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a pattern has 1 to {PATTERN_CHARS_MAX} characters, this one has {0}")]
pub(crate) struct ParseGlobError(usize);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Char(char),
    AnyChar,
    WithinFolder,
    Anything,
}

impl FromStr for Glob {
    type Err = ParseGlobError;

    fn from_str(pattern: &str) -> Result<Self, Self::Err> {
        let length = pattern.chars().count();
        if !(1..=PATTERN_CHARS_MAX).contains(&length) {
            return Err(ParseGlobError(length));
        }
        let mut tokens = Vec::new();
        for c in pattern.chars() {
            let token = match (c, tokens.last()) {
                ('*', Some(Token::WithinFolder)) => {
                    tokens.pop();
                    Token::Anything
                }
                ('*', Some(Token::Anything)) => continue,
                ('*', _) => Token::WithinFolder,
                ('?', _) => Token::AnyChar,
                _ => Token::Char(c),
            };
            tokens.push(token);
        }
        Ok(Self {
            tokens,
            is_for_path: pattern.contains('/'),
        })
    }
}

impl Glob {
    /// Whether the pattern is for this file.
    pub(crate) fn matches(&self, path: &Path) -> bool {
        let text = if self.is_for_path {
            path.to_string_lossy()
        } else {
            path.file_name().unwrap_or_default().to_string_lossy()
        };
        self.matches_text(&text)
    }

    /// All positions in the pattern that are reached are carried along, so that no pattern takes
    /// exponential time.
    fn matches_text(&self, text: &str) -> bool {
        let mut reached = vec![false; self.tokens.len() + 1];
        mark(&mut reached, 0);
        self.skip_stars(&mut reached);
        for c in text.chars() {
            let mut next = vec![false; reached.len()];
            for (at, token) in self.tokens.iter().enumerate() {
                if !reached.get(at).copied().unwrap_or(false) {
                    continue;
                }
                match token {
                    Token::Char(wanted) if *wanted == c => mark(&mut next, at + 1),
                    Token::AnyChar if c != '/' => mark(&mut next, at + 1),
                    Token::WithinFolder if c != '/' => mark(&mut next, at),
                    Token::Anything => mark(&mut next, at),
                    _ => {}
                }
            }
            reached = next;
            self.skip_stars(&mut reached);
        }
        reached.last().copied().unwrap_or(false)
    }

    fn skip_stars(&self, reached: &mut [bool]) {
        for (at, token) in self.tokens.iter().enumerate() {
            let is_star = matches!(token, Token::WithinFolder | Token::Anything);
            if is_star && reached.get(at).copied().unwrap_or(false) {
                mark(reached, at + 1);
            }
        }
    }
}

fn mark(reached: &mut [bool], at: usize) {
    if let Some(flag) = reached.get_mut(at) {
        *flag = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, path: &str) -> bool {
        pattern.parse::<Glob>().unwrap().matches(Path::new(path))
    }

    #[test]
    fn a_pattern_without_slash_is_for_the_file_name() {
        assert!(matches("*.so*", "/usr/lib/libc.so.6"));
        assert!(matches("app", "/srv/app"));
        assert!(matches("a?p", "app"));
        assert!(!matches("app", "/srv/app/other"));
        assert!(!matches("*.so", "libc.so.6"));
    }

    #[test]
    fn a_pattern_with_slash_is_for_the_path() {
        assert!(matches("target/*/app", "target/release/app"));
        assert!(!matches("target/*/app", "target/release/deps/app"));
        assert!(matches("target/**/app", "target/release/deps/app"));
        assert!(matches("**/deps/*", "/x/target/deps/app"));
    }

    #[test]
    fn a_pattern_of_many_stars_takes_no_exponential_time() {
        let pattern = "*a".repeat(100) + "b";
        assert!(!matches(&pattern, &"a".repeat(5_000)));
        assert!("".parse::<Glob>().is_err());
        assert!("x".repeat(1_001).parse::<Glob>().is_err());
    }
}
