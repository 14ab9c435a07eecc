//! Which scanned files have a name: for elfutils' metadata query.

use std::time::Instant;

use super::Scan;
use super::entry::Found;
use crate::artifacts::ArtifactKind;

/// A scanned file that matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFile {
    /// What it is to its build ID.
    pub kind: ArtifactKind,
    /// The build ID, in lower-case hex.
    pub build_id: String,
    /// Its path, in an archive that of the member.
    pub file: String,
    /// The path of its archive.
    pub archive: Option<String>,
}

impl Scan {
    /// The scanned files whose path is asked for, one entry for each kind, a few more than
    /// `results_max` at most; and whether all files were looked at. Blocks, at most until `deadline`.
    pub fn files_named(
        &self,
        is_asked_for: impl Fn(&str) -> bool,
        (results_max, deadline): (usize, Instant),
    ) -> (Vec<NamedFile>, bool) {
        let is_complete = self.inner.sight().is_clear();
        let mut named = Vec::new();
        for file in self.inner.catalogue.files() {
            if Instant::now() >= deadline {
                return (named, false);
            }
            for found in file.found() {
                let path = found.shown_path();
                if is_asked_for(&path) {
                    named.extend(entries(&found, &path));
                }
            }
            if named.len() > results_max {
                break;
            }
        }
        (named, is_complete)
    }
}

fn entries(found: &Found, path: &str) -> Vec<NamedFile> {
    let kinds = [ArtifactKind::Executable, ArtifactKind::Debuginfo];
    let Some(traits) = found.traits() else {
        return Vec::new();
    };
    let kinds = kinds.into_iter().filter(|kind| traits.is(*kind));
    kinds
        .map(|kind| NamedFile {
            kind,
            build_id: traits.id.to_string(),
            file: path.to_owned(),
            archive: found.shown_archive(),
        })
        .collect()
}
