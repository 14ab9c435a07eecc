//! The profile store: what it holds is a [`table`] of immutable files and records in an object store; [`rows`] are what
//! it keeps of a profile.

pub mod answers;
pub mod clock;
pub mod files;
pub mod objects;
pub mod rows;
pub mod selector;
pub mod symbols;
pub mod table;
pub mod view;
