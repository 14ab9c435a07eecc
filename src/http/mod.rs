//! The whole route table.
