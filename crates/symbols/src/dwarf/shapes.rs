//! How long entries are and what they are to the walk, learnt once per abbreviation.
//!
//! A unit has some hundred abbreviations and tens of thousands of entries, of which most are only
//! gone over: asking each of their attributes for its form would be most of the work.

use gimli::{Abbreviation, AttributeSpecification, Endianity, constants as dw};

use super::entries::is_wanted;
use super::unit::OpenUnit;

/// Abbreviations whose shape is remembered, by code; compilers number them from 1, up to some
/// thousands.
const CODES_KEPT: usize = 1 << 14;

/// What an entry is to the walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Function,
    InlinedCall,
    /// No code is below it.
    NoCode,
    /// A class, below which code is only if it is local to a function.
    Class,
    Other,
}

/// What the entries of an abbreviation have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) kind: Kind,
    pub(super) has_children: bool,
    /// The unit that it was learnt in.
    unit: u32,
    /// Bytes of attributes of fixed size, up to the first that has none.
    pub(super) head: u32,
    /// What follows them, in `Shapes::steps`; `None` when the entry has to be read attribute by
    /// attribute.
    pub(super) steps: Option<(u32, u32)>,
    pub(super) sibling: Sibling,
}

/// Where the offset of the next sibling is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sibling {
    /// The entry does not say it.
    Nowhere,
    /// So many bytes from the first attribute.
    At(u32),
    /// Among the attributes, perhaps.
    Somewhere,
}

/// An attribute that is read or says its own size, and the bytes of fixed size behind it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) attribute: Met,
    pub(super) then: u32,
}

/// What is done with an attribute.
#[derive(Clone, Copy, Debug)]
pub(super) enum Met {
    Wanted(AttributeSpecification),
    Skipped(OwnSize),
}

/// How an attribute says its size.
#[derive(Clone, Copy, Debug)]
pub(super) enum OwnSize {
    Number,
    Block,
    Block1,
    Block2,
    Block4,
    Text,
}

/// The shapes of one unit's entries, in memory that all units use.
#[derive(Default)]
pub(super) struct Shapes {
    by_code: Vec<Shape>,
    steps: Vec<Step>,
    unit: u32,
}

impl Shapes {
    /// Forgets the shapes of the unit before.
    pub(super) fn forget(&mut self) {
        self.steps.clear();
        self.unit = self.unit.wrapping_add(1);
    }

    pub(super) fn of<E: Endianity>(
        &mut self,
        unit: &OpenUnit<'_, E>,
        code: u64,
    ) -> Result<Shape, gimli::Error> {
        let place = usize::try_from(code).unwrap_or(usize::MAX);
        match self.by_code.get(place) {
            Some(shape) if shape.unit == self.unit => Ok(*shape),
            _ => self.learn(unit, code, place),
        }
    }

    #[cold]
    fn learn<E: Endianity>(
        &mut self,
        unit: &OpenUnit<'_, E>,
        code: u64,
        place: usize,
    ) -> Result<Shape, gimli::Error> {
        let abbreviation = abbreviation(unit, code)?;
        let mut shape = Shape {
            kind: kind(unit, abbreviation.tag()),
            has_children: abbreviation.has_children(),
            unit: self.unit,
            head: 0,
            steps: None,
            sibling: Sibling::Somewhere,
        };
        if place >= CODES_KEPT {
            return Ok(shape);
        }
        self.measure(unit, abbreviation.attributes(), &mut shape);
        if self.by_code.len() <= place {
            let unknown = Shape {
                unit: self.unit.wrapping_sub(1),
                ..shape
            };
            self.by_code.resize(place.saturating_add(1), unknown);
        }
        if let Some(slot) = self.by_code.get_mut(place) {
            *slot = shape;
        }
        Ok(shape)
    }

    /// Learns how long the attributes are, if all have forms that can be learnt.
    fn measure<E: Endianity>(
        &mut self,
        unit: &OpenUnit<'_, E>,
        attributes: &[AttributeSpecification],
        shape: &mut Shape,
    ) {
        let first = self.steps.len();
        let (mut head, mut sibling) = (0_u32, Sibling::Nowhere);
        let reads = matches!(shape.kind, Kind::Function | Kind::InlinedCall);
        for attribute in attributes {
            if attribute.name() == dw::DW_AT_sibling {
                let is_known = attribute.form() == dw::DW_FORM_ref4 && self.steps.len() == first;
                sibling = if is_known {
                    Sibling::At(head)
                } else {
                    Sibling::Somewhere
                };
            }
            let met = if reads && is_wanted(attribute.name()) {
                Met::Wanted(*attribute)
            } else if let Some(size) = attribute.size(&unit.unit.header) {
                let size = u32::try_from(size).unwrap_or(u32::MAX);
                let sum = match self.steps.get_mut(first..).and_then(<[Step]>::last_mut) {
                    Some(step) => &mut step.then,
                    None => &mut head,
                };
                *sum = sum.saturating_add(size);
                continue;
            } else if let Some(size) = own_size(attribute.form()) {
                Met::Skipped(size)
            } else {
                self.steps.truncate(first);
                return;
            };
            self.steps.push(Step {
                attribute: met,
                then: 0,
            });
        }
        let end = self.steps.len();
        let range = (u32::try_from(first).ok(), u32::try_from(end).ok());
        if let (Some(first), Some(end)) = range {
            (shape.head, shape.sibling) = (head, sibling);
            shape.steps = Some((first, end));
        }
    }

    pub(super) fn steps(&self, (first, end): (u32, u32)) -> &[Step] {
        let place = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        self.steps.get(place(first)..place(end)).unwrap_or_default()
    }
}

pub(super) fn abbreviation<'u, E: Endianity>(
    unit: &'u OpenUnit<'_, E>,
    code: u64,
) -> Result<&'u Abbreviation, gimli::Error> {
    let found = unit.unit.abbreviations.get(code);
    found.ok_or(gimli::Error::InvalidAbbreviationCode(code))
}

/// What the walk does with an entry of that tag.
///
/// gcc puts a method's code below its class only if that is local to a function; the declaration in
/// any other class is completed elsewhere ("we always want the DIE for this function that has the
/// `*_pc` attributes to be under `comp_unit_die`", gcc's dwarf2out.cc).
fn kind<E: Endianity>(unit: &OpenUnit<'_, E>, tag: gimli::DwTag) -> Kind {
    match tag {
        dw::DW_TAG_subprogram => Kind::Function,
        dw::DW_TAG_inlined_subroutine => Kind::InlinedCall,
        dw::DW_TAG_enumeration_type
        | dw::DW_TAG_array_type
        | dw::DW_TAG_subroutine_type
        | dw::DW_TAG_call_site
        | dw::DW_TAG_GNU_call_site => Kind::NoCode,
        dw::DW_TAG_structure_type | dw::DW_TAG_class_type | dw::DW_TAG_union_type
            if unit.is_gnu =>
        {
            Kind::Class
        }
        _ => Kind::Other,
    }
}

/// How an attribute of a form says its size; `None` for forms that are not known, and the one that
/// is told by each entry anew.
fn own_size(form: gimli::DwForm) -> Option<OwnSize> {
    Some(match form {
        dw::DW_FORM_udata
        | dw::DW_FORM_sdata
        | dw::DW_FORM_ref_udata
        | dw::DW_FORM_strx
        | dw::DW_FORM_GNU_str_index
        | dw::DW_FORM_addrx
        | dw::DW_FORM_GNU_addr_index
        | dw::DW_FORM_loclistx
        | dw::DW_FORM_rnglistx => OwnSize::Number,
        dw::DW_FORM_block | dw::DW_FORM_exprloc => OwnSize::Block,
        dw::DW_FORM_block1 => OwnSize::Block1,
        dw::DW_FORM_block2 => OwnSize::Block2,
        dw::DW_FORM_block4 => OwnSize::Block4,
        dw::DW_FORM_string => OwnSize::Text,
        _ => return None,
    })
}
