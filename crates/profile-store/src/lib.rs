//! The profile store: what it holds is a [`table`] of immutable files and records in an object store.

pub mod table;
