//! The symbol index as others meet it: its documented layout, and the inputs that fuzzing found.

#[cfg(test)]
mod corpus;
#[cfg(test)]
#[path = "../../../../fuzz/fuzz_targets/exercise/symbol_index.rs"]
mod exercise;
#[cfg(test)]
mod layout;
#[cfg(test)]
mod plain_index;
#[cfg(test)]
mod versions;
