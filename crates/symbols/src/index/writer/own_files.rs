//! Which file a node's code is from: the one that rows and calls need not name.
//!
//! Nearly all code of a function is from one file (facts: 0.1 to 7 % of rows, 1 % of calls are
//! not), so a file belongs to the function, and what differs is an exception.

use crate::index::reader::WIDE_FILES;
use crate::model::{CallNode, NONE, Row};

/// The own file of each node, and the usual one of each function.
pub(super) struct OwnFiles {
    pub(super) of_nodes: Vec<u32>,
    pub(super) of_functions: Vec<u32>,
}

/// One pass of the Boyer-Moore majority vote: whoever has more than half of the votes wins.
#[derive(Clone, Copy, Default)]
struct Vote {
    candidate: u32,
    lead: u32,
}

impl Vote {
    fn cast(&mut self, file: u32) {
        if self.lead == 0 {
            *self = Self {
                candidate: file,
                lead: 1,
            };
        } else if self.candidate == file {
            self.lead = self.lead.saturating_add(1);
        } else {
            self.lead -= 1;
        }
    }
}

/// Votes of rows and of the calls that stand in a node, then of nodes for their functions.
pub(super) fn own_files(rows: &[Row], nodes: &[CallNode], functions: usize) -> OwnFiles {
    let nobody = Vote {
        candidate: NONE,
        lead: 0,
    };
    let mut votes: Vec<Vote> = vec![nobody; nodes.len()];
    let mut voted = vec![false; nodes.len()];
    let mut cast = |node: u32, file: u32| {
        let node = node as usize;
        if let (Some(vote), Some(voted)) = (votes.get_mut(node), voted.get_mut(node)) {
            vote.cast(file);
            *voted = true;
        }
    };
    for row in rows {
        cast(row.node, row.file);
    }
    for node in nodes {
        cast(node.parent, node.call_file);
    }
    let mut usual: Vec<Vote> = vec![nobody; functions];
    for ((node, vote), voted) in nodes.iter().zip(&votes).zip(&voted) {
        if let (Some(usual), true) = (usual.get_mut(node.function as usize), *voted) {
            usual.cast(vote.candidate);
        }
    }
    let of_functions: Vec<u32> = usual.iter().map(|vote| vote.candidate).collect();
    let of_nodes = nodes
        .iter()
        .zip(&votes)
        .zip(&voted)
        .map(|((node, vote), voted)| {
            if *voted {
                vote.candidate
            } else {
                of_functions
                    .get(node.function as usize)
                    .copied()
                    .unwrap_or(NONE)
            }
        });
    OwnFiles {
        of_nodes: of_nodes.collect(),
        of_functions,
    }
}

/// The table of usual files: u16 each while all numbers and "none" fit, else u32.
pub(super) fn table(of_functions: &[u32], files: u32) -> Vec<u8> {
    if files >= WIDE_FILES {
        return of_functions
            .iter()
            .flat_map(|file| file.to_le_bytes())
            .collect();
    }
    let narrow = of_functions
        .iter()
        .map(|file| u16::try_from(*file).unwrap_or(u16::MAX));
    narrow.flat_map(u16::to_le_bytes).collect()
}
