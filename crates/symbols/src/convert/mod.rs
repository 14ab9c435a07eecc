//! Debug files to a [`Model`]: everything that a look-up may be asked, found once.
//!
//! The files are untrusted, so every count, size and depth has a limit ([`ConvertLimits`]), walks
//! are iterative, and one damaged unit costs that unit only. In the order of the work: tables of
//! the ELF files, symbols, sections of DWARF, units one after the other (`crate::dwarf`), then
//! functions without DWARF from the symbols, in the gaps.

mod assemble;
mod code;
mod draft;
mod error;
mod limits;
mod minidebuginfo;
mod name_pool;
mod names;
mod overlap;
mod plt;
mod relocatable;
mod sections;
mod stream;
mod symbols;
mod unpack;

pub use error::ConvertError;
pub use limits::{ConvertLimits, ReleaseInput};

pub(crate) use code::CodeMap;
pub(crate) use draft::{Draft, FunctionKey, LineRow, Piece};
pub(crate) use limits::Budget;
pub(crate) use name_pool::{NO_NAME, NameId, NamePool};
pub(crate) use sections::{DwarfSections, LoadInfo};
pub(crate) use stream::{InfoStream, PackedInfo};
pub(crate) use symbols::Symbols;

use object::Endianness;
use unhex_build_id::{BuildId, ElfIdentities};

use crate::dwarf;
use crate::elf::{ElfFile, Supplement, is_executable, load_segments};
use crate::model::{Function, Model, ModelHeader};

/// The files that one model is made from, each whole and in memory (or mapped).
#[derive(Clone, Copy, Debug, Default)]
pub struct ConvertSources<'data> {
    /// The debug file: DWARF, a symbol table, or both.
    pub debuginfo: Option<&'data [u8]>,
    /// The executable: program headers, and symbols that the debug file lacks.
    pub executable: Option<&'data [u8]>,
    /// The supplementary file that dwz made; another one than the debug file asks for is not used.
    pub supplement: Option<&'data [u8]>,
    /// The package of split units (`.dwp`).
    pub dwp: Option<&'data [u8]>,
    /// SHA-256 of each file, for [`ModelHeader::sources`]: the caller knows them, and hashing
    /// would cost more than the conversion.
    pub source_sha256: &'data [[u8; 32]],
}

/// Converts debug files into a model.
///
/// Takes up to one CPU second per 100 MB of DWARF, and memory for the model and the decompressed
/// sections; a `.debug_info` that zlib packed is unpacked unit by unit, unless entries of one unit
/// refer to another.
///
/// # Errors
/// If no file is given, if the debug file or the executable is no ELF file or damaged as a whole, if
/// the format is not supported, if a limit is exceeded, if memory is refused, or if
/// [`ConvertLimits::should_stop`] says so. A damaged unit is no error: it is counted in the header,
/// and its functions come from the symbol table. A damaged supplementary file or package counts as
/// one unit, and is as good as none.
///
/// What no compiler writes, since it is endless, is damage of the whole file: entries nested
/// thousands deep, origins that lead back to themselves, a name that demangles to gigabytes.
pub fn convert(
    sources: ConvertSources<'_>,
    limits: &ConvertLimits<'_>,
) -> Result<Model, ConvertError> {
    let budget = Budget::new(limits);
    let open = |file: Option<_>| -> Result<Option<ElfFile<'_>>, ConvertError> {
        let mut file = file.map(ElfFile::parse).transpose()?;
        file.as_mut().map(relocatable::lay_out);
        Ok(file)
    };
    let (debuginfo, executable) = (open(sources.debuginfo)?, open(sources.executable)?);
    let files: Vec<&ElfFile<'_>> = debuginfo.iter().chain(&executable).collect();
    let Some(first) = files.first() else {
        return Err(ConvertError::Unsupported {
            what: "a conversion without any file".to_owned(),
        });
    };
    let code = CodeMap::of(&files);
    let unpacked: Vec<Vec<u8>> = files
        .iter()
        .filter_map(|file| minidebuginfo::unpack(file, limits).transpose())
        .collect::<Result<_, _>>()?;
    let packed: Vec<ElfFile<'_>> = unpacked
        .iter()
        .filter_map(|file| ElfFile::parse(file).ok())
        .collect();
    let symbols = Symbols::read(&files, &packed, &code, &budget)?;
    let mut header = ModelHeader {
        build_id: ElfIdentities::read(first.data).gnu,
        machine: first.header.machine,
        sources: sources.source_sha256.to_vec(),
        segments: files
            .iter()
            .rev()
            .find(|f| is_executable(f))
            .map(|f| load_segments(f)),
        ..ModelHeader::default()
    };
    let dwarf_file = files.iter().find(|file| DwarfSections::are_in(file));
    let read = Read {
        sources: &sources,
        limits,
        code: &code,
        symbols: &symbols,
        budget: &budget,
    };
    let (draft, functions) = match dwarf_file {
        Some(file) => read.dwarf(file, &mut header)?,
        None => Default::default(),
    };
    let mut model = assemble::assemble(draft, functions, header, &symbols, &budget)?;
    if relocatable::is_relocatable(first) {
        relocatable::unbias(&mut model);
    }
    Ok(model)
}

/// What reading DWARF needs beside the file that has it.
struct Read<'a, 'data> {
    sources: &'a ConvertSources<'data>,
    limits: &'a ConvertLimits<'a>,
    code: &'a CodeMap,
    symbols: &'a Symbols<'data>,
    budget: &'a Budget<'a>,
}

impl Read<'_, '_> {
    /// Everything that the DWARF of `file` says.
    fn dwarf(
        &self,
        file: &ElfFile<'_>,
        header: &mut ModelHeader,
    ) -> Result<(Draft, Vec<Function>), ConvertError> {
        let needed = Supplement::of(file).map(|s| s.build_id);
        let mut damaged = 0_u32;
        let loaded = supplement(self.sources, needed.as_ref(), self.limits, self.budget);
        let supplement = usable(loaded, &mut damaged)?;
        let package = usable(package(self.sources, self.limits), &mut damaged)?;
        let walk = |info| {
            let sections = DwarfSections::load(file, info, self.limits, self.budget)?;
            let context = dwarf::Context {
                sections: &sections,
                supplement: supplement.as_ref(),
                package: package.as_ref(),
                code: self.code,
                symbols: self.symbols,
                budget: self.budget,
            };
            match file.header.endian {
                Endianness::Little => dwarf::walk(&context, gimli::LittleEndian),
                Endianness::Big => dwarf::walk(&context, gimli::BigEndian),
            }
        };
        let walked = match walk(LoadInfo::Packed)? {
            Some(walked) => walked,
            None => walk(LoadInfo::Whole)?.unwrap_or_default(),
        };
        header.units = walked.counts.units;
        header.units_failed = walked.counts.units_failed.saturating_add(damaged);
        header.units_without_dwo = walked.counts.units_without_dwo;
        header.needs_supplement = match supplement {
            Some(_) => None,
            None => needed.map(|id| id.as_bytes().into()),
        };
        drop((supplement, package));
        let functions = names::functions(&walked.functions, &walked.names, self.budget)?;
        Ok((walked.draft, functions))
    }
}

/// What a file beside the debug file gives: a damaged one is as good as none, and counted, since
/// whoever uploads it must not take away what the debug file says. Only a deadline ends it all.
fn usable<T>(
    loaded: Result<Option<T>, ConvertError>,
    damaged: &mut u32,
) -> Result<Option<T>, ConvertError> {
    match loaded {
        Err(stopped @ ConvertError::Stopped { .. }) => Err(stopped),
        Err(_unusable) => {
            *damaged = damaged.saturating_add(1);
            Ok(None)
        }
        loaded => loaded,
    }
}

/// The sections of the package of split units, if it is at hand.
fn package<'data>(
    sources: &ConvertSources<'data>,
    limits: &ConvertLimits<'_>,
) -> Result<Option<DwarfSections<'data>>, ConvertError> {
    let Some(bytes) = sources.dwp else {
        return Ok(None);
    };
    let file = ElfFile::parse(bytes)?;
    DwarfSections::load_package(&file, limits).map(Some)
}

/// The sections of the supplementary file, if it is at hand and the one that is needed.
fn supplement<'data>(
    sources: &ConvertSources<'data>,
    needed: Option<&BuildId>,
    limits: &ConvertLimits<'data>,
    budget: &Budget<'_>,
) -> Result<Option<DwarfSections<'data>>, ConvertError> {
    let Some(bytes) = sources.supplement else {
        return Ok(None);
    };
    if ElfIdentities::read(bytes).gnu.as_ref() != needed || needed.is_none() {
        return Ok(None);
    }
    let file = ElfFile::parse(bytes)?;
    DwarfSections::load(&file, LoadInfo::Whole, limits, budget).map(Some)
}
