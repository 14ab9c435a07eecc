//! From the addresses of a request, of four kinds, to link addresses, or to the reason why not.

use unhex_api::symbolize::{Address, AddressKind, Adjust, Module, Reason};
use unhex_symbols::address::{
    CodeAddress, FileOffset, LinkAddress, ProcessAddress, RelativeAddress, ReturnAddress,
};
use unhex_symbols::segments::{LoadSegment, LoadSegments, Mapping};

/// `e_machine` of 32-bit ARM, whose bit 0 says Thumb and is no part of the address.
const EM_ARM: u16 = 40;
/// The alignment of segments that do not say one.
const PAGE_BYTES: u64 = 4096;

/// How the addresses of one module become link addresses.
#[derive(Debug)]
pub(super) struct Placing<'a> {
    kind: AddressKind,
    adjust: Adjust,
    mapping: Option<Mapping>,
    segments: Option<&'a LoadSegments>,
    machine: u16,
}

impl<'a> Placing<'a> {
    /// The placing that `module` asks for, of a binary with these program headers, if known, and
    /// this `e_machine`.
    pub(super) fn new(module: &Module, segments: Option<&'a LoadSegments>, machine: u16) -> Self {
        Self {
            kind: module.address_kind,
            adjust: module.adjust,
            mapping: module.mapping.map(|mapping| Mapping {
                start: ProcessAddress(mapping.start.0),
                end: ProcessAddress(mapping.end.0),
                file_offset: FileOffset(mapping.file_offset.0),
            }),
            // A relocatable file has none; its addresses are taken as they are.
            segments: segments.filter(|segments| !segments.0.is_empty()),
            machine,
        }
    }

    /// The link address to look up.
    pub(super) fn link_address(&self, address: Address) -> Result<LinkAddress, Reason> {
        let mut number = address.known().ok_or(Reason::InvalidAddress)?;
        if self.machine == EM_ARM {
            number &= !1;
        }
        match (self.kind, self.segments) {
            (AddressKind::Link, None) => Ok(self.adjusted(LinkAddress(number))),
            (AddressKind::Link, Some(segments)) => {
                within(segments, self.adjusted(LinkAddress(number)))
            }
            (_, None) => Err(Reason::NeedsExecutable),
            (AddressKind::FileOffset, Some(segments)) => segments
                .link_address_of_offset(self.adjusted(FileOffset(number)))
                .ok_or(Reason::OutsideModule),
            (AddressKind::Relative, Some(segments)) => segments
                .link_address_of_relative(self.adjusted(RelativeAddress(number)))
                .ok_or(Reason::OutsideModule)
                .and_then(|link| within(segments, link)),
            (AddressKind::Process, Some(segments)) => {
                let mapping = self.mapping.ok_or(Reason::InvalidAddress)?;
                segments
                    .link_address_of_process(self.adjusted(ProcessAddress(number)), mapping)
                    .ok_or(Reason::OutsideModule)
            }
            // A kind of a newer protocol cannot be placed by this one.
            _ => Err(Reason::InvalidAddress),
        }
    }

    /// The address to look up for one that was sent, of the same kind: going back to the call first
    /// keeps one that ends its segment or mapping inside it.
    fn adjusted<A: CodeAddress>(&self, address: A) -> A {
        match self.adjust {
            Adjust::CallSite => ReturnAddress(address).call_site(),
            _ => address,
        }
    }
}

/// The address, if a segment has it in memory.
fn within(segments: &LoadSegments, link: LinkAddress) -> Result<LinkAddress, Reason> {
    let covers = |segment: &LoadSegment| {
        link.0
            .checked_sub(segment.address)
            .is_some_and(|within| within < segment.memory_size_bytes)
    };
    if segments.0.iter().any(covers) {
        Ok(link)
    } else {
        Err(Reason::OutsideModule)
    }
}

/// The program headers that a request brings, if it brings any.
pub(super) fn segments_of_request(module: &Module) -> Option<LoadSegments> {
    let segments = module.segments.as_ref()?;
    let load_segment = |segment: &unhex_api::symbolize::Segment| LoadSegment {
        address: segment.address.0,
        file_offset: segment.file_offset.0,
        file_size_bytes: segment.file_size_bytes.0,
        memory_size_bytes: segment
            .memory_size_bytes
            .map_or(0, |size| size.0)
            .max(segment.file_size_bytes.0),
        align: segment.align.map_or(PAGE_BYTES, |align| align.0),
        executable: segment.executable,
    };
    Some(LoadSegments(segments.iter().map(load_segment).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segments() -> LoadSegments {
        let segment = |address, file_offset, size, executable| LoadSegment {
            address,
            file_offset,
            file_size_bytes: size,
            memory_size_bytes: size + 8,
            align: 0x1000,
            executable,
        };
        LoadSegments(vec![
            segment(0x40_0000, 0, 0x5f0, false),
            segment(0x40_1000, 0x1000, 0x200, true),
        ])
    }

    fn module(kind: AddressKind, adjust: Adjust) -> Module {
        Module {
            address_kind: kind,
            adjust,
            mapping: Some(unhex_api::symbolize::Mapping {
                start: 0x7f00_0000_1000.into(),
                end: 0x7f00_0000_1200.into(),
                file_offset: 0x1000.into(),
            }),
            ..Module::default()
        }
    }

    fn place(kind: AddressKind, adjust: Adjust, number: u64) -> Result<LinkAddress, Reason> {
        let segments = segments();
        Placing::new(&module(kind, adjust), Some(&segments), 62).link_address(number.into())
    }

    #[test]
    fn four_kinds_of_address_lead_to_the_same_place() {
        let expected = Ok(LinkAddress(0x40_1139));
        for (kind, number) in [
            (AddressKind::Link, 0x40_1139),
            (AddressKind::FileOffset, 0x1139),
            (AddressKind::Relative, 0x1139),
            (AddressKind::Process, 0x7f00_0000_1139),
        ] {
            assert_eq!(place(kind, Adjust::None, number), expected, "{kind:?}");
            assert_eq!(
                place(kind, Adjust::CallSite, number + 1),
                expected,
                "{kind:?}"
            );
        }
    }

    #[test]
    fn a_call_that_ends_its_segment_stays_inside() {
        for (kind, end) in [
            (AddressKind::FileOffset, 0x1200),
            (AddressKind::Process, 0x7f00_0000_1200),
        ] {
            assert_eq!(
                place(kind, Adjust::CallSite, end),
                Ok(LinkAddress(0x40_11ff))
            );
            assert_eq!(place(kind, Adjust::None, end), Err(Reason::OutsideModule));
        }
    }

    #[test]
    fn what_no_segment_has_is_outside_the_module() {
        for (kind, number) in [
            (AddressKind::Link, 0x40_1208),
            (AddressKind::Link, 0),
            (AddressKind::FileOffset, 0x900),
            (AddressKind::Relative, u64::MAX),
            (AddressKind::Process, 0x10),
        ] {
            let placed = place(kind, Adjust::None, number);
            assert_eq!(placed, Err(Reason::OutsideModule), "{kind:?} {number:#x}");
        }
    }

    #[test]
    fn without_program_headers_only_link_addresses_are_placed() {
        for empty in [None, Some(LoadSegments::default())] {
            let place = |kind| {
                let module = module(kind, Adjust::None);
                Placing::new(&module, empty.as_ref(), 62).link_address(Address::Known(1))
            };
            assert_eq!(place(AddressKind::Link), Ok(LinkAddress(1)));
            for kind in [
                AddressKind::FileOffset,
                AddressKind::Relative,
                AddressKind::Process,
            ] {
                assert_eq!(place(kind), Err(Reason::NeedsExecutable));
            }
        }
    }

    #[test]
    fn no_address_and_no_mapping_are_invalid() {
        let segments = segments();
        let mut module = module(AddressKind::Process, Adjust::None);
        module.mapping = None;
        let placing = Placing::new(&module, Some(&segments), 62);
        assert_eq!(
            placing.link_address(Address::Known(1)),
            Err(Reason::InvalidAddress)
        );
        assert_eq!(
            placing.link_address(Address::Invalid),
            Err(Reason::InvalidAddress)
        );
    }

    #[test]
    fn the_thumb_bit_is_no_part_of_an_address() {
        let place = |adjust, number| {
            let module = module(AddressKind::Link, adjust);
            Placing::new(&module, None, EM_ARM).link_address(Address::Known(number))
        };
        assert_eq!(place(Adjust::None, 0x1001), Ok(LinkAddress(0x1000)));
        assert_eq!(place(Adjust::CallSite, 0x1005), Ok(LinkAddress(0x1003)));
    }
}
