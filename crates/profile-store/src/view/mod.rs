//! What people see of profiles: from [`Merged`], the stacks of a query with their names, to the forms that tools read.
//!
//! Pure: no store, no symbol server, no clock.

mod merged;
mod profile_type;
mod shown;

pub use merged::{
    BinaryNumber, FrameNumber, FunctionNumber, Merged, NamesLacking, ShownCall, ShownFrame, Stack,
};
pub use profile_type::ProfileType;
pub use shown::{Call, ShownBinary, ShownFunction, ShownKind, Weight};
