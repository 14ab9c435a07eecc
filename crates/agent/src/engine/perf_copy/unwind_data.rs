//! What a binary says of how its frames are left: its sections, as framehop reads them, and two questions that it does
//! not answer: how an address is covered, if at all, and whether it is where a signal handler returns to.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use framehop::{ExplicitModuleSectionInfo, Module};
use gimli::{
    BaseAddresses, CieOrFde, DebugFrame, EhFrame, EhFrameHdr, EndianSlice, FrameDescriptionEntry,
    LittleEndian, Reader, UnwindContext, UnwindOffset, UnwindSection,
};
use unhex_symbols::address::LinkAddress;

use super::arch;
use super::row::{How, Row};
use crate::processes::{BinaryFile, Region, Section, UnwindSections};

/// Functions of one binary that are looked at: four times those of a compiler with all its back ends.
const FUNCTIONS_MAX: usize = 4 << 20;

/// Common entries that are remembered while functions are read.
const COMMONS_KEPT: usize = 16;

type Bytes = Arc<[u8]>;
type Slice<'data> = EndianSlice<'data, LittleEndian>;

/// The unwind information of one binary.
#[derive(Debug)]
pub(super) struct UnwindData {
    eh_frame: Option<Placed>,
    eh_frame_hdr: Option<Placed>,
    debug_frame: Option<Bytes>,
    got: Option<Range<u64>>,
    text: Option<Range<u64>>,
    /// Link addresses of functions, by address, and where their entries are, if there is no index in the file.
    functions: Vec<Function>,
    /// Link addresses of the code that signal handlers return to.
    signal_returns: Vec<Range<u64>>,
}

#[derive(Clone, Debug)]
struct Function {
    range: Range<u64>,
    entry: usize,
}

#[derive(Clone, Debug)]
struct Placed {
    address: u64,
    bytes: Bytes,
}

impl Placed {
    fn of(section: Section) -> Self {
        Self {
            address: section.address.0,
            bytes: section.bytes.into(),
        }
    }

    fn range(&self) -> Range<u64> {
        let length = u64::try_from(self.bytes.len()).unwrap_or(u64::MAX);
        self.address..self.address.saturating_add(length)
    }
}

impl UnwindData {
    /// Reads it. Costs as much as its sections are large, and a pass over the functions in them.
    pub(super) fn of(file: &BinaryFile) -> Self {
        if file.is_64_bit() {
            Self::of_sections(file.unwind_sections())
        } else {
            Self::of_sections(UnwindSections::default())
        }
    }

    fn of_sections(sections: UnwindSections) -> Self {
        let eh_frame = sections.eh_frame.map(Placed::of);
        let mut data = Self {
            eh_frame_hdr: sections
                .eh_frame_hdr
                .filter(|_| eh_frame.is_some())
                .map(Placed::of),
            eh_frame,
            debug_frame: sections.debug_frame.map(|section| section.bytes.into()),
            got: sections.got,
            text: sections.text,
            functions: Vec::new(),
            signal_returns: Vec::new(),
        };
        if !data.has_index() {
            data.eh_frame_hdr = None;
        }
        data.read_functions();
        data
    }

    /// Bytes of memory that it takes.
    pub(super) fn size_bytes(&self) -> usize {
        let placed = self
            .eh_frame
            .iter()
            .chain(&self.eh_frame_hdr)
            .map(|section| section.bytes.len());
        let debug_frame = self.debug_frame.as_ref().map_or(0, |bytes| bytes.len());
        let functions = self.functions.len().saturating_mul(size_of::<Function>());
        placed
            .sum::<usize>()
            .saturating_add(debug_frame)
            .saturating_add(functions)
    }

    /// How to leave the function at an address.
    pub(super) fn how(&self, address: LinkAddress, context: &mut UnwindContext<usize>) -> How {
        self.row(address, context, |row| row.how())
            .unwrap_or(How::Unknown)
    }

    /// What `with` makes of the row at an address; `None` where nothing is said about it.
    pub(super) fn row<T>(
        &self,
        address: LinkAddress,
        context: &mut UnwindContext<usize>,
        with: impl FnOnce(Row<'_>) -> T,
    ) -> Option<T> {
        let bases = self.bases();
        if let Some(eh_frame) = &self.eh_frame {
            let section = EhFrame::new(&eh_frame.bytes, LittleEndian);
            let function = if self.eh_frame_hdr.is_some() {
                self.searched(address.0)?
            } else {
                let entry = self.entry(address)?.into();
                section
                    .fde_from_offset(&bases, entry, EhFrame::cie_from_offset)
                    .ok()?
            };
            return in_function(&function, &section, &bases, address, context, with);
        }
        let mut section = DebugFrame::new(self.debug_frame.as_ref()?, LittleEndian);
        section.set_address_size(8);
        let entry = self.entry(address)?.into();
        let function = section
            .fde_from_offset(&bases, entry, DebugFrame::cie_from_offset)
            .ok()?;
        in_function(&function, &section, &bases, address, context, with)
    }

    /// Where the entry of the function at an address is, of those that were read.
    fn entry(&self, address: LinkAddress) -> Option<usize> {
        let after = self
            .functions
            .partition_point(|function| function.range.start <= address.0);
        let function = self.functions.get(after.checked_sub(1)?)?;
        function
            .range
            .contains(&address.0)
            .then_some(function.entry)
    }

    /// Whether a signal handler returns to there: what it interrupted is no call.
    pub(super) fn is_signal_return(&self, address: LinkAddress) -> bool {
        self.signal_returns
            .iter()
            .any(|range| range.contains(&address.0))
    }

    /// The binary as a process has it mapped.
    pub(super) fn module(&self, region: &Region, linked: LinkAddress) -> Module<Bytes> {
        let mapping = region.mapping;
        let info = ExplicitModuleSectionInfo {
            base_svma: linked.0,
            text_svma: self.text.clone(),
            got_svma: self.got.clone(),
            eh_frame_svma: self.eh_frame.as_ref().map(Placed::range),
            eh_frame: self
                .eh_frame
                .as_ref()
                .map(|section| Arc::clone(&section.bytes)),
            eh_frame_hdr_svma: self.eh_frame_hdr.as_ref().map(Placed::range),
            eh_frame_hdr: self
                .eh_frame_hdr
                .as_ref()
                .map(|section| Arc::clone(&section.bytes)),
            debug_frame: self.debug_frame.as_ref().map(Arc::clone),
            ..ExplicitModuleSectionInfo::default()
        };
        Module::new(
            String::new(),
            mapping.start.0..mapping.end.0,
            mapping.start.0,
            info,
        )
    }

    fn bases(&self) -> BaseAddresses {
        let mut bases = BaseAddresses::default();
        if let Some(section) = &self.eh_frame {
            bases = bases.set_eh_frame(section.address);
        }
        if let Some(section) = &self.eh_frame_hdr {
            bases = bases.set_eh_frame_hdr(section.address);
        }
        if let Some(got) = &self.got {
            bases = bases.set_got(got.start);
        }
        if let Some(text) = &self.text {
            bases = bases.set_text(text.start);
        }
        bases
    }

    /// The function at an address by the index of the file.
    fn searched(&self, address: u64) -> Option<FrameDescriptionEntry<Slice<'_>>> {
        let (hdr, eh_frame) = (self.eh_frame_hdr.as_ref()?, self.eh_frame.as_ref()?);
        let bases = self.bases();
        let hdr = EhFrameHdr::new(&hdr.bytes, LittleEndian)
            .parse(&bases, 8)
            .ok()?;
        let section = EhFrame::new(&eh_frame.bytes, LittleEndian);
        let table = hdr.table()?;
        let found = table
            .fde_for_address(&section, &bases, address, EhFrame::cie_from_offset)
            .ok()?;
        found.contains(address).then_some(found)
    }

    /// Whether the file has an index that can be searched.
    fn has_index(&self) -> bool {
        let bases = self.bases();
        let hdr = self.eh_frame_hdr.as_ref();
        let parsed = hdr.and_then(|hdr| {
            EhFrameHdr::new(&hdr.bytes, LittleEndian)
                .parse(&bases, 8)
                .ok()
        });
        parsed.is_some_and(|parsed| parsed.table().is_some())
    }

    fn read_functions(&mut self) {
        let bases = self.bases();
        let with_all = self.eh_frame_hdr.is_none();
        let (mut functions, mut returns) = (Vec::new(), Vec::new());
        if let Some(eh_frame) = &self.eh_frame {
            let section = EhFrame::new(&eh_frame.bytes, LittleEndian);
            read_functions(&section, &bases, with_all, &mut functions, &mut returns);
        } else if let Some(bytes) = &self.debug_frame {
            let mut section = DebugFrame::new(bytes, LittleEndian);
            section.set_address_size(8);
            read_functions(&section, &bases, true, &mut functions, &mut returns);
        }
        functions.sort_unstable_by_key(|function| function.range.start);
        self.functions = functions;
        self.signal_returns = returns;
    }
}

fn in_function<'data, S, T>(
    function: &FrameDescriptionEntry<Slice<'data>>,
    section: &S,
    bases: &BaseAddresses,
    address: LinkAddress,
    context: &mut UnwindContext<usize>,
    with: impl FnOnce(Row<'_>) -> T,
) -> Option<T>
where
    S: UnwindSection<Slice<'data>>,
{
    let row = function
        .unwind_info_for_address(section, bases, context, address.0)
        .ok()?;
    let (frame_pointer, returns_to) = (row.register(arch::FRAME), row.register(arch::RETURN));
    Some(with(Row {
        frame_address: row.cfa(),
        frame_pointer: frame_pointer.as_ref(),
        returns_to: returns_to.as_ref(),
        section: section.section().slice(),
        encoding: function.cie().encoding(),
    }))
}

/// Reads where functions are, all of them or none, and where signal handlers return to. What is damaged is passed over;
/// behind damage that has no length nothing is read.
fn read_functions<R: Reader<Offset = usize>, S: UnwindSection<R>>(
    section: &S,
    bases: &BaseAddresses,
    with_all: bool,
    functions: &mut Vec<Function>,
    returns: &mut Vec<Range<u64>>,
) where
    S::Offset: UnwindOffset<usize>,
{
    let mut entries = section.entries(bases);
    // Functions name their common entry, which is mostly that of their neighbours; whether it is one of trampolines.
    let mut commons: VecDeque<(S::Offset, bool)> = VecDeque::new();
    for _ in 0..FUNCTIONS_MAX {
        let Ok(Some(entry)) = entries.next() else {
            return;
        };
        let CieOrFde::Fde(partial) = entry else {
            continue;
        };
        let common = partial.cie_offset();
        let known = commons.iter().find(|&&(offset, _)| offset == common);
        let is_trampoline = known.map(|&(_, is_trampoline)| is_trampoline);
        if !with_all && is_trampoline == Some(false) {
            continue;
        }
        let Ok(function) = partial.parse(S::cie_from_offset) else {
            continue;
        };
        if is_trampoline.is_none() {
            commons.push_front((common, function.is_signal_trampoline()));
            commons.truncate(COMMONS_KEPT);
        }
        let range = function.initial_address()..function.end_address();
        if function.is_signal_trampoline() {
            returns.push(range.clone());
        }
        if with_all {
            let entry = function.offset();
            functions.push(Function { range, entry });
        }
    }
}

#[cfg(test)]
mod tests {
    use unhex_testkit::fixture::Program;

    use super::*;

    fn sections() -> UnwindSections {
        let text = "
            #include <signal.h>
            volatile int sink;
            __attribute__((noinline)) void large(void) { volatile char room[800 << 10]; room[0] = 1; }
            int main(int count, char **words) { large(); return count; }";
        let program = Program::c(text).flags(&["-O2", "-g"]).build();
        let file = std::fs::File::open(program.path()).unwrap();
        BinaryFile::of_file(file).unwrap().unwind_sections()
    }

    /// Every answer within the code.
    fn answers(data: &UnwindData) -> Vec<How> {
        let text = data.text.clone().unwrap();
        let mut context = UnwindContext::new();
        text.map(|address| data.how(LinkAddress(address), &mut context))
            .collect()
    }

    #[test]
    fn without_an_index_the_answers_are_the_same() {
        let with = UnwindData::of_sections(sections());
        assert!(with.functions.is_empty());
        let without = UnwindData::of_sections(UnwindSections {
            eh_frame_hdr: None,
            ..sections()
        });
        assert!(!without.functions.is_empty());
        let answers = answers(&with);
        assert_eq!(answers, self::answers(&without));
        for how in [How::Unknown, How::Root, How::ByFramehop, How::ByRow] {
            assert!(answers.contains(&how), "{how:?}");
        }
    }

    #[test]
    fn an_index_that_is_damaged_is_none() {
        let mut damaged = sections();
        let hdr = damaged.eh_frame_hdr.as_mut().unwrap();
        hdr.bytes[0] = 9;
        let data = UnwindData::of_sections(damaged);
        assert!(data.eh_frame_hdr.is_none());
        assert_eq!(
            answers(&data),
            answers(&UnwindData::of_sections(sections()))
        );
    }

    #[test]
    fn damage_leaves_what_stands_before_it() {
        let mut damaged = sections();
        let eh_frame = damaged.eh_frame.as_mut().unwrap();
        let length = eh_frame.bytes.len();
        eh_frame.bytes.truncate(length / 2);
        damaged.eh_frame_hdr = None;
        let data = UnwindData::of_sections(damaged);
        let found = answers(&data);
        assert!(
            found.contains(&How::Unknown) && found.iter().any(|&how| how != How::Unknown),
            "{found:?}"
        );
    }

    #[test]
    fn libc_says_where_signal_handlers_return_to() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let line = maps
            .lines()
            .find(|line| line.ends_with("/libc.so.6"))
            .unwrap();
        let path = line.split_whitespace().last().unwrap();
        let file = BinaryFile::of_file(std::fs::File::open(path).unwrap()).unwrap();
        let data = UnwindData::of(&file);
        let [returns] = &*data.signal_returns else {
            panic!("{:?}", data.signal_returns);
        };
        assert!(data.is_signal_return(LinkAddress(returns.start)));
        assert!(!data.is_signal_return(LinkAddress(returns.end)));
        let mut context = UnwindContext::new();
        assert_eq!(
            data.how(LinkAddress(returns.start), &mut context),
            How::ByRow
        );
    }
}
