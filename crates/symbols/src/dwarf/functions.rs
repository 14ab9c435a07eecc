//! The functions of one unit and the calls inlined into them, by a flat walk over its entries.
//!
//! A function whose ranges have names of their own in the symbol table (`work`, `work.cold`)
//! gets a root for each name.

use std::rc::Rc;

use gimli::Endianity;
use rustc_hash::FxHashMap;

use super::clones::{base_name, clone_name};
use super::entries::Entry;
use super::lines::Lines;
use super::names::Named;
use super::shapes::{Kind, Shapes};
use super::unit::{OpenUnit, Place};
use super::units::Units;
use super::walk::{Entered, Walk};
use super::{Context, UnitError};
use crate::convert::{Draft, NameId};
use crate::model::{CallNode, NONE};

/// Depth of entries: those of real files are some tens deep, and compilers give up at some hundred
/// nested blocks. Deeper ones are made to break parsers.
const ENTRY_DEPTH_MAX: isize = 16_384;

/// Inlined calls within each other; deeper ones belong to the last that fits.
const INLINE_DEPTH_MAX: u32 = 512;

/// Everything found so far, and the memory that each unit reuses.
#[derive(Default)]
pub(super) struct Found {
    pub(super) draft: Draft,
    pub(super) ranges: Vec<FunctionRange>,
    pub(super) intervals: Vec<Interval>,
    pub(super) lines: Lines,
    shapes: Shapes,
    inlined: FxHashMap<CallKey, u32>,
    open: Vec<Open>,
    scratch: Vec<(u64, u64)>,
    functions: u32,
}

/// One range of one function of the unit.
#[derive(Clone, Copy)]
pub(super) struct FunctionRange {
    /// Number of the function within the unit.
    pub(super) function: u32,
    pub(super) start: u64,
    pub(super) end: u64,
    /// The root node for this range.
    pub(super) root: u32,
    /// The root that inlined calls were attached to.
    pub(super) first_root: u32,
}

/// One range of one inlined call of the unit.
#[derive(Clone, Copy)]
pub(super) struct Interval {
    pub(super) function: u32,
    pub(super) start: u64,
    pub(super) end: u64,
    /// Position in the walk; where two overlap, the later is the inner one.
    pub(super) order: u32,
    pub(super) node: u32,
}

/// What makes an inlined call the same as another one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct CallKey {
    function: u32,
    parent: u32,
    file: u32,
    line: u32,
    column: u32,
}

/// An entry whose children are being read.
#[derive(Clone, Copy)]
struct Open {
    depth: isize,
    /// Number of the function within the unit; `NONE` for one without code.
    function: u32,
    node: u32,
    inline_depth: u32,
}

/// Lengths to go back to when a unit is damaged.
pub(super) struct Mark {
    rows: usize,
    pieces: usize,
    orphans: usize,
    nodes: usize,
}

/// What else there is to say of a unit that was read.
pub(super) struct UnitOutcome {
    pub(super) failed_lines: bool,
    pub(super) without_dwo: bool,
}

impl Found {
    pub(super) fn mark(&self) -> Mark {
        Mark {
            rows: self.draft.rows.len(),
            pieces: self.draft.pieces.len(),
            orphans: self.draft.orphans.len(),
            nodes: self.draft.nodes.len(),
        }
    }

    pub(super) fn rewind(&mut self, mark: &Mark) {
        self.draft.rows.truncate(mark.rows);
        self.draft.pieces.truncate(mark.pieces);
        self.draft.orphans.truncate(mark.orphans);
        self.draft.nodes.truncate(mark.nodes);
    }

    fn clear_unit(&mut self) {
        self.ranges.clear();
        self.intervals.clear();
        self.inlined.clear();
        self.open.clear();
        self.functions = 0;
    }

    /// Forgets the entries that end where the next one is that deep.
    fn close(&mut self, depth: isize) {
        while self.open.last().is_some_and(|open| open.depth >= depth) {
            self.open.pop();
        }
    }

    /// The innermost function with code, or call inlined into it, that the next entry is in.
    fn inside(&self) -> Option<Open> {
        let open = self.open.last().copied();
        open.filter(|open| open.function != NONE)
    }

    pub(super) fn push_node(
        &mut self,
        context: &Context<'_>,
        node: CallNode,
    ) -> Result<u32, UnitError> {
        let index = self.draft.nodes.len();
        context.budget.nodes(index.saturating_add(1))?;
        self.draft.nodes.push(node);
        Ok(u32::try_from(index).unwrap_or(NONE))
    }
}

/// Reads one unit, the one of that number.
pub(super) fn walk_unit<'a: 'u, 'u, E: Endianity>(
    context: &Context<'a>,
    units: &mut Units<'a, E>,
    skeleton: Rc<OpenUnit<'u, E>>,
    number: usize,
    found: &mut Found,
) -> Result<UnitOutcome, UnitError> {
    let split = units.split_of(&skeleton, number)?;
    let without_dwo = split.is_none() && skeleton.unit.dwo_name()?.is_some();
    let unit = split.unwrap_or(skeleton);
    found.clear_unit();
    units.functions.forget_own_entries();
    units.read_functions(context, &unit, found)?;
    units.read_lines(context, &unit, &mut found.lines)?;
    found.flatten(context)?;
    Ok(UnitOutcome {
        failed_lines: found.lines.failed,
        without_dwo,
    })
}

impl<'a, E: Endianity> Units<'a, E> {
    fn read_functions<'u>(
        &mut self,
        context: &Context<'a>,
        unit: &Rc<OpenUnit<'u, E>>,
        found: &mut Found,
    ) -> Result<(), UnitError>
    where
        'a: 'u,
    {
        found.shapes.forget();
        let mut walk = Walk::of(unit)?;
        while !walk.is_at_end() {
            let Some(entered) = walk.enter(&mut found.shapes)? else {
                found.close(walk.depth());
                continue;
            };
            context.budget.spend(1)?;
            let Entered {
                offset,
                depth,
                shape,
                ..
            } = entered;
            if depth > ENTRY_DEPTH_MAX {
                let found = format!("entries are nested more than {ENTRY_DEPTH_MAX} deep");
                return Err(UnitError::endless(unit.place_of(offset), &found));
            }
            let open = match (shape.kind, found.inside()) {
                (Kind::Function, _) => {
                    let entry = self.read_entry(unit, &mut walk, &entered, &found.shapes)?;
                    self.function(context, unit, &entry, unit.place_of(offset), found)?
                }
                (Kind::InlinedCall, Some(parent)) => {
                    let entry = self.read_entry(unit, &mut walk, &entered, &found.shapes)?;
                    self.check_reference(context, unit, unit.place_of(offset), &entry)?;
                    self.inlined_call(context, unit, &entry, parent, found)?
                }
                (kind, _) => {
                    let holds_no_code = match kind {
                        Kind::NoCode => true,
                        Kind::Class => found.open.is_empty(),
                        _ => false,
                    };
                    if holds_no_code {
                        walk.skip_with_children(&entered, &found.shapes)?;
                    } else {
                        walk.skip(&entered, &found.shapes)?;
                    }
                    continue;
                }
            };
            if shape.has_children {
                found.open.push(Open { depth, ..open });
            }
        }
        Ok(())
    }

    fn function<'u>(
        &mut self,
        context: &Context<'a>,
        unit: &Rc<OpenUnit<'u, E>>,
        entry: &Entry,
        own: Place,
        found: &mut Found,
    ) -> Result<Open, UnitError>
    where
        'a: 'u,
    {
        let mut ranges = std::mem::take(&mut found.scratch);
        ranges.clear();
        self.read_ranges(context, unit, entry, &mut ranges)?;
        let mut open = Open {
            depth: 0,
            function: NONE,
            node: NONE,
            inline_depth: 0,
        };
        if ranges.is_empty() {
            self.check_reference(context, unit, own, entry)?;
        } else {
            let named = self.named(context, unit, own)?;
            open.function = found.functions;
            found.functions = found.functions.saturating_add(1);
            open.node = self.roots(context, &named, entry, &ranges, found)?;
        }
        found.scratch = ranges;
        Ok(open)
    }

    /// Makes a root for each name of the ranges; the first one made.
    fn roots(
        &mut self,
        context: &Context<'a>,
        named: &Named,
        entry: &Entry,
        ranges: &[(u64, u64)],
        found: &mut Found,
    ) -> Result<u32, UnitError> {
        let number = found.functions.saturating_sub(1);
        let own = self.functions.names.get(named.best());
        let base = match base_name(context.symbols, named, own, entry.pc, ranges) {
            Some(symbol) => self.functions.names.intern(symbol, context.budget)?,
            None => named.best(),
        };
        let mut roots: Vec<(NameId, u32)> = Vec::new();
        for &(start, end) in ranges {
            context.budget.spend(1)?;
            let names = &mut self.functions.names;
            let name = match clone_name(context.symbols, names.get(base), start) {
                Some(clone) => names.intern(clone, context.budget)?,
                None => base,
            };
            let known = roots.iter().find(|(other, _)| *other == name);
            let root = if let Some(&(_, root)) = known {
                root
            } else {
                let function = self.functions.intern(named.key(name), context.budget)?;
                let node = CallNode {
                    function,
                    parent: NONE,
                    call_file: NONE,
                    call_line: 0,
                    call_column: 0,
                    entry: start,
                    size_bytes: 0,
                };
                let root = found.push_node(context, node)?;
                roots.push((name, root));
                root
            };
            let inside = entry.pc.filter(|pc| (start..end).contains(pc));
            if let Some(node) = found.draft.nodes.get_mut(index(root)) {
                node.size_bytes = node.size_bytes.saturating_add(end - start);
                node.entry = inside.unwrap_or(node.entry);
            }
            let first_root = roots.first().map_or(root, |&(_, first)| first);
            found.ranges.push(FunctionRange {
                function: number,
                start,
                end,
                root,
                first_root,
            });
        }
        Ok(roots.first().map_or(NONE, |&(_, root)| root))
    }

    fn inlined_call<'u>(
        &mut self,
        context: &Context<'a>,
        unit: &Rc<OpenUnit<'u, E>>,
        entry: &Entry,
        parent: Open,
        found: &mut Found,
    ) -> Result<Open, UnitError>
    where
        'a: 'u,
    {
        let Some(origin) = entry
            .origin
            .filter(|_| parent.inline_depth < INLINE_DEPTH_MAX)
        else {
            return Ok(parent);
        };
        let function = self.function_at(context, unit, origin)?;
        let file = match entry.call_file {
            Some(index) => self.files.of(&self.sources, unit, index, context.budget)?,
            None => NONE,
        };
        let key = CallKey {
            function,
            parent: parent.node,
            file,
            line: entry.call_line,
            column: entry.call_column,
        };
        let node = if let Some(&node) = found.inlined.get(&key) {
            node
        } else {
            let node = CallNode {
                function,
                parent: parent.node,
                call_file: file,
                call_line: entry.call_line,
                call_column: entry.call_column,
                entry: 0,
                size_bytes: 0,
            };
            let node = found.push_node(context, node)?;
            found.inlined.insert(key, node);
            node
        };
        let mut ranges = std::mem::take(&mut found.scratch);
        ranges.clear();
        self.read_ranges(context, unit, entry, &mut ranges)?;
        for &(start, end) in &ranges {
            let order = u32::try_from(found.intervals.len()).unwrap_or(NONE);
            found.intervals.push(Interval {
                function: parent.function,
                start,
                end,
                order,
                node,
            });
        }
        found.scratch = ranges;
        Ok(Open {
            node,
            inline_depth: parent.inline_depth.saturating_add(1),
            ..parent
        })
    }
}

/// An index that is held as `u32`.
pub(super) fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
