//! Which file of this host has the symbols of a binary.

use std::fs::File;
use std::path::{Path, PathBuf};

use object::read::ReadCache;
use object::read::elf::ElfFile64;
use object::{Endianness, Object as _, ObjectSection as _, SectionKind};
use unhex_api::artifacts::ArtifactKind;
use unhex_build_id::BuildId;

use crate::runtimes::within;

/// The largest file that is sent: debug files of browsers have 2 GiB.
const FILE_BYTES_MAX: u64 = 4 << 30;
/// Where distributions install debug files, by build ID.
const DEBUG_FOLDER: &str = "/usr/lib/debug/.build-id";

/// A file with symbols, open.
#[derive(Debug)]
pub struct LocalFile {
    /// The file.
    pub file: File,
    /// What it is.
    pub kind: ArtifactKind,
    /// Its name without folders.
    pub name: String,
    /// Its length.
    pub size_bytes: u64,
}

/// The best file for a build ID as a process sees files, `process` being its folder under `/proc`: the debug file that is installed, else the binary
/// at its path. None if neither has symbols, or is another build.
pub fn find(process: &Path, path: &Path, build_id: &BuildId) -> Option<LocalFile> {
    let hex = build_id.to_string();
    let (first, rest) = hex.split_at_checked(2)?;
    let debug_file = PathBuf::from(format!("{DEBUG_FOLDER}/{first}/{rest}.debug"));
    let debug_file = with_symbols(process, &debug_file, build_id, ArtifactKind::Debuginfo);
    debug_file.or_else(|| with_symbols(process, path, build_id, ArtifactKind::Executable))
}

fn with_symbols(
    process: &Path,
    path: &Path,
    build_id: &BuildId,
    kind: ArtifactKind,
) -> Option<LocalFile> {
    let file = within::open(process, path).ok()?;
    let found = file.metadata().ok()?;
    let is_sound = found.is_file()
        && found.len() <= FILE_BYTES_MAX
        && has_symbols(file.try_clone().ok()?, build_id);
    is_sound.then(|| LocalFile {
        file,
        kind,
        name: path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
        size_bytes: found.len(),
    })
}

/// Whether a file is of this build and has a symbol table or DWARF. Reads headers only.
fn has_symbols(file: File, build_id: &BuildId) -> bool {
    let cache = ReadCache::new(file);
    let Ok(file) = ElfFile64::<Endianness, _>::parse(&cache) else {
        return false;
    };
    let is_of_build = matches!(file.build_id(), Ok(Some(id)) if id == build_id.as_bytes());
    is_of_build
        && file.sections().any(|section| {
            let is_there = section.kind() != SectionKind::UninitializedData;
            is_there && matches!(section.name(), Ok(".symtab" | ".debug_info"))
        })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use unhex_testkit::fixture::{Fixture, Program};

    use super::*;

    struct Host {
        proc: tempfile::TempDir,
        program: Fixture,
    }

    impl Host {
        fn new() -> Self {
            let proc = tempfile::tempdir().unwrap();
            let process = proc.path().join("7");
            fs::create_dir_all(proc.path().join("container/bin")).unwrap();
            fs::create_dir(&process).unwrap();
            symlink(proc.path().join("container"), process.join("root")).unwrap();
            let program = Program::c("int main(void) { return 7; }").flags(&["-g"]);
            Self {
                proc,
                program: program.build(),
            }
        }

        fn put(&self, from: &Path, path: &str) {
            let to = self.proc.path().join("container").join(path);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(from, to).unwrap();
        }

        fn found(&self, build_id: &str) -> Option<(ArtifactKind, String)> {
            let process = self.proc.path().join("7");
            let build_id = build_id.parse().unwrap();
            let found = find(&process, Path::new("/bin/program"), &build_id)?;
            assert_eq!(found.size_bytes, found.file.metadata().unwrap().len());
            Some((found.kind, found.name))
        }
    }

    #[test]
    fn a_binary_with_symbols_is_its_own_debug_file_and_a_stripped_one_has_none() {
        let host = Host::new();
        let build_id = host.program.build_id();
        assert_eq!(host.found(&build_id), None);
        host.put(&host.program.stripped(), "bin/program");
        assert_eq!(host.found(&build_id), None);
        host.put(host.program.path(), "bin/program");
        let expected = (ArtifactKind::Executable, "program".to_owned());
        assert_eq!(host.found(&build_id), Some(expected));
        assert_eq!(host.found("0a0b"), None);
    }

    #[test]
    fn an_installed_debug_file_is_better() {
        let host = Host::new();
        let build_id = host.program.build_id();
        let (first, rest) = build_id.split_at(2);
        host.put(host.program.path(), "bin/program");
        let installed = format!("usr/lib/debug/.build-id/{first}/{rest}.debug");
        host.put(&host.program.debug_only(), &installed);
        let found = host.found(&build_id);
        assert_eq!(
            found,
            Some((ArtifactKind::Debuginfo, format!("{rest}.debug")))
        );
    }
}
