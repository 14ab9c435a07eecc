//! Where the walk over the entries of a unit stands, and how it gets on.

use gimli::{
    Attribute, AttributeSpecification, AttributeValue, Endianity, EntriesRaw, Reader as _,
    UnitOffset, constants as dw,
};

use super::entries::is_wanted;
use super::shapes::{Met, OwnSize, Shape, Shapes, Sibling, abbreviation};
use super::unit::OpenUnit;
use super::{Reader, UnitError};

/// The place of a walk in a unit.
pub(super) struct Walk<'u, 'a, E: Endianity> {
    unit: &'u OpenUnit<'a, E>,
    /// From here to the end of the unit.
    input: Reader<'a, E>,
    /// The offset of that end.
    end: usize,
    depth: isize,
}

/// An entry whose abbreviation was read.
#[derive(Clone, Copy)]
pub(super) struct Entered {
    pub(super) offset: UnitOffset,
    pub(super) depth: isize,
    pub(super) shape: Shape,
    code: u64,
}

impl<'u, 'a, E: Endianity> Walk<'u, 'a, E> {
    /// Begins at the root of a unit.
    pub(super) fn of(unit: &'u OpenUnit<'a, E>) -> Result<Self, gimli::Error> {
        let root = unit.unit.header.root_offset();
        let input = unit.unit.header.range_from(root..)?;
        Ok(Self {
            unit,
            end: root.0.saturating_add(input.len()),
            input,
            depth: 0,
        })
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.input.is_empty()
    }

    /// How deep the next entry is.
    pub(super) fn depth(&self) -> isize {
        self.depth
    }

    fn offset(&self) -> UnitOffset {
        UnitOffset(self.end.saturating_sub(self.input.len()))
    }

    /// Enters the next entry; `None` when it is the end of its parent's children.
    #[inline]
    pub(super) fn enter(&mut self, shapes: &mut Shapes) -> Result<Option<Entered>, gimli::Error> {
        let offset = self.offset();
        let code = self.input.read_uleb128()?;
        if code == 0 {
            self.depth = self.depth.saturating_sub(1);
            return Ok(None);
        }
        let shape = shapes.of(self.unit, code)?;
        let depth = self.depth;
        self.depth = depth.saturating_add(isize::from(shape.has_children));
        Ok(Some(Entered {
            offset,
            depth,
            shape,
            code,
        }))
    }

    /// Goes over the attributes of the entry that was entered.
    #[inline]
    pub(super) fn skip(&mut self, entered: &Entered, shapes: &Shapes) -> Result<(), UnitError> {
        self.read(entered, shapes, |_attribute| Ok(()))
    }

    /// Gives those attributes of the entry that was entered to `take` that are wanted.
    #[inline]
    pub(super) fn read(
        &mut self,
        entered: &Entered,
        shapes: &Shapes,
        mut take: impl FnMut(Attribute<Reader<'a, E>>) -> Result<(), UnitError>,
    ) -> Result<(), UnitError> {
        let Some(steps) = entered.shape.steps else {
            for attribute in abbreviation(self.unit, entered.code)?.attributes() {
                let is_wanted = is_wanted(attribute.name());
                let value = self.attribute(*attribute)?;
                if is_wanted {
                    take(value)?;
                }
            }
            return Ok(());
        };
        self.skip_bytes(entered.shape.head)?;
        for step in shapes.steps(steps) {
            match step.attribute {
                Met::Wanted(attribute) => take(self.attribute(attribute)?)?,
                Met::Skipped(size) => self.skip_own_size(size)?,
            }
            self.skip_bytes(step.then)?;
        }
        Ok(())
    }

    /// Reads one attribute.
    #[inline]
    fn attribute(
        &mut self,
        attribute: AttributeSpecification,
    ) -> Result<Attribute<Reader<'a, E>>, gimli::Error> {
        let unit = &self.unit.unit;
        let start = UnitOffset(0);
        let mut entries = EntriesRaw::new(self.input, unit.encoding(), &unit.abbreviations, start);
        let attribute = entries.read_attribute_inline(attribute)?;
        self.input.skip(entries.next_offset().0)?;
        Ok(attribute)
    }

    /// Goes over all that is below the entry that was entered, or over its attributes when it does
    /// not say where it ends.
    pub(super) fn skip_with_children(
        &mut self,
        entered: &Entered,
        shapes: &Shapes,
    ) -> Result<(), UnitError> {
        match entered.shape.sibling {
            Sibling::Nowhere => self.skip(entered, shapes),
            Sibling::At(place) => {
                let mut input = self.input;
                input.skip(usize::try_from(place).unwrap_or(usize::MAX))?;
                let offset = usize::try_from(input.read_u32()?).unwrap_or(usize::MAX);
                if offset > self.end.saturating_sub(input.len()) {
                    self.jump(entered, UnitOffset(offset))
                } else {
                    self.skip(entered, shapes)
                }
            }
            Sibling::Somewhere => {
                let mut sibling = None;
                for attribute in abbreviation(self.unit, entered.code)?.attributes() {
                    let value = self.attribute(*attribute)?.value();
                    if let (dw::DW_AT_sibling, AttributeValue::UnitRef(offset)) =
                        (attribute.name(), value)
                    {
                        sibling = Some(offset);
                    }
                }
                match sibling {
                    Some(offset) if offset > self.offset() => self.jump(entered, offset),
                    _ => Ok(()),
                }
            }
        }
    }

    fn jump(&mut self, entered: &Entered, to: UnitOffset) -> Result<(), UnitError> {
        self.input = self.unit.unit.header.range_from(to..)?;
        self.depth = entered.depth;
        Ok(())
    }

    fn skip_bytes(&mut self, count: u32) -> Result<(), gimli::Error> {
        self.input
            .skip(usize::try_from(count).unwrap_or(usize::MAX))
    }

    fn skip_own_size(&mut self, size: OwnSize) -> Result<(), gimli::Error> {
        let count = match size {
            OwnSize::Number => return self.input.skip_leb128(),
            OwnSize::Text => return self.input.read_null_terminated_slice().map(|_text| ()),
            OwnSize::Block => self.input.read_uleb128()?,
            OwnSize::Block1 => self.input.read_u8()?.into(),
            OwnSize::Block2 => self.input.read_u16()?.into(),
            OwnSize::Block4 => self.input.read_u32()?.into(),
        };
        self.input
            .skip(usize::try_from(count).unwrap_or(usize::MAX))
    }
}
