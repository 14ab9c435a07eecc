//! Parts of a demangled name left out: parameters, return type, template arguments.
//!
//! This works on the text, since a look-up has no more than that. Brackets are matched by kind, so
//! that `operator<`, `operator->` and comparisons within template arguments do not mislead it.

/// A piece of a name outside of all brackets, or one bracket with all within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    Plain(&'a str),
    /// Brackets of the kind that it begins with.
    Group(&'a str),
}

/// The name without return type, parameters, qualifiers behind them, and clone suffixes.
pub(super) fn without_parameters(full: &str) -> String {
    let name = full.split(" [clone ").next().unwrap_or(full);
    let mut out = String::with_capacity(name.len());
    let mut dropped = false;
    for token in tokens(name) {
        match token {
            Token::Group(group) if group.starts_with('(') && is_parameters(&out, group) => {
                dropped = true;
            }
            Token::Plain(text) if dropped => {
                out.push_str(without_qualifiers(text));
                dropped = false;
            }
            Token::Plain(text) | Token::Group(text) => {
                out.push_str(text);
                dropped = false;
            }
        }
    }
    without_return_type(&out).to_owned()
}

/// What `c++filt` calls a thunk: `virtual thunk to A::f()`, of which `name` has the offsets.
pub(super) fn thunk(name: &str) -> Option<String> {
    let kinds = [
        ("{virtual override thunk(", "virtual thunk to "),
        ("{non-virtual override thunk(", "non-virtual thunk to "),
        ("{override thunk(", "non-virtual thunk to "),
        ("{covariant return thunk(", "covariant return thunk to "),
    ];
    let found = kinds
        .iter()
        .find_map(|(begin, words)| Some((name.strip_prefix(begin)?, words)));
    let (mut target, words) = found?;
    target = target.strip_suffix(")}")?;
    while let Some((_, rest)) = target
        .strip_prefix('{')
        .and_then(|rest| rest.split_once("}, "))
    {
        target = rest;
    }
    Some(format!("{words}{target}"))
}

/// The name without template arguments.
pub(super) fn without_templates(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for token in tokens(name) {
        match token {
            Token::Group(group) if group.starts_with('<') && !out.is_empty() => {}
            Token::Plain(text) | Token::Group(text) => out.push_str(text),
        }
    }
    // `operator< <int>` is written with a space.
    out.truncate(out.trim_end().len());
    out
}

/// A Rust path without generic arguments: `<Vec<T> as Clone>::clone` is `<Vec as Clone>::clone`.
pub(super) fn rust(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut kept: Vec<bool> = Vec::new();
    let mut dropping = 0_usize;
    let mut before = ' ';
    for (at, c) in name.char_indices() {
        match c {
            '<' => {
                // A path begins here, or arguments of one do.
                let is_path = out.is_empty()
                    || (out.ends_with("::") && rest_of(name, at).starts_with("<impl "))
                    || !(before.is_alphanumeric() || matches!(before, '_' | ':' | '>' | '}'));
                let keep = dropping == 0 && is_path;
                kept.push(keep);
                if keep {
                    out.push(c);
                } else {
                    dropping = dropping.saturating_add(1);
                    if out.ends_with("::") && dropping == 1 {
                        out.truncate(out.len().saturating_sub(2));
                    }
                }
            }
            '>' if before != '-' && !kept.is_empty() => {
                if kept.pop() == Some(true) {
                    out.push(c);
                } else {
                    dropping = dropping.saturating_sub(1);
                }
            }
            _ if dropping == 0 => out.push(c),
            _ => {}
        }
        before = c;
    }
    out
}

fn rest_of(name: &str, at: usize) -> &str {
    name.get(at..).unwrap_or_default()
}

/// Whether a parenthesis behind `before` holds parameters.
fn is_parameters(before: &str, group: &str) -> bool {
    let is_call_operator = group == "()" && ends_with_word(before, "operator");
    let is_expression = ends_with_word(before, "decltype") || ends_with_word(before, "noexcept");
    let is_pointer = group.starts_with("(*") || group.starts_with("(&");
    group != "(anonymous namespace)" && !is_call_operator && !is_expression && !is_pointer
}

fn ends_with_word(text: &str, word: &str) -> bool {
    let Some(rest) = text.strip_suffix(word) else {
        return false;
    };
    !rest.ends_with(|c: char| c.is_alphanumeric() || c == '_')
}

/// What follows parameters, without ` const`, ` volatile`, ` &`, ` &&`, ` noexcept`.
fn without_qualifiers(text: &str) -> &str {
    let mut rest = text;
    loop {
        let words = [" const", " volatile", " &&", " &", " noexcept", " restrict"];
        let Some(shorter) = words.iter().find_map(|word| rest.strip_prefix(word)) else {
            return rest;
        };
        rest = shorter;
    }
}

/// The name behind the last space outside of all brackets, but `operator new` is one name.
fn without_return_type(name: &str) -> &str {
    let mut start = 0;
    let mut at = 0;
    for token in tokens(name) {
        let (Token::Plain(text) | Token::Group(text)) = token;
        if let Token::Plain(text) = token {
            let operator = find_operator(text);
            let before = operator.and_then(|at| text.get(..at)).unwrap_or(text);
            if let Some(space) = before.rfind(' ') {
                start = at + space + 1;
            }
            if operator.is_some() {
                break;
            }
        }
        at += text.len();
    }
    let found = name.get(start..).unwrap_or(name);
    if found.is_empty() { name } else { found }
}

/// Where the word `operator` begins.
fn find_operator(text: &str) -> Option<usize> {
    let found = text.match_indices("operator").find(|(at, word)| {
        let before = text.get(..*at).unwrap_or_default();
        let after = text.get(at + word.len()..).unwrap_or_default();
        let in_word = |c: char| c.is_alphanumeric() || c == '_';
        !before.ends_with(in_word) && !after.starts_with(in_word)
    });
    found.map(|(at, _)| at)
}

/// The tokens of a name. Unmatched brackets are plain text.
fn tokens(name: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut open: Vec<u8> = Vec::new();
    let mut start = 0;
    let mut at = 0;
    let bytes = name.as_bytes();
    let mut push = |from: usize, to: usize, is_group: bool| {
        if let Some(text) = name.get(from..to).filter(|text| !text.is_empty()) {
            tokens.push(if is_group {
                Token::Group(text)
            } else {
                Token::Plain(text)
            });
        }
    };
    while let Some(&byte) = bytes.get(at) {
        if let Some(length) = operator_length(name, at) {
            at += length;
            continue;
        }
        match byte {
            b'(' | b'<' | b'{' | b'[' => {
                if open.is_empty() {
                    push(start, at, false);
                    start = at;
                }
                open.push(byte);
            }
            b')' | b'>' | b'}' | b']' if closes(&mut open, byte, bytes.get(at.wrapping_sub(1))) => {
                let is_whole = open.is_empty();
                if is_whole {
                    push(start, at + 1, true);
                    start = at + 1;
                }
            }
            _ => {}
        }
        at += 1;
    }
    push(start, name.len(), false);
    tokens
}

/// Whether a closing bracket closes the innermost open one, which is taken off then.
fn closes(open: &mut Vec<u8>, byte: u8, before: Option<&u8>) -> bool {
    let fits = match open.last() {
        Some(b'(') => byte == b')',
        Some(b'<') => byte == b'>' && before != Some(&b'-'),
        Some(b'{') => byte == b'}',
        Some(b'[') => byte == b']',
        _ => false,
    };
    if fits {
        open.pop();
    }
    fits
}

/// The length of `operator` and its symbol, where one stands that looks like a bracket.
fn operator_length(name: &str, at: usize) -> Option<usize> {
    let rest = name.get(at..)?.strip_prefix("operator")?;
    let symbols = [
        "<=>", "<<=", ">>=", "->*", "<<", ">>", "<=", ">=", "->", "<", ">", "()", "[]",
    ];
    let symbol = symbols.iter().find(|symbol| rest.starts_with(**symbol))?;
    let before = name.get(..at)?;
    let in_word = before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
    (!in_word).then(|| "operator".len() + symbol.len())
}
