//! What a profiler's address and names mean: the one place where an address is normalized, and where frames get their kind.
//!
//! See the rules in the crate's documentation. Both formats are read by the same rules; they differ in what the
//! numbers of a mapping are when nothing else tells.

use unhex_build_id::{BuildId, GO_BUILD_ID_BYTES_MAX, IdKind, Identity};

use crate::model::{BinaryRole, CodeAddress, Extent, FrameKind};

/// By which practice addresses were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Convention {
    /// pprof: addresses of the process, in the mappings of the process.
    Process,
    /// OTLP: addresses as linked; mappings have the range of link addresses, with the offset that was mapped.
    Linked,
}

/// The lowest difference between a mapping's start and its file offset by which it is a mapping of a 64-bit process, whatever the
/// convention: Linux loads position-independent programs from `0x55_5555_0000` (arm64 with 39 bits) or
/// higher, and nobody links programs to such addresses; if somebody does, the file offset is right all the same.
const PROCESS_BASE_MIN: u64 = 1 << 36;

/// Addresses from here on are the kernel's, on every 64-bit Linux.
const KERNEL_ADDRESS_MIN: u64 = 0xffff_0000_0000_0000;

/// Names of memory that no file lies behind, as Linux, perf and runtimes write them.
const ANONYMOUS_PREFIXES: [&str; 9] = [
    "//anon",
    "[anon",
    "anon_inode:",
    "[heap",
    "[stack",
    "/dev/zero",
    "/SYSV",
    "/memfd:",
    "memfd:",
];

/// The kinds of frame (`profile.frame.type`) whose code can be symbolized by address.
const NATIVE_LANGUAGES: [&str; 3] = ["native", "go", "rust"];

/// Names for a runtime in brackets, as the only name of a frame that nobody can unwind further.
const INTERPRETER_MARKERS: [&str; 18] = [
    "[java]",
    "[jvm]",
    "[python]",
    "[cpython]",
    "[ruby]",
    "[node]",
    "[nodejs]",
    "[v8js]",
    "[php]",
    "[perl]",
    "[dotnet]",
    "[beam]",
    "[erlang]",
    "[lua]",
    "[luajit]",
    "[r]",
    "[julia]",
    "[jit]",
];

/// How a frame begins that says why the stack ends.
pub(crate) const TRUNCATED_PREFIX: &str = "[truncated";

/// The frame type by which ebpf-profiler says that unwinding failed; the address is the number of the error.
pub(crate) const ABORT_MARKER: &str = "abort-marker";

/// Bytes of the name of a perf map: `/tmp/perf-`, a process ID, `.map`. Longer names are not looked through, since a
/// message may have one long name in each mapping.
const PERF_MAP_BYTES_MAX: usize = 40;

/// Bytes of a text that may be an identity; those of Go are the longest. Longer texts are not looked through.
pub(crate) const IDENTITY_BYTES_MAX: usize = GO_BUILD_ID_BYTES_MAX;

/// What kind of thing a file name of a mapping says.
pub(crate) fn role(file_name: &str, has_identity: bool) -> BinaryRole {
    if matches!(file_name, "[vdso]" | "[vdso32]" | "[vsyscall]")
        || file_name.starts_with("linux-vdso")
    {
        return BinaryRole::Vdso;
    }
    let is_kernel = file_name.starts_with("[kernel") || file_name.starts_with("[guest.kernel");
    if is_kernel || file_name == "vmlinux" {
        return BinaryRole::Kernel;
    }
    let is_perf_map = file_name.len() <= PERF_MAP_BYTES_MAX
        && file_name
            .strip_prefix("/tmp/perf-")
            .is_some_and(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()) == ".map");
    let is_anonymous = is_perf_map
        || file_name.is_empty()
        || ANONYMOUS_PREFIXES
            .iter()
            .any(|prefix| file_name.starts_with(prefix));
    if is_anonymous && !has_identity {
        return BinaryRole::Anonymous;
    }
    BinaryRole::File
}

/// The identity that pprof's one text for build IDs is: hex is a GNU build ID, text with slashes is Go's.
pub(crate) fn identity(id_text: &str) -> Option<Identity> {
    if id_text.len() > IDENTITY_BYTES_MAX {
        return None;
    }
    if let Ok(id) = id_text.parse::<BuildId>() {
        return Some(Identity::Gnu(id));
    }
    let is_go = id_text.contains('/');
    is_go
        .then(|| Identity::parse(IdKind::Go, id_text).ok())
        .flatten()
}

/// The address in the binary, the same in every process; none if the address is not of this mapping.
pub(crate) fn code_address(
    convention: Convention,
    extent: Extent,
    address: u64,
) -> Option<CodeAddress> {
    let Extent {
        start,
        limit,
        file_offset,
    } = extent;
    let is_unbounded = limit == 0 || limit == u64::MAX;
    if start == 0 && file_offset == 0 && is_unbounded {
        return Some(CodeAddress::Link(address));
    }
    let is_of_process = start
        .checked_sub(file_offset)
        .is_some_and(|base| base >= PROCESS_BASE_MIN);
    if convention == Convention::Linked && !is_of_process {
        return Some(CodeAddress::Link(address));
    }
    let is_within = address >= start && (is_unbounded || address <= limit);
    let offset = address.checked_sub(start)?.checked_add(file_offset)?;
    is_within.then_some(CodeAddress::FileOffset(offset))
}

/// What a frame comes with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    pub(crate) convention: Convention,
    /// The mapping, if there is one.
    pub(crate) mapping: Option<(BinaryRole, Extent)>,
    pub(crate) address: u64,
    /// `profile.frame.type`, or empty.
    pub(crate) language: &'a str,
    /// The name of its last function, if it has names.
    pub(crate) name: Option<&'a str>,
}

/// What a frame is.
pub(crate) fn frame_kind(seen: Seen<'_>) -> FrameKind {
    let Seen {
        language,
        mapping,
        name,
        ..
    } = seen;
    if language == ABORT_MARKER || name.is_some_and(|name| name.starts_with(TRUNCATED_PREFIX)) {
        return FrameKind::Truncated;
    }
    if name.is_some_and(|name| INTERPRETER_MARKERS.contains(&name)) {
        return FrameKind::MissingUnwinder;
    }
    let is_kernel = match language {
        "" => {
            seen.address >= KERNEL_ADDRESS_MIN
                || mapping.is_some_and(|(role, _)| role == BinaryRole::Kernel)
        }
        language => language == "kernel",
    };
    if is_kernel {
        return FrameKind::Kernel;
    }
    let is_native = language.is_empty() || NATIVE_LANGUAGES.contains(&language);
    if !is_native {
        return if name.is_some() {
            FrameKind::Named
        } else {
            FrameKind::MissingUnwinder
        };
    }
    let of_file = mapping.filter(|(role, _)| matches!(role, BinaryRole::File | BinaryRole::Vdso));
    let address =
        of_file.and_then(|(_, extent)| code_address(seen.convention, extent, seen.address));
    match address {
        Some(address) => FrameKind::Native(address),
        None if name.is_some() => FrameKind::Named,
        None => FrameKind::Unplaced,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIE: Extent = Extent {
        start: 0x5555_5555_5000,
        limit: 0x5555_5555_8000,
        file_offset: 0x1000,
    };

    #[test]
    fn an_address_of_a_process_becomes_a_file_offset_in_both_formats() {
        for convention in [Convention::Process, Convention::Linked] {
            let found = code_address(convention, PIE, 0x5555_5555_5139);
            assert_eq!(
                found,
                Some(CodeAddress::FileOffset(0x1139)),
                "{convention:?}"
            );
        }
    }

    #[test]
    fn an_address_as_linked_stays_in_otlp() {
        // p_vaddr 0x2000 at p_offset 0x1000, as lld lays it out.
        let extent = Extent {
            start: 0x2000,
            limit: 0x3000,
            file_offset: 0x1000,
        };
        let linked = code_address(Convention::Linked, extent, 0x2139);
        assert_eq!(linked, Some(CodeAddress::Link(0x2139)));
        let process = code_address(Convention::Process, extent, 0x2139);
        assert_eq!(process, Some(CodeAddress::FileOffset(0x1139)));
    }

    #[test]
    fn a_mapping_that_says_nothing_has_addresses_as_linked() {
        for limit in [0, u64::MAX] {
            let extent = Extent {
                limit,
                ..Extent::default()
            };
            for address in [0x1139, u64::MAX] {
                let found = code_address(Convention::Process, extent, address);
                assert_eq!(found, Some(CodeAddress::Link(address)));
            }
        }
    }

    #[test]
    fn an_address_outside_its_mapping_is_no_address() {
        for address in [0, 0x1139, 0x5555_5555_4fff, 0x5555_5555_8001, u64::MAX] {
            assert_eq!(
                code_address(Convention::Process, PIE, address),
                None,
                "{address:#x}"
            );
            assert_eq!(
                code_address(Convention::Linked, PIE, address),
                None,
                "{address:#x}"
            );
        }
        let overflow = Extent {
            start: 1,
            limit: u64::MAX,
            file_offset: u64::MAX,
        };
        assert_eq!(code_address(Convention::Process, overflow, 5), None);
    }

    #[test]
    fn the_end_of_a_mapping_belongs_to_it() {
        let found = code_address(Convention::Process, PIE, PIE.limit);
        assert_eq!(found, Some(CodeAddress::FileOffset(0x4000)));
    }

    fn kind(language: &str, name: Option<&str>, file: &str, address: u64) -> FrameKind {
        let mapping = (!file.is_empty()).then(|| (role(file, true), Extent::default()));
        frame_kind(Seen {
            convention: Convention::Linked,
            mapping,
            address,
            language,
            name,
        })
    }

    #[test]
    fn frames_are_what_their_type_and_names_say() {
        let native = FrameKind::Native(CodeAddress::Link(8));
        for (language, name, file, expected) in [
            ("native", None, "/bin/a", native),
            ("go", Some("main.main"), "/bin/a", native),
            ("rust", None, "/bin/a", native),
            ("", None, "/bin/a", native),
            ("", None, "[vdso]", native),
            (
                "kernel",
                Some("do_syscall_64"),
                "vmlinux",
                FrameKind::Kernel,
            ),
            (
                "",
                Some("do_syscall_64"),
                "[kernel.kallsyms]",
                FrameKind::Kernel,
            ),
            ("cpython", Some("f"), "/usr/bin/python3", FrameKind::Named),
            (
                "cpython",
                None,
                "/usr/bin/python3",
                FrameKind::MissingUnwinder,
            ),
            ("jvm", Some("[java]"), "", FrameKind::MissingUnwinder),
            ("", Some("[jit]"), "", FrameKind::MissingUnwinder),
            ("", Some("f"), "", FrameKind::Named),
            ("", Some("[truncated: max depth]"), "", FrameKind::Truncated),
            ("abort-marker", None, "", FrameKind::Truncated),
            ("", None, "", FrameKind::Unplaced),
            ("native", None, "", FrameKind::Unplaced),
        ] {
            assert_eq!(
                kind(language, name, file, 8),
                expected,
                "{language} {name:?} {file}"
            );
        }
        assert_eq!(
            kind("", None, "/x.ko", 0xffff_ffff_8100_0000),
            FrameKind::Kernel
        );
        assert_eq!(
            kind("native", None, "/bin/a", u64::MAX),
            FrameKind::Native(CodeAddress::Link(u64::MAX))
        );
    }

    #[test]
    fn memory_without_a_file_is_anonymous_unless_it_has_an_identity() {
        for name in [
            "",
            "//anon",
            "[heap]",
            "/tmp/perf-7.map",
            "[anon:v8]",
            "/memfd:doublemapper",
        ] {
            assert_eq!(role(name, false), BinaryRole::Anonymous, "{name}");
            assert_eq!(role(name, true), BinaryRole::File, "{name}");
        }
        assert_eq!(role("/usr/bin/a", false), BinaryRole::File);
        assert_eq!(role("[vdso]", true), BinaryRole::Vdso);
    }

    #[test]
    fn a_build_id_of_pprof_is_gnu_or_go() {
        let kind = |text: &str| identity(text).map(|found| found.kind());
        assert_eq!(kind("9A0F"), Some(IdKind::Gnu));
        assert_eq!(kind("aB/cD/eF/gH"), Some(IdKind::Go));
        for text in ["", "abc", "hello", "a b/c"] {
            assert_eq!(kind(text), None, "{text}");
        }
    }
}
