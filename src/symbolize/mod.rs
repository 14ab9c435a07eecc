//! The batch service: group by module, load the index, look up, keep the order.

/// Answers batches of addresses.
#[derive(Debug, Default)]
pub struct Symbolizer {}
