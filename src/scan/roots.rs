//! Opening files under the scanned paths, and nothing else, whatever links others make meanwhile.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;

use super::away::Roots;

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
        Err(Errno::NOSYS | Errno::PERM) => {
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

/// Opens a file that a scan found; `None` when it is gone, which one of a scanned path that is away is
/// not.
///
/// # Errors
/// If it cannot be opened, or nobody knows whether it is there.
pub(super) fn open_known(roots: &Roots, path: &Path) -> io::Result<Option<File>> {
    match open_without_links(path) {
        Err(error) if is_absence(&error) || is_refusal(&error) => {}
        opened => return opened.map(Some),
    }
    let now = roots.now();
    if now.hide(path) {
        let away = now
            .away()
            .next()
            .map(|(root, why)| format!("{}: {why}", root.display()));
        return Err(io::Error::other(away.unwrap_or_default()));
    }
    // It may have come back meanwhile, with the path that it lies in.
    match open_without_links(path) {
        Err(error) if is_absence(&error) => Ok(None),
        opened => opened.map(Some),
    }
}

/// Opens the file at `path`, which may have links in it, if it is one of the scanned paths by its name
/// and in the end. A path of any other name is not even looked for.
///
/// `None` when there is no such file there.
///
/// # Errors
/// If that is not known.
pub(super) fn open_within(roots: &Roots, path: &Path) -> io::Result<Option<File>> {
    if !roots.have(path) {
        return Ok(None);
    }
    let opened = std::fs::canonicalize(path).and_then(|real| {
        let is_within = roots.real().any(|root| real.starts_with(root));
        let file = is_within.then(|| open_without_links(&real));
        file.transpose()
    });
    match opened {
        Err(error) if is_absence(&error) || is_refusal(&error) => Ok(None),
        opened => opened,
    }
}

/// Whether an error says that there is no such file, rather than that nobody knows.
pub(super) fn is_absence(error: &io::Error) -> bool {
    let sockets_and_loops = [Errno::NXIO, Errno::LOOP].map(Errno::raw_os_error);
    let is_one = |number: i32| sockets_and_loops.contains(&number);
    matches!(
        error.kind(),
        io::ErrorKind::NotFound
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::InvalidFilename
            | io::ErrorKind::IsADirectory
    ) || error.raw_os_error().is_some_and(is_one)
}

/// Whether an error says that this server may not read a file. Unlike failures of disks that stays so,
/// and to those who ask it is as if the file were not there.
pub(super) fn is_refusal(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

/// Whether the system has failed, rather than that what was read is damaged: decoders wrap the errors
/// of what they read from.
pub(super) fn is_of_system(error: &io::Error) -> bool {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = next {
        let io = error.downcast_ref::<io::Error>();
        if io.is_some_and(|io| io.raw_os_error().is_some()) {
            return true;
        }
        // The source of a wrapped error is that of what it wraps.
        let wrapped = io.and_then(io::Error::get_ref);
        next = match wrapped {
            Some(wrapped) => Some(wrapped),
            None => error.source(),
        };
    }
    false
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
        symlink(at("in"), at("outer")).unwrap();
        let roots = Roots::of(&[at("in")]);
        for there in ["in/a", "in/inner", "in/../in/a"] {
            assert!(
                open_within(&roots, &at(there)).unwrap().is_some(),
                "{there}"
            );
        }
        for absent in [
            "in/out",
            "secret",
            "outer/a",
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
    fn a_root_that_is_a_link_has_both_paths() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().canonicalize().unwrap().join(name);
        std::fs::create_dir(at("in")).unwrap();
        std::fs::write(at("in/a"), "a").unwrap();
        symlink(at("in"), at("link")).unwrap();
        let roots = Roots::of(&[at("link")]);
        for there in ["in/a", "link/a"] {
            let opened = open_within(&roots, &at(there)).unwrap();
            assert!(opened.is_some(), "{there}");
        }
    }

    #[test]
    fn errors_say_whether_a_file_is_absent_refused_or_not_known() {
        for (number, is_absent, is_refused) in [
            (Errno::NOENT, true, false),
            (Errno::NOTDIR, true, false),
            (Errno::NAMETOOLONG, true, false),
            (Errno::LOOP, true, false),
            (Errno::NXIO, true, false),
            (Errno::ACCESS, false, true),
            (Errno::IO, false, false),
            (Errno::STALE, false, false),
            (Errno::NOSPC, false, false),
            (Errno::MFILE, false, false),
            (Errno::NOMEM, false, false),
        ] {
            let error = io::Error::from(number);
            assert_eq!(is_absence(&error), is_absent, "{error}");
            assert_eq!(is_refusal(&error), is_refused, "{error}");
            let wrapped = io::Error::new(error.kind(), io::Error::other(error));
            assert!(is_of_system(&wrapped), "{wrapped}");
        }
        assert!(!is_of_system(&io::Error::other("bad checksum")));
        assert!(!is_of_system(&io::ErrorKind::UnexpectedEof.into()));
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
