//! What a file is that is no ELF file, in words that help whoever uploaded it.

use std::fmt;

/// Bytes that decide whether a file is zero-filled or text.
const SAMPLE_BYTES: usize = 64 << 10;

/// What a file is by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileFormat {
    /// An ELF file.
    Elf,
    /// No bytes at all.
    Empty,
    /// Nothing but zeros: space that was reserved and never written.
    ZeroFilled,
    /// A web page, often the error page of a proxy or a login form.
    Html,
    /// A PDF document.
    Pdf,
    /// Compressed by gzip.
    Gzip,
    /// Compressed by zstd.
    Zstd,
    /// Compressed by xz.
    Xz,
    /// Compressed by bzip2.
    Bzip2,
    /// A zip archive.
    Zip,
    /// An ar archive: a static library or a Debian package.
    Ar,
    /// An RPM package.
    Rpm,
    /// A tar archive.
    Tar,
    /// A Windows program or library.
    Pe,
    /// A Windows PDB.
    Pdb,
    /// A Mach-O file of macOS or iOS.
    MachO,
    /// A Breakpad symbol file.
    Breakpad,
    /// A WebAssembly module.
    Wasm,
    /// A script that names its interpreter.
    Script,
    /// A Git LFS pointer in the place of the file.
    GitLfsPointer,
    /// Other text.
    Text,
    /// Anything else.
    Unknown,
}

/// What `file` is, by its first bytes.
pub fn what_is_it(file: &[u8]) -> FileFormat {
    let sample = file.get(..SAMPLE_BYTES).unwrap_or(file);
    if sample.is_empty() {
        return FileFormat::Empty;
    }
    if sample.iter().all(|&byte| byte == 0) {
        return FileFormat::ZeroFilled;
    }
    let by_magic = MAGICS.iter().find(|(magic, _)| sample.starts_with(magic));
    if let Some((_, format)) = by_magic {
        return *format;
    }
    if sample.get(257..262) == Some(b"ustar") {
        return FileFormat::Tar;
    }
    what_text(sample)
}

const MAGICS: [(&[u8], FileFormat); 21] = [
    (b"\x7fELF", FileFormat::Elf),
    (b"%PDF-", FileFormat::Pdf),
    (b"\x1f\x8b", FileFormat::Gzip),
    (b"\x28\xb5\x2f\xfd", FileFormat::Zstd),
    (b"\xfd7zXZ\0", FileFormat::Xz),
    (b"BZh", FileFormat::Bzip2),
    (b"PK\x03\x04", FileFormat::Zip),
    (b"!<arch>\n", FileFormat::Ar),
    (b"\xed\xab\xee\xdb", FileFormat::Rpm),
    (b"MZ", FileFormat::Pe),
    (b"Microsoft C/C++ MSF", FileFormat::Pdb),
    (b"BSJB", FileFormat::Pdb),
    (b"\xfe\xed\xfa\xce", FileFormat::MachO),
    (b"\xfe\xed\xfa\xcf", FileFormat::MachO),
    (b"\xce\xfa\xed\xfe", FileFormat::MachO),
    (b"\xcf\xfa\xed\xfe", FileFormat::MachO),
    (b"\xca\xfe\xba\xbe", FileFormat::MachO),
    (b"MODULE ", FileFormat::Breakpad),
    (b"\0asm", FileFormat::Wasm),
    (b"#!", FileFormat::Script),
    (b"version https://git-lfs", FileFormat::GitLfsPointer),
];

fn what_text(sample: &[u8]) -> FileFormat {
    let trimmed = sample.trim_ascii_start();
    let start: Vec<u8> = trimmed
        .iter()
        .take(16)
        .map(u8::to_ascii_lowercase)
        .collect();
    let pages: [&[u8]; 4] = [b"<!doctype html", b"<html", b"<head", b"<?xml"];
    let printable = |byte: &u8| !matches!(byte, 0..=8 | 14..=31 | 127);
    if pages.iter().any(|page| start.starts_with(page)) {
        FileFormat::Html
    } else if sample.iter().all(printable) {
        FileFormat::Text
    } else {
        FileFormat::Unknown
    }
}

impl fmt::Display for FileFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Elf => "an ELF file",
            Self::Empty => "empty",
            Self::ZeroFilled => "filled with zeros",
            Self::Html => "an HTML page",
            Self::Pdf => "a PDF document",
            Self::Gzip => "compressed by gzip",
            Self::Zstd => "compressed by zstd",
            Self::Xz => "compressed by xz",
            Self::Bzip2 => "compressed by bzip2",
            Self::Zip => "a zip archive",
            Self::Ar => "an ar archive (a static library or a Debian package)",
            Self::Rpm => "an RPM package",
            Self::Tar => "a tar archive",
            Self::Pe => "a Windows PE file",
            Self::Pdb => "a Windows PDB file",
            Self::MachO => "a Mach-O file",
            Self::Breakpad => "a Breakpad symbol file",
            Self::Wasm => "a WebAssembly module",
            Self::Script => "a script",
            Self::GitLfsPointer => "a Git LFS pointer, not the file itself",
            Self::Text => "text",
            Self::Unknown => "of no known format",
        })
    }
}
