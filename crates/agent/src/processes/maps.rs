//! What `/proc/PID/maps` says: the executable mappings of a process, one a line.
//!
//! Paths are whatever a process likes to call its files: spaces, line breaks (the kernel writes them as `\012`), and
//! names that look like marks of the kernel. The lines are taken apart from the left, so that a path cannot change
//! what stands before it.

use unhex_symbols::address::{FileOffset, ProcessAddress};
use unhex_symbols::segments::Mapping;

/// What the kernel writes after the path of a file that was deleted since.
const DELETED: &[u8] = b" (deleted)";

/// An executable mapping, before anybody looked into its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedFile {
    /// Where it lies, and which part of the file it is.
    pub mapping: Mapping,
    /// The inode of the file; 0 where there is none.
    pub inode: u64,
    /// Its device and its generation there, where a record said them: with the inode they tell it from all others.
    pub told: Option<(u64, u64)>,
    /// What is behind it.
    pub backing: Backing,
}

/// What is behind a mapping, as far as its name says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backing {
    /// A file, which may lie in memory only or be deleted.
    File {
        /// As the process sees it, without the mark of a deleted file.
        path: Vec<u8>,
    },
    /// The code that the kernel gives every process.
    Vdso,
    /// Memory without a file.
    Anonymous,
}

impl Backing {
    /// What a name means, in a line of `/proc/PID/maps` or a record of perf, which says `//anon` where there is none.
    pub fn of_name(name: &[u8]) -> Self {
        match name {
            b"[vdso]" => Self::Vdso,
            [] | [b'[', ..] | [b'/', b'/', ..] => Self::Anonymous,
            _ => Self::File {
                path: name.strip_suffix(DELETED).unwrap_or(name).to_vec(),
            },
        }
    }
}

/// The mapping that a line says, without its line break; `None` for those that are not executable, for
/// `[vsyscall]`, which is the kernel's, and for what is no such line.
pub(super) fn executable_mapping(line: &[u8]) -> Option<MappedFile> {
    let (range, rest) = word(line)?;
    let (permissions, rest) = word(rest)?;
    if permissions.get(2) != Some(&b'x') {
        return None;
    }
    let (offset, rest) = word(rest)?;
    let (_device, rest) = word(rest)?;
    let (inode, rest) = word(rest).unwrap_or((rest, &[]));
    let dash = range.iter().position(|&byte| byte == b'-')?;
    let (start, end) = (hex(range.get(..dash)?)?, hex(range.get(dash + 1..)?)?);
    let name = rest.trim_ascii_start();
    if start >= end || name == b"[vsyscall]" {
        return None;
    }
    Some(MappedFile {
        mapping: Mapping {
            start: ProcessAddress(start),
            end: ProcessAddress(end),
            file_offset: FileOffset(hex(offset)?),
        },
        inode: std::str::from_utf8(inode).ok()?.parse().ok()?,
        told: None,
        backing: Backing::of_name(&without_escapes(name)),
    })
}

/// What stands before the first space, and what after it.
fn word(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = line.iter().position(|&byte| byte == b' ')?;
    Some((line.get(..space)?, line.get(space + 1..)?))
}

fn hex(digits: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// A path as it is: the kernel writes a line break as `\012`, and nothing else so.
fn without_escapes(name: &[u8]) -> Vec<u8> {
    const ESCAPED: &[u8] = b"\\012";
    let mut path = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((&first, after)) = rest.split_first() {
        if let Some(after) = rest.strip_prefix(ESCAPED) {
            path.push(b'\n');
            rest = after;
        } else {
            path.push(first);
            rest = after;
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(line: &str) -> MappedFile {
        executable_mapping(line.as_bytes()).unwrap_or_else(|| panic!("{line} is executable"))
    }

    fn file(path: &str) -> Backing {
        Backing::File {
            path: path.as_bytes().to_vec(),
        }
    }

    #[test]
    fn a_line_has_range_offset_inode_and_path() {
        let line = "7f3a1c028000-7f3a1c1bd000 r-xp 00028000 08:01 131145                     /usr/lib/libc.so.6";
        let found = parsed(line);
        assert_eq!(
            found,
            MappedFile {
                mapping: Mapping {
                    start: ProcessAddress(0x7f3a_1c02_8000),
                    end: ProcessAddress(0x7f3a_1c1b_d000),
                    file_offset: FileOffset(0x28000),
                },
                inode: 131_145,
                told: None,
                backing: file("/usr/lib/libc.so.6"),
            }
        );
    }

    #[test]
    fn names_tell_files_from_memory() {
        let backing = |name: &str| {
            let line = format!("1000-2000 r-xp 00000000 00:01 7                          {name}");
            parsed(&line).backing
        };
        assert_eq!(backing("/a b/c  d"), file("/a b/c  d"));
        assert_eq!(backing("/tmp/x (deleted)"), file("/tmp/x"));
        assert_eq!(backing("/memfd:code (deleted)"), file("/memfd:code"));
        assert_eq!(backing("/SYSV00000000 (deleted)"), file("/SYSV00000000"));
        assert_eq!(backing("/a\\012b"), file("/a\nb"));
        assert_eq!(backing("/a\\b\\01"), file("/a\\b\\01"));
        assert_eq!(backing("[vdso]"), Backing::Vdso);
        assert_eq!(backing("[anon:jit]"), Backing::Anonymous);
        assert_eq!(backing("[heap]"), Backing::Anonymous);
        assert_eq!(backing("//anon"), Backing::Anonymous);
        assert_eq!(backing(""), Backing::Anonymous);
        assert_eq!(
            parsed("1000-2000 rwxp 00000000 00:00 0 ").backing,
            Backing::Anonymous
        );
        assert_eq!(
            parsed("1000-2000 rwxp 00000000 00:00 0").backing,
            Backing::Anonymous
        );
    }

    #[test]
    fn what_cannot_run_and_what_is_no_line_is_nothing() {
        for line in [
            "1000-2000 rw-p 00000000 00:00 0 ",
            "1000-2000 r--p 00000000 08:01 5 /x r-xp",
            "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]",
            "2000-1000 r-xp 00000000 00:00 0 ",
            "1000 r-xp 00000000 00:00 0 ",
            "10000000000000000-10000000000000001 r-xp 00000000 00:00 0 ",
            "1000-2000 r-xp 00000000 00:00 x /y",
            "",
        ] {
            assert_eq!(executable_mapping(line.as_bytes()), None, "{line}");
        }
    }

    proptest! {
        #[test]
        fn a_path_cannot_change_what_stands_before_it(path in "/[ -~]{0,60}", inode in 1_u64..) {
            prop_assume!(!path.starts_with("//") && !path.ends_with(" (deleted)") && !path.contains("\\012"));
            let line = format!("1000-2000 r-xp 00003000 08:01 {inode}    {path}");
            let found = parsed(&line);
            prop_assert_eq!(found.inode, inode);
            prop_assert_eq!(found.mapping.file_offset, FileOffset(0x3000));
            prop_assert_eq!(found.backing, file(&path));
        }

        #[test]
        fn no_bytes_make_it_panic(line in proptest::collection::vec(any::<u8>(), 0..120)) {
            let _ = executable_mapping(&line);
        }
    }
}
