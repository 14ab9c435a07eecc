//! What people see of profiles: from [`Merged`], the stacks of a query with their names, to the forms that tools read.
//!
//! Pure: no store, no symbol server, no clock. [`StackFilter`] leaves stacks of interest, [`Tree`] adds them up by calls; from the tree come folded stacks, the
//! JSON of flame graphs, pictures and speedscope's files, from the stacks themselves pprof and the list of the top functions.

mod filter;
mod flame_graph;
mod folded;
mod heading;
mod merged;
mod names;
mod pprof;
mod profile_type;
mod shown;
mod speedscope;
mod svg;
mod top;
mod tree;

pub use filter::{
    FILTER_BYTES_MAX, FILTER_COMPILED_BYTES_MAX, FilterError, FilterTexts, StackFilter,
};
pub use flame_graph::flame_graph;
pub use folded::FoldedLines;
pub use heading::Heading;
pub use merged::{
    BinaryNumber, FrameNumber, FunctionNumber, Merged, NamesLacking, ShownCall, ShownFrame, Stack,
};
pub use pprof::{PprofError, pprof};
pub use profile_type::ProfileType;
pub use shown::{Call, ShownBinary, ShownFunction, ShownKind, Weight};
pub use speedscope::{Speedscope, speedscope};
pub use svg::{SVG_DEPTH_MAX, SVG_NAME_CHARS_MAX, svg};
pub use top::{TopBy, TopOptions, TopOrder, top};
pub use tree::{Label, NODES_MIN, Node, Tree};

#[cfg(test)]
mod tests;
