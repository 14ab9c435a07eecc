//! The dictionary of an hour: what the numbers in its rows stand for. Files of series, stacks, frames and numbers of writers, and records that say which files were
//! merged into which.
//!
//! A dictionary is a set of facts that are always true, so that nothing has to be counted: reading a fact twice is reading it once. Each hour has all that its own
//! rows need. Files are put before the segment that refers to them; merged files before the record that names them; so that a reader that sees
//! a reference sees what it refers to. [`DictionaryState`] is the pure fold: live is what is listed and what the records
//! that are seen wrote, without what any of them replaced.
//!
//! Why nothing is ever missing, whichever objects a reader sees: a file is left out only for a record that is seen, and everything that record's merge
//! read is in its outputs, which are read whether they are listed or not, or in those of a record that is seen, too.
//! Two replicas that merge the same files cost work and room, until the next merge, and nothing else.
//!
//! [`name`] are the keys, [`Merge`] is the record, [`DictionaryState`] what to read, to merge and to sweep.

mod fold;
mod merge;
pub mod name;

pub use fold::{DictionaryListing, DictionaryState, MERGE_FILES_MIN, MergePlan};
pub use merge::{Merge, OUTPUTS_MAX, REPLACED_MAX};
pub use name::{
    DICTIONARIES, DictionaryFile, DictionaryName, DictionaryObject, DictionaryTable, MergeName,
};
