//! Which rooms of each program may use which: imports point from the edge to the core, so that
//! the core can be read, tested and moved without the edge.

use std::collections::BTreeSet;

use crate::files::without_unit_tests;
use crate::repository::rust_files;
use crate::room_tables::{PROGRAMS, Program};
use crate::{Breach, assert_none};

fn breaches(path: &str, text: &str) -> Vec<Breach> {
    let Some((program, room)) = room_of(path) else {
        return Vec::new();
    };
    let Some((_, allowed)) = program.rooms.iter().find(|(name, _)| *name == room) else {
        return vec![Breach(format!(
            "{path}: the room `{room}` is not in the table of tests/tidy/room_tables.rs"
        ))];
    };
    used_rooms(program, text)
        .into_iter()
        .filter(|used| *used != room && !allowed.contains(&used.as_str()))
        .map(|used| {
            Breach(format!(
                "{path}: `{room}` may not use `{used}`, only {allowed:?}"
            ))
        })
        .collect()
}

/// `src/http/error.rs` and `src/http.rs` are in the room `http`; main.rs and lib.rs in none.
fn room_of(path: &str) -> Option<(&'static Program, &str)> {
    let mut programs = PROGRAMS.iter();
    let (program, within) =
        programs.find_map(|program| Some((program, path.strip_prefix(program.folder)?)))?;
    let room = within.split('/').next()?.trim_end_matches(".rs");
    (room != "main" && room != "lib").then_some((program, room))
}

/// The names that follow `crate::` in code, also in a group: `crate::{app::App, limits}`.
fn used_rooms(program: &Program, text: &str) -> BTreeSet<String> {
    let code = without_comments(without_unit_tests(text));
    let mut rooms = BTreeSet::new();
    let mut rest = code.as_str();
    while let Some((_, after)) = rest.split_once("crate::") {
        rest = after;
        match after.strip_prefix('{') {
            Some(group) => rooms.extend(heads(group)),
            None => rooms.extend(head(after)),
        }
    }
    // Macros and items of the root module are no rooms.
    rooms.retain(|name| program.rooms.iter().any(|(room, _)| room == name));
    rooms
}

/// The first name of each path of a group, up to the brace that closes it.
fn heads(group: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut depth = 0;
    let mut at_start = true;
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => at_start = true,
            c if at_start && !c.is_whitespace() => {
                names.extend(group.get(at..).and_then(head));
                at_start = false;
            }
            _ => {}
        }
    }
    names
}

fn head(path: &str) -> Option<String> {
    let end = path
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(path.len());
    path.get(..end)
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
}

fn without_comments(text: &str) -> String {
    let code = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    code.collect::<Vec<&str>>().join("\n")
}

#[test]
fn rooms_use_only_what_they_may() {
    let files = rust_files();
    let found: Vec<Breach> = files
        .iter()
        .flat_map(|f| breaches(&f.path, &f.text))
        .collect();
    assert_none(&found);
}

/// A room that may use itself through others: then neither can be read, tested or moved alone.
fn cycles(rooms: &[(&str, &[&str])]) -> Vec<Breach> {
    let used = |room: &str| {
        let found = rooms.iter().find(|(name, _)| *name == room);
        found.map_or(&[][..], |(_, used)| used)
    };
    let on_a_cycle = |room: &str| {
        let (mut waiting, mut reached) = (used(room).to_vec(), BTreeSet::new());
        while let Some(next) = waiting.pop() {
            if reached.insert(next) {
                waiting.extend(used(next));
            }
        }
        reached.contains(room)
    };
    let on_cycles = rooms.iter().filter(|(room, _)| on_a_cycle(room));
    on_cycles
        .map(|(room, _)| Breach(format!("`{room}` may use itself through other rooms")))
        .collect()
}

#[test]
fn no_room_may_use_itself_through_others() {
    for program in PROGRAMS {
        assert_none(&cycles(program.rooms));
    }
}

#[test]
fn every_room_of_the_tables_is_there() {
    let files = rust_files();
    for program in PROGRAMS {
        let rooms = files.iter().filter_map(|file| room_of(&file.path));
        let of_program = rooms.filter(|(of, _)| of.folder == program.folder);
        let there: BTreeSet<&str> = of_program.map(|(_, room)| room).collect();
        let table: BTreeSet<&str> = program.rooms.iter().map(|(room, _)| *room).collect();
        assert_eq!(table, there, "{}", program.folder);
    }
}

mod bad_examples {
    use super::*;

    #[test]
    fn the_core_that_uses_the_edge_is_a_breach() {
        let text = "use crate::http::ApiError;\n";
        assert_eq!(breaches("src/artifacts/mod.rs", text).len(), 1);
        assert_eq!(breaches("src/cli/serve.rs", text), []);
        let store = "crates/profile-store/src";
        assert_eq!(breaches(&format!("{store}/query/mod.rs"), text).len(), 1);
        assert_eq!(breaches(&format!("{store}/cli/serve.rs"), text), []);
    }

    #[test]
    fn a_group_of_imports_is_seen_through() {
        let text = "use crate::{artifacts::{Artifact, Origin}, cli,\n    limits::Limits};\n";
        let used: Vec<String> = used_rooms(&PROGRAMS[0], text).into_iter().collect();
        assert_eq!(used, ["artifacts", "cli", "limits"]);
        assert_eq!(breaches("src/symbolize/mod.rs", text).len(), 1);
    }

    #[test]
    fn a_path_in_the_code_is_seen_and_one_in_a_comment_is_not() {
        let text = "/// See [`crate::http`].\nfn f() -> crate::app::App { crate::app::new() }\n";
        assert_eq!(breaches("src/limits.rs", text).len(), 1);
    }

    #[test]
    fn rooms_that_use_each_other_are_breaches() {
        let rooms: [(&str, &[&str]); 4] =
            [("a", &["b"]), ("b", &["c"]), ("c", &["a"]), ("d", &["a"])];
        assert_eq!(cycles(&rooms).len(), 3);
    }

    #[test]
    fn a_room_that_nobody_planned_is_a_breach() {
        assert_eq!(breaches("src/misc2/mod.rs", "").len(), 1);
    }
}
