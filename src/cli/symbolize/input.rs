//! What is asked for: addresses as people write them, and the module that a file is.

use std::fmt;
use std::io::{BufRead, Read as _};
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context as _, bail};
use unhex_api::symbolize::{Module, Segment, Unsigned64};
use unhex_symbols::elf::ElfSummary;
use unhex_symbols::segments::LoadSegment;

use crate::cli::binaries::Mapped;

/// An address in hex, with or without `0x`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HexAddress(pub(super) u64);

/// A text that is no [`HexAddress`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no address in hex of at most 16 digits")]
pub(super) struct ParseHexAddressError(String);

/// Bounds on what is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct InputLimits {
    /// Bytes of input: ten million addresses.
    pub(super) bytes_max: u64,
}

impl Default for InputLimits {
    fn default() -> Self {
        Self {
            bytes_max: 200 << 20,
        }
    }
}

impl FromStr for HexAddress {
    type Err = ParseHexAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
        let digits = digits.unwrap_or(text);
        let is_hex = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let parsed = u64::from_str_radix(digits, 16).ok().filter(|_| is_hex);
        parsed
            .map(Self)
            .ok_or_else(|| ParseHexAddressError(text.to_owned()))
    }
}

impl fmt::Display for HexAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// One address a line; empty lines are passed over.
///
/// # Errors
/// If a line is no address, with its number, or there is more than the limit.
pub(super) fn addresses_from(
    input: impl BufRead,
    limits: InputLimits,
) -> anyhow::Result<Vec<HexAddress>> {
    let mut text = String::new();
    let read = input.take(limits.bytes_max).read_to_string(&mut text)?;
    if u64::try_from(read).is_ok_and(|read| read >= limits.bytes_max) {
        bail!("more than {} bytes of addresses", limits.bytes_max);
    }
    let lines = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty());
    let parse = |(number, line): (usize, &str)| {
        let address = line.trim().parse();
        address.with_context(|| format!("line {}", number + 1))
    };
    lines.map(parse).collect()
}

/// The module that the binary at `path` is: its build ID and, of an executable, its program headers.
///
/// # Errors
/// If it cannot be read, is no ELF file or has no build ID.
pub(super) fn binary_module(path: &Path) -> anyhow::Result<Module> {
    let name = || path.display().to_string();
    let bytes = Mapped::open(path).with_context(name)?;
    let summary = ElfSummary::read(&bytes).with_context(name)?;
    let Some(build_id) = &summary.build_id else {
        bail!(
            "{} has no build ID; link it with: -Wl,--build-id=sha1",
            path.display()
        );
    };
    let file_name = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    let is_executable = summary.role.is_executable();
    Ok(Module {
        build_id: build_id.to_string(),
        name: file_name,
        segments: is_executable.then(|| summary.segments.0.iter().map(segment).collect()),
        ..Module::default()
    })
}

fn segment(segment: &LoadSegment) -> Segment {
    Segment {
        address: Unsigned64(segment.address),
        file_offset: Unsigned64(segment.file_offset),
        file_size_bytes: Unsigned64(segment.file_size_bytes),
        memory_size_bytes: Some(Unsigned64(segment.memory_size_bytes)),
        align: Some(Unsigned64(segment.align)),
        executable: segment.executable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_hex_with_or_without_prefix() {
        let parse = |text: &str| text.parse::<HexAddress>().map(|address| address.0);
        assert_eq!(parse("0x1139"), Ok(0x1139));
        assert_eq!(parse("FFFFFFFFFFFFFFFF"), Ok(u64::MAX));
        for text in ["", "0x", "+1", "-1", "0x1ffffffffffffffff", "main"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_wrong_line_is_named() {
        let read = |text: &str| addresses_from(text.as_bytes(), InputLimits::default());
        assert_eq!(
            read("0x1\n\n 2 \r\n").unwrap(),
            [HexAddress(1), HexAddress(2)]
        );
        let error = format!("{:#}", read("1\n\nmain\n").unwrap_err());
        assert_eq!(
            error,
            "line 3: \"main\" is no address in hex of at most 16 digits"
        );
        let small = InputLimits { bytes_max: 4 };
        assert!(addresses_from(&b"0x1139\n"[..], small).is_err());
    }
}
