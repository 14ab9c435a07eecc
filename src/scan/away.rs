//! Which of the scanned paths are there now, and what may lie in one that is not.
//!
//! A network file system that is not mounted yet, or no longer, says of each of its files what the
//! disk says of one that was deleted. So nothing of a path that is away counts as gone.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The scanned paths as they were at a moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Roots(Vec<Root>);

#[derive(Clone, Debug)]
struct Root {
    /// As it was given, from the root of the file system.
    given: PathBuf,
    /// Where it led when it was there last, without links.
    real: Option<PathBuf>,
    /// Why it cannot be read, if it cannot.
    away: Option<String>,
}

impl Roots {
    /// The paths as they are now.
    pub(super) fn of(paths: &[PathBuf]) -> Self {
        let root = |path: &PathBuf| Root {
            given: std::path::absolute(path).unwrap_or_else(|_no_folder| path.clone()),
            real: None,
            away: None,
        };
        Self(paths.iter().map(root).collect()).now()
    }

    /// The same paths as they are now. Blocks.
    pub(super) fn now(&self) -> Self {
        let look = |root: &Root| {
            let (real, away) = match read_start(&root.given) {
                Ok(real) => (Some(real), None),
                Err(error) => (root.real.clone(), Some(error.to_string())),
            };
            let given = root.given.clone();
            Root { given, real, away }
        };
        Self(self.0.iter().map(look).collect())
    }

    /// Where those that are there lead, without links.
    pub(super) fn there(&self) -> impl Iterator<Item = &Path> {
        let there = self.0.iter().filter(|root| root.away.is_none());
        there.filter_map(|root| root.real.as_deref())
    }

    /// Those that are away, as they were given, and why.
    pub(super) fn away(&self) -> impl Iterator<Item = (&Path, &str)> {
        self.0
            .iter()
            .filter_map(|root| Some((root.given.as_path(), root.away.as_deref()?)))
    }

    /// Where all of them lead or led, without links.
    pub(super) fn real(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().filter_map(|root| root.real.as_deref())
    }

    /// Whether a path, as it is written, lies in one of them.
    pub(super) fn have(&self, path: &Path) -> bool {
        self.0.iter().any(|root| root.has(path))
    }

    /// Whether a file that was found by a scan, and is not there now, may lie in one that is away.
    pub(super) fn hide(&self, path: &Path) -> bool {
        let (there, away): (Vec<_>, Vec<_>) = self.0.iter().partition(|root| root.away.is_none());
        let is_in = |roots: &[&Root]| roots.iter().any(|root| root.has(path));
        // Behind a link, a file may lie in any of them.
        !away.is_empty() && (is_in(&away) || !is_in(&there))
    }
}

impl Root {
    fn has(&self, path: &Path) -> bool {
        let real = self.real.as_ref();
        path.starts_with(&self.given) || real.is_some_and(|real| path.starts_with(real))
    }
}

/// Where a path leads, if it can be read there.
fn read_start(path: &Path) -> io::Result<PathBuf> {
    let real = fs::canonicalize(path)?;
    if fs::metadata(&real)?.is_dir() {
        // The names of a folder may be at hand when its server is not.
        fs::read_dir(&real)?.next().transpose()?;
    }
    Ok(real)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_path_that_is_away_hides_what_was_in_it_and_what_may_have_been() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().canonicalize().unwrap().join(name);
        for name in ["here", "there"] {
            fs::create_dir(at(name)).unwrap();
        }
        symlink(at("there"), at("link")).unwrap();
        let all = Roots::of(&[at("here"), at("link")]);
        assert_eq!(all.away().count(), 0);
        for name in ["here/a", "there/a", "link/a", "elsewhere"] {
            assert!(!all.hide(&at(name)), "{name}");
        }
        fs::rename(at("there"), at("away")).unwrap();
        let now = all.now();
        let away: Vec<&Path> = now.away().map(|(path, _why)| path).collect();
        assert_eq!(away, [at("link")]);
        for (name, is_hidden) in [
            ("here/a", false),
            ("here", false),
            ("there/a", true),
            ("link/a", true),
            ("thereby", true),
            ("elsewhere", true),
        ] {
            assert_eq!(now.hide(&at(name)), is_hidden, "{name}");
        }
        // Who has never seen it knows less, and guesses nothing.
        let new = Roots::of(&[at("here"), at("link")]);
        assert!(new.hide(&at("there/a")) && !new.hide(&at("here/a")));
        assert!(now.have(&at("there/a")) && !now.have(&at("thereby")));
    }
}
