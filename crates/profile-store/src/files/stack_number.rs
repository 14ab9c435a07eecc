//! What a writer calls a stack in its segments: a hash has 16 bytes that nothing compresses, and numbers that were given one after another nearly none.
//!
//! Rows have a hash or such a number in the same place. They are told apart by their length in files, where a number has 12 bytes, and in memory by four bytes of 0 behind
//! it. A hash that happens to end in these is written short, too, and read back as what it was.

use unhex_pprof::StackHash;

/// Bytes of a number in files.
pub const STACK_NUMBER_BYTES: usize = 12;

/// Bytes of a hash that a number has not.
const FILL: [u8; 4] = [0; 4];

/// A number that a writer gave to a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StackNumber {
    /// Whose numbers they are: drawn at random by whoever begins to count.
    pub writer: [u8; 8],
    /// How many stacks it had before.
    pub number: u32,
}

impl StackNumber {
    /// What stands in files.
    pub fn to_bytes(self) -> [u8; STACK_NUMBER_BYTES] {
        let mut bytes = [0; STACK_NUMBER_BYTES];
        let (writer, number) = bytes.split_at_mut(self.writer.len());
        writer.copy_from_slice(&self.writer);
        number.copy_from_slice(&self.number.to_be_bytes());
        bytes
    }

    /// The number that stands in a file.
    pub fn of_bytes(bytes: [u8; STACK_NUMBER_BYTES]) -> Self {
        let [writer @ .., a, b, c, d] = bytes;
        Self {
            writer,
            number: u32::from_be_bytes([a, b, c, d]),
        }
    }

    /// What rows in memory have in place of the hash. Numbers of a writer are in order.
    pub fn in_place(self) -> StackHash {
        let mut place = [0; 16];
        let (number, _fill) = place.split_at_mut(STACK_NUMBER_BYTES);
        number.copy_from_slice(&self.to_bytes());
        StackHash(place)
    }

    /// The number in place of a hash; of one hash in four thousand million, too.
    pub fn in_place_of(stack: StackHash) -> Option<Self> {
        let number = stack.0.strip_suffix(&FILL)?;
        Some(Self::of_bytes(number.try_into().ok()?))
    }
}

/// What stands in a file for what a row has.
pub fn stack_bytes(stack: &StackHash) -> &[u8] {
    stack.0.strip_suffix(&FILL).unwrap_or(&stack.0)
}

/// What a row has of which this stands in a file; nothing for what is neither a hash nor a number.
pub fn stack_of_bytes(bytes: &[u8]) -> Option<StackHash> {
    if let Ok(number) = bytes.try_into() {
        return Some(StackNumber::of_bytes(number).in_place());
    }
    Some(StackHash(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_and_hashes_are_read_back_as_written_and_told_apart(
            writer in any::<[u8; 8]>(), number in any::<u32>(), hash in any::<[u8; 16]>(),
        ) {
            let number = StackNumber { writer, number };
            let in_place = number.in_place();
            prop_assert_eq!(stack_bytes(&in_place), &number.to_bytes()[..]);
            prop_assert_eq!(stack_of_bytes(&number.to_bytes()), Some(in_place));
            prop_assert_eq!(StackNumber::in_place_of(in_place), Some(number));
            let hash = StackHash(hash);
            prop_assert_eq!(stack_of_bytes(stack_bytes(&hash)), Some(hash));
            prop_assert_eq!(StackNumber::in_place_of(hash).is_some(), hash.0.ends_with(&FILL));
        }
    }

    #[test]
    fn a_hash_that_ends_in_zeros_is_what_it_was() {
        let hash = StackHash([7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 0, 0, 0, 0]);
        assert_eq!(stack_of_bytes(stack_bytes(&hash)), Some(hash));
        assert_eq!(stack_of_bytes(&[0; 13]), None);
    }
}
