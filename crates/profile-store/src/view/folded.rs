//! Folded stacks, one a line: `root;caller;leaf 42`, as flamegraph.pl, inferno and speedscope read them.
//!
//! A semicolon in a name is written as a colon, and white space as one space each, since both mean something in the format.

use std::borrow::Cow;

use super::tree::{Label, Node, Tree};

/// What stands for a stack without frames, which the format has no form for.
const NO_STACK: &str = "[no stack]";

/// The lines of a tree, each with its line break, in the order of the tree. Made one by one: all together they can be much larger than the tree.
#[derive(Debug)]
pub struct FoldedLines {
    tree: Tree,
    next: usize,
    path: Path,
}

impl FoldedLines {
    /// The lines of this tree.
    pub fn of(tree: Tree) -> Self {
        Self {
            tree,
            next: 0,
            path: Path::default(),
        }
    }
}

impl Iterator for FoldedLines {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        loop {
            let node = *self.tree.nodes().get(self.next)?;
            self.next += 1;
            let path = self.path.walk(&self.tree, node);
            if node.own != 0 {
                return Some(format!("{path} {}\n", node.own));
            }
        }
    }
}

/// The path to the node at hand, as text.
#[derive(Debug, Default)]
pub(super) struct Path {
    text: String,
    /// Where the text of each depth ends.
    ends: Vec<usize>,
    style: NameStyle,
}

/// How names are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum NameStyle {
    /// As they are.
    #[default]
    Whole,
    /// At most so many characters, and such that inferno takes no part of one for a number or a comment.
    Picture {
        /// The characters.
        chars_max: usize,
    },
}

impl Path {
    pub(super) fn new(style: NameStyle) -> Self {
        Self {
            style,
            ..Self::default()
        }
    }

    /// Goes on to the next node of a walk.
    pub(super) fn walk(&mut self, tree: &Tree, node: Node) -> &str {
        if node.label == Label::Root {
            return NO_STACK;
        }
        let above = (node.depth as usize).saturating_sub(1);
        self.ends.truncate(above);
        self.text
            .truncate(self.ends.last().copied().unwrap_or_default());
        if above > 0 {
            self.text.push(';');
        }
        match self.style {
            NameStyle::Whole => push_name(&mut self.text, tree.name(node.label), |_, _| ' '),
            NameStyle::Picture { chars_max } => {
                let name = shortened(tree.name(node.label), chars_max);
                push_name(&mut self.text, &name, picture_joint);
            }
        }
        self.ends.push(self.text.len());
        &self.text
    }
}

/// Writes a name that cannot be taken for the end of one, with these joints between two words.
fn push_name(text: &mut String, name: &str, joint: impl Fn(&str, &str) -> char) {
    let mut before = "";
    for word in name.split(|c: char| c.is_whitespace() || c.is_control()) {
        if word.is_empty() {
            continue;
        }
        if !before.is_empty() {
            text.push(joint(before, word));
        }
        text.extend(word.chars().map(|c| if c == ';' { ':' } else { c }));
        before = word;
    }
    if before.is_empty() {
        text.push_str("[unnamed]");
    }
}

/// inferno takes a word of digits at the end for a number, and a line that begins with `#` and a space for a comment.
fn picture_joint(before: &str, after: &str) -> char {
    let is_number = after.chars().all(|c| c.is_ascii_digit() || c == '.');
    if is_number || before == "#" {
        '\u{a0}'
    } else {
        ' '
    }
}

/// The beginning and the end of a long name: names of one template differ in either.
fn shortened(name: &str, chars_max: usize) -> Cow<'_, str> {
    let count = name.chars().count();
    if count <= chars_max {
        return name.into();
    }
    let head = chars_max / 2;
    let tail = chars_max.saturating_sub(head + 1);
    let mut short: String = name.chars().take(head).collect();
    short.push('…');
    short.extend(name.chars().skip(count.saturating_sub(tail)));
    short.into()
}
