//! What the table keeps of profiles: totals, labels, numbers, bounds, and what the symbol server is told.

#![cfg(test)]

mod examples;
mod hostile;
mod labels;
mod messages;
mod numbers;
mod told;
mod totals;
