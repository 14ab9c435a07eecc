//! Rows as a tree of nodes of 4 KiB, which is what the kernel program searches.
//!
//! A look-up of a map is what costs in the kernel: a tree of 512 entries a node needs one for a small binary, two for
//! 260,000 rows and three for 130 million, where a search of one long array needs one a step. And nodes are all of one
//! size, so that a table fits wherever others were put away.

use crate::table::Row;

/// Entries of a node; `NODE_ENTRIES` in `bpf/unwind.h`.
pub(super) const NODE_ENTRIES: usize = 512;

/// The highest key: no row is there.
const UNUSED: u32 = u32::MAX;

/// A node as the kernel program reads it: keys and values in turn.
pub(super) type Node = [u32; NODE_ENTRIES * 2];

/// Where a tree begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Root {
    pub(super) node: u32,
    pub(super) levels: u8,
}

/// How many nodes so many rows take.
pub(super) fn nodes(rows: usize) -> usize {
    let mut of_level = rows.div_ceil(NODE_ENTRIES);
    let mut all = of_level;
    while of_level > 1 {
        of_level = of_level.div_ceil(NODE_ENTRIES);
        all += of_level;
    }
    all
}

/// Writes rows into nodes of these numbers, as many as [`nodes`] says. `None` without rows.
///
/// # Errors
/// As `put` fails.
pub(super) fn write<E>(
    rows: &[Row],
    numbers: &[u32],
    mut put: impl FnMut(u32, &Node) -> Result<(), E>,
) -> Result<Option<Root>, E> {
    let mut numbers = numbers.iter().copied();
    let mut entries: Vec<(u32, u32)> = rows.iter().map(|row| (row.address, row.word.0)).collect();
    let mut levels = 0;
    loop {
        levels += 1;
        let mut above = Vec::with_capacity(entries.len().div_ceil(NODE_ENTRIES));
        for chunk in entries.chunks(NODE_ENTRIES) {
            let (Some(number), Some(&(first, _))) = (numbers.next(), chunk.first()) else {
                return Ok(None);
            };
            put(number, &node(chunk))?;
            above.push((first, number));
        }
        match *above.as_slice() {
            [] => return Ok(None),
            [(_, node)] => return Ok(Some(Root { node, levels })),
            _ => entries = above,
        }
    }
}

fn node(entries: &[(u32, u32)]) -> Node {
    let mut node = [UNUSED; NODE_ENTRIES * 2];
    for (place, &(key, value)) in node.chunks_exact_mut(2).zip(entries) {
        place.copy_from_slice(&[key, value]);
    }
    node
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::convert::Infallible;

    use super::*;
    use crate::table::Word;

    fn rows(count: u32) -> Vec<Row> {
        let row = |place| Row {
            address: place * 3 + 1,
            word: Word(place),
        };
        (0..count).map(row).collect()
    }

    fn search(nodes: &BTreeMap<u32, Node>, root: Root, key: u32) -> Option<u32> {
        let mut number = root.node;
        for level in 1.. {
            let node = nodes[&number];
            let place = node.chunks(2).rposition(|entry| entry[0] <= key)?;
            number = node[place * 2 + 1];
            if level == root.levels {
                return Some(number);
            }
        }
        None
    }

    #[test]
    fn every_row_is_found_at_the_end_of_a_way_down() {
        for (count, levels) in [
            (1, 1),
            (512, 1),
            (513, 2),
            (1000, 2),
            (262_144, 2),
            (262_145, 3),
        ] {
            let rows = rows(count);
            let numbers: Vec<u32> = (100..).take(nodes(rows.len())).collect();
            let mut written = BTreeMap::new();
            let root = write(&rows, &numbers, |number, node| {
                written.insert(number, *node);
                Ok::<_, Infallible>(())
            });
            let root = root.unwrap().unwrap();
            assert_eq!(
                (root.levels, written.len()),
                (levels, numbers.len()),
                "{count}"
            );
            for place in [0, count / 3, count / 2, count - 1] {
                let address = place * 3 + 1;
                assert_eq!(search(&written, root, address), Some(place), "{count}");
                assert_eq!(search(&written, root, address + 2), Some(place), "{count}");
            }
        }
    }

    #[test]
    fn no_rows_are_no_tree() {
        let none = write(&[], &[], |_, _| Ok::<_, Infallible>(()));
        assert_eq!((none, nodes(0)), (Ok(None), 0));
    }
}
