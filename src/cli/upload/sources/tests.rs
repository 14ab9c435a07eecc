//! Tests of the names of sources and of their zip.

use proptest::prelude::*;

use super::names::PathParts;
use super::*;

fn path(compilation_directory: &str, directory: &str, name: &str, is_base: bool) -> String {
    PathParts {
        compilation_directory,
        directory,
        name,
        is_base,
    }
    .path()
}

#[test]
fn names_are_joined_by_llvms_rule_and_made_canonical() {
    assert_eq!(path("/b", "", "m.c", false), "/b/m.c");
    assert_eq!(path("/b", "inc", "a.h", false), "/b/inc/a.h");
    assert_eq!(path("/b", "../inc", "a.h", false), "/inc/a.h");
    assert_eq!(path("/b", "/usr/include", "a.h", false), "/usr/include/a.h");
    assert_eq!(path("/b", "inc", "/x//y/./a.h", false), "/x/y/a.h");
    assert_eq!(
        path("./string", "./string", "memmem.c", true),
        "./string/memmem.c"
    );
    assert_eq!(path("/b", "/b", "m.c", true), "/b/m.c");
    assert_eq!(path("/b", "", "../../../m.c", false), "/m.c");
}

proptest! {
    #[test]
    fn a_source_is_bundled_under_the_path_that_the_server_looks_for(
        directory in "(/?[a./]{0,12})?",
        name in "[a./]{1,12}",
    ) {
        let joined = if name.starts_with('/') || directory.is_empty() {
            name.clone()
        } else {
            format!("{directory}/{name}")
        };
        let bundled = path("", &directory, &name, false);
        let looked_for = crate::artifacts::canonical_source_path(&joined);
        prop_assert_eq!(bundled, looked_for.unwrap_or(joined));
    }
}

#[test]
fn a_source_map_replaces_whole_folders_only() {
    let map: SourceMap = "/build/src/=/home/me/src".parse().unwrap();
    assert_eq!(map.apply("/build/src/a.c"), Some("/home/me/src/a.c".into()));
    assert_eq!(map.apply("/build/src2/a.c"), None);
    assert!("/build".parse::<SourceMap>().is_err());
    assert!("=/x".parse::<SourceMap>().is_err());
}
