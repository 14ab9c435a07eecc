//! Runs compilers and binutils, and says which Debian package to install when one is missing.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A folder for what one test builds, removed at its end.
pub(crate) struct Workshop {
    folder: PathBuf,
}

impl Workshop {
    /// An empty folder; `name` is unique among the tests.
    pub(crate) fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        Self { folder }
    }

    /// The path of a file in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes a file into the folder.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), content).unwrap();
    }

    /// The bytes of a file in the folder.
    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Runs a tool in the folder; its arguments are the words of `arguments`. Its output.
    pub(crate) fn run(&self, tool: &str, arguments: &str) -> String {
        let words: Vec<&str> = arguments.split_whitespace().collect();
        run(&self.folder, tool, &words)
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Runs a tool in a folder and gives its standard output; panics with its errors when it fails.
pub(crate) fn run(folder: &Path, tool: &str, arguments: &[impl AsRef<OsStr>]) -> String {
    let output = Command::new(tool)
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{tool}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{tool}: {}\n{errors}",
        output.status
    );
    String::from_utf8(output.stdout).unwrap()
}

/// Whether a test can run: all tools (name, Debian package) or files are there. A test that
/// cannot run fails under CI=true, and elsewhere says that it is skipped.
pub(crate) fn has_all(needed: &[(&str, &str)]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |name: &str| std::env::split_paths(&path).any(|dir| dir.join(name).exists());
    let missing: Vec<_> = needed.iter().filter(|(name, _)| !is_there(name)).collect();
    if missing.is_empty() {
        return true;
    }
    let words: Vec<String> = missing
        .iter()
        .map(|(name, package)| format!("{name} (Debian package {package})"))
        .collect();
    let words = words.join(", ");
    assert!(std::env::var_os("CI").is_none(), "missing: {words}");
    println!("skipped, missing: {words}");
    false
}
