//! Opening files under the scanned paths, and nothing else, whatever links others make meanwhile.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};

/// Opens a file of a path without links in it; one that has become a link since is not followed.
///
/// # Errors
/// If it cannot be opened, or is no regular file.
pub(super) fn open_without_links(path: &Path) -> io::Result<File> {
    // A pipe that took the place of a file must not be waited for.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let without_links = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let opened = match openat2(CWD, path, flags, Mode::empty(), without_links) {
        // Before Linux 5.6, and where a sandbox does not know it.
        Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => {
            openat(CWD, path, flags | OFlags::NOFOLLOW, Mode::empty())
        }
        opened => opened,
    };
    let file = File::from(opened?);
    if !file.metadata()?.is_file() {
        let what = format!("{} is no regular file", path.display());
        return Err(io::Error::new(io::ErrorKind::NotFound, what));
    }
    Ok(file)
}

/// Opens the file at `path`, which may have links in it, if it lies in one of the folders in the end.
///
/// `None` when there is no such file there.
///
/// # Errors
/// If that is not known.
pub(super) fn open_within(roots: &[PathBuf], path: &Path) -> io::Result<Option<File>> {
    let opened = std::fs::canonicalize(path).and_then(|real| {
        let is_within = roots.iter().any(|root| real.starts_with(root));
        let file = is_within.then(|| open_without_links(&real));
        file.transpose()
    });
    match opened {
        Err(error) if is_absence(&error) => Ok(None),
        opened => opened,
    }
}

/// Whether an error says that there is no such file, rather than that nobody knows.
pub(super) fn is_absence(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::InvalidFilename
            | io::ErrorKind::IsADirectory
    ) || error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_what_lies_within_in_the_end_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().canonicalize().unwrap().join(name);
        std::fs::create_dir(at("in")).unwrap();
        std::fs::write(at("in/a"), "a").unwrap();
        std::fs::write(at("secret"), "s").unwrap();
        symlink(at("secret"), at("in/out")).unwrap();
        symlink(at("in/a"), at("in/inner")).unwrap();
        symlink(at("in/loop"), at("in/loop")).unwrap();
        let roots = [at("in")];
        for there in ["in/a", "in/inner", "in/../in/a"] {
            assert!(
                open_within(&roots, &at(there)).unwrap().is_some(),
                "{there}"
            );
        }
        for absent in [
            "in/out",
            "secret",
            "in/../secret",
            "in/loop",
            "in",
            "in/a/b",
        ] {
            assert!(
                open_within(&roots, &at(absent)).unwrap().is_none(),
                "{absent}"
            );
        }
        assert!(open_without_links(&at("in/inner")).is_err());
    }

    #[test]
    fn a_pipe_is_no_file_and_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().canonicalize().unwrap().join("pipe");
        rustix::fs::mknodat(
            CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            Mode::RUSR | Mode::WUSR,
            0,
        )
        .unwrap();
        assert!(open_without_links(&pipe).is_err());
    }
}
