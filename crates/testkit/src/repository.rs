//! Where this repository and its target folder are, for tests that read files of the repository.

use std::path::PathBuf;

/// The root of the repository.
///
/// # Panics
/// If the repository was moved away since the tests were built.
pub fn root() -> PathBuf {
    let testkit = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    testkit
        .ancestors()
        .nth(2)
        .expect("crates/testkit lies two folders below the root")
        .to_owned()
}

/// A folder below cargo's target folder that outlives the tests: `target/tmp/NAME`, created.
///
/// # Panics
/// If it cannot be created.
pub fn target_tmp(name: &str) -> PathBuf {
    // A test runs from target/PROFILE/deps, a doc test from elsewhere.
    let deps = std::env::current_exe().ok().and_then(|exe| {
        exe.ancestors()
            .find(|folder| folder.ends_with("deps"))
            .map(PathBuf::from)
    });
    let target = deps
        .and_then(|deps| deps.ancestors().nth(2).map(PathBuf::from))
        .unwrap_or_else(|| root().join("target"));
    let folder = target.join("tmp").join(name);
    std::fs::create_dir_all(&folder)
        .unwrap_or_else(|error| panic!("{} cannot be created: {error}", folder.display()));
    folder
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_has_the_workspace_manifest() {
        let manifest = std::fs::read_to_string(root().join("Cargo.toml")).expect("a manifest");
        assert!(manifest.contains("[workspace]"), "{manifest}");
    }

    #[test]
    fn the_temporary_folder_lies_below_the_target_folder() {
        assert!(target_tmp("empty").ends_with("tmp/empty"));
    }
}
