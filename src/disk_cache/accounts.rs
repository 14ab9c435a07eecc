//! Which files there are, who holds them, and which go when there are too many: no I/O.
//!
//! A file that nobody holds stands in the order of its last use; the first of that order go until
//! what is left, with what is reserved for files on their way, is within the bounds. A file that is
//! larger than all of the bound takes no other's place: it goes when its last holder lets it go.

use std::collections::{BTreeMap, HashMap};
use std::time::SystemTime;

use super::key::{FileKey, FileName};

/// Files in one folder: each takes some 300 bytes of memory, and a moment at the start.
const FILES_MAX: usize = 200_000;

/// What a file takes beside its bytes: an inode, and the rest of its last block.
const FILE_OVERHEAD_BYTES: u64 = 4 << 10;

/// The accounts of one folder.
#[derive(Debug)]
pub(super) struct Accounts {
    bytes_max: u64,
    files: HashMap<u64, Entry>,
    /// The file of each key that is found by it.
    current: HashMap<FileKey, u64>,
    /// Files that nobody holds, by the turn of their last use.
    idle: BTreeMap<u64, u64>,
    /// Of all files that are not larger than the bound.
    total_bytes: u64,
    /// Of those that are.
    beyond_bytes: u64,
    /// For files on their way that are not larger than the bound.
    reserved_bytes: u64,
    /// For all files on their way.
    expected_bytes: u64,
    next_turn: u64,
    next_number: u64,
}

#[derive(Debug)]
struct Entry {
    key: FileKey,
    size_bytes: u64,
    used: SystemTime,
    /// In the order of uses.
    turn: u64,
    holders: usize,
}

/// A file that is to be removed from the disk, and is no longer in the accounts.
pub(super) type Victim = FileName;

impl Accounts {
    pub(super) fn new(bytes_max: u64) -> Self {
        Self {
            bytes_max,
            files: HashMap::new(),
            current: HashMap::new(),
            idle: BTreeMap::new(),
            total_bytes: 0,
            beyond_bytes: 0,
            reserved_bytes: 0,
            expected_bytes: 0,
            next_turn: 0,
            next_number: 1,
        }
    }

    /// A number that no file has or had.
    pub(super) fn number(&mut self) -> u64 {
        let number = self.next_number;
        self.next_number = number.saturating_add(1);
        number
    }

    /// Takes in a file that was found on the disk, the least recently used first. Of two with one
    /// key the later one stays, and the earlier one is a victim; so is one larger than the bound,
    /// which nobody holds.
    pub(super) fn found(
        &mut self,
        name: FileName,
        size_bytes: u64,
        used: SystemTime,
    ) -> Option<Victim> {
        self.next_number = self.next_number.max(name.number.saturating_add(1));
        let earlier = self.current.get(&name.key).copied();
        let is_replaced = earlier.is_some_and(|earlier| earlier > name.number);
        if is_replaced || with_overhead(size_bytes) > self.bytes_max {
            return Some(name);
        }
        let victim = self.forget(&name.key);
        self.insert(name, size_bytes, used);
        self.rest(name.number);
        victim
    }

    /// Takes in a new file with one holder; the one that had its key before is a victim, unless
    /// somebody holds it.
    pub(super) fn take(
        &mut self,
        name: FileName,
        size_bytes: u64,
        now: SystemTime,
    ) -> Option<Victim> {
        let victim = self.forget(&name.key);
        self.insert(name, size_bytes, now);
        if let Some(entry) = self.files.get_mut(&name.number) {
            entry.holders = 1;
        }
        victim
    }

    fn insert(&mut self, name: FileName, size_bytes: u64, used: SystemTime) {
        let size_bytes = with_overhead(size_bytes);
        let turn = self.turn();
        let entry = Entry {
            key: name.key,
            size_bytes,
            used,
            turn,
            holders: 0,
        };
        let total = self.total_with(size_bytes);
        *total = total.saturating_add(size_bytes);
        self.files.insert(name.number, entry);
        self.current.insert(name.key, name.number);
    }

    /// One more holder of the file of a key, and since when it was not used.
    pub(super) fn hold(
        &mut self,
        key: &FileKey,
        now: SystemTime,
    ) -> Option<(FileName, SystemTime)> {
        let number = *self.current.get(key)?;
        let entry = self.files.get_mut(&number)?;
        entry.holders = entry.holders.saturating_add(1);
        self.idle.remove(&entry.turn);
        let before = std::mem::replace(&mut entry.used, now);
        let key = *key;
        Some((FileName { key, number }, before))
    }

    /// One holder less. A file that nobody holds any more is a victim when its key leads to another
    /// one or to none, or when it is larger than the bound.
    pub(super) fn release(&mut self, number: u64, now: SystemTime) -> Option<Victim> {
        let turn = self.turn();
        let bytes_max = self.bytes_max;
        let entry = self.files.get_mut(&number)?;
        entry.holders = entry.holders.saturating_sub(1);
        entry.used = now;
        entry.turn = turn;
        if entry.holders > 0 {
            return None;
        }
        let is_current = self.current.get(&entry.key) == Some(&number);
        if is_current && entry.size_bytes <= bytes_max {
            self.idle.insert(turn, number);
            return None;
        }
        self.drop_file(number)
    }

    /// Lets a key lead to nothing; its file is a victim now, or when nobody holds it any more.
    pub(super) fn forget(&mut self, key: &FileKey) -> Option<Victim> {
        let number = self.current.remove(key)?;
        let entry = self.files.get(&number)?;
        if entry.holders > 0 {
            return None;
        }
        self.drop_file(number)
    }

    /// As [`Self::forget`], if the key still leads to this file.
    pub(super) fn forget_one(&mut self, name: &FileName) -> Option<Victim> {
        let is_current = self.current.get(&name.key) == Some(&name.number);
        is_current.then(|| self.forget(&name.key)).flatten()
    }

    /// Sets bytes aside for a file that is on its way.
    pub(super) fn reserve(&mut self, bytes: u64) {
        let counted = self.counted(bytes);
        self.reserved_bytes = self.reserved_bytes.saturating_add(counted);
        self.expected_bytes = self.expected_bytes.saturating_add(bytes);
    }

    /// Gives back what was set aside.
    pub(super) fn unreserve(&mut self, bytes: u64) {
        let counted = self.counted(bytes);
        self.reserved_bytes = self.reserved_bytes.saturating_sub(counted);
        self.expected_bytes = self.expected_bytes.saturating_sub(bytes);
    }

    /// The bytes of all files that are on their way, some of which may lie on the disk.
    pub(super) fn expected_bytes(&self) -> u64 {
        self.expected_bytes
    }

    /// The files that must go for the rest to be within the bounds.
    pub(super) fn excess(&mut self) -> Vec<Victim> {
        let mut victims = Vec::new();
        while self.total_bytes.saturating_add(self.reserved_bytes) > self.bytes_max
            || self.files.len() > FILES_MAX
        {
            let Some(victim) = self.drop_oldest() else {
                break;
            };
            victims.push(victim);
        }
        victims
    }

    /// Files that go so that at least so many bytes become free on the disk.
    pub(super) fn surrender(&mut self, bytes: u64) -> Vec<Victim> {
        let enough = self.total_bytes.saturating_sub(bytes);
        let mut victims = Vec::new();
        while self.total_bytes > enough {
            let Some(victim) = self.drop_oldest() else {
                break;
            };
            victims.push(victim);
        }
        victims
    }

    /// How many files there are, and how many bytes they take.
    pub(super) fn totals(&self) -> (usize, u64) {
        let bytes = self.total_bytes.saturating_add(self.beyond_bytes);
        (self.files.len(), bytes)
    }

    /// When the file that goes first was last used.
    pub(super) fn oldest_use(&self) -> Option<SystemTime> {
        let (_, number) = self.idle.first_key_value()?;
        self.files.get(number).map(|entry| entry.used)
    }

    fn drop_oldest(&mut self) -> Option<Victim> {
        let (_, number) = self.idle.pop_first()?;
        self.drop_file(number)
    }

    fn drop_file(&mut self, number: u64) -> Option<Victim> {
        let entry = self.files.remove(&number)?;
        self.idle.remove(&entry.turn);
        if self.current.get(&entry.key) == Some(&number) {
            self.current.remove(&entry.key);
        }
        let total = self.total_with(entry.size_bytes);
        *total = total.saturating_sub(entry.size_bytes);
        let key = entry.key;
        Some(FileName { key, number })
    }

    fn rest(&mut self, number: u64) {
        if let Some(entry) = self.files.get(&number) {
            self.idle.insert(entry.turn, number);
        }
    }

    /// The total that a file of this size is part of.
    fn total_with(&mut self, size_bytes: u64) -> &mut u64 {
        if size_bytes > self.bytes_max {
            &mut self.beyond_bytes
        } else {
            &mut self.total_bytes
        }
    }

    fn counted(&self, size_bytes: u64) -> u64 {
        let size_bytes = with_overhead(size_bytes);
        if size_bytes > self.bytes_max {
            0
        } else {
            size_bytes
        }
    }

    fn turn(&mut self) -> u64 {
        let turn = self.next_turn;
        self.next_turn = turn.saturating_add(1);
        turn
    }
}

fn with_overhead(size_bytes: u64) -> u64 {
    size_bytes.saturating_add(FILE_OVERHEAD_BYTES)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::UNIX_EPOCH;

    use proptest::prelude::*;

    use super::*;

    const BOUND: u64 = 100 << 10;

    fn take(accounts: &mut Accounts, key: u8, size_bytes: u64) -> FileName {
        let name = FileName {
            key: FileKey::of(&[key]),
            number: accounts.number(),
        };
        accounts.take(name, size_bytes, UNIX_EPOCH);
        name
    }

    fn take_and_release(accounts: &mut Accounts, key: u8, size_bytes: u64) -> FileName {
        let name = take(accounts, key, size_bytes);
        accounts.release(name.number, UNIX_EPOCH);
        name
    }

    #[test]
    fn the_least_recently_used_goes_first_and_none_that_is_held() {
        let mut accounts = Accounts::new(BOUND);
        let [a, b, c] = [1, 2, 3].map(|key| take_and_release(&mut accounts, key, 29 << 10));
        assert_eq!(accounts.excess(), []);
        let (held, _) = accounts.hold(&b.key, UNIX_EPOCH).unwrap();
        accounts.hold(&a.key, UNIX_EPOCH).unwrap();
        accounts.release(a.number, UNIX_EPOCH);
        // The order is now c, a; b is held.
        let d = take(&mut accounts, 4, 80 << 10);
        assert_eq!(accounts.excess(), [c, a]);
        assert_eq!(accounts.excess(), [], "the rest is held");
        accounts.release(d.number, UNIX_EPOCH);
        assert_eq!(accounts.excess(), [d]);
        accounts.release(held.number, UNIX_EPOCH);
        assert_eq!(accounts.totals(), (1, (29 << 10) + FILE_OVERHEAD_BYTES));
    }

    #[test]
    fn a_file_beyond_the_bound_costs_no_other_its_place_and_goes_with_its_last_holder() {
        let mut accounts = Accounts::new(BOUND);
        let small = take_and_release(&mut accounts, 1, 90 << 10);
        let giant = take(&mut accounts, 2, BOUND);
        assert!(accounts.hold(&giant.key, UNIX_EPOCH).is_some());
        assert_eq!(accounts.excess(), []);
        assert_eq!(accounts.release(giant.number, UNIX_EPOCH), None);
        assert_eq!(accounts.release(giant.number, UNIX_EPOCH), Some(giant));
        assert!(accounts.hold(&giant.key, UNIX_EPOCH).is_none());
        assert!(accounts.hold(&small.key, UNIX_EPOCH).is_some());
    }

    #[test]
    fn a_file_whose_key_was_taken_or_forgotten_stays_while_it_is_held() {
        let mut accounts = Accounts::new(BOUND);
        let old = take(&mut accounts, 1, 10);
        let new = take(&mut accounts, 1, 20);
        let (found, _) = accounts.hold(&old.key, UNIX_EPOCH).unwrap();
        assert_eq!(found, new);
        assert_eq!(accounts.release(old.number, UNIX_EPOCH), Some(old));
        assert_eq!(accounts.forget(&new.key), None);
        assert!(accounts.hold(&new.key, UNIX_EPOCH).is_none());
        accounts.release(new.number, UNIX_EPOCH);
        assert_eq!(accounts.release(new.number, UNIX_EPOCH), Some(new));
        assert_eq!(accounts.totals(), (0, 0));
    }

    #[test]
    fn room_is_made_for_what_is_on_its_way() {
        let mut accounts = Accounts::new(BOUND);
        let first = take_and_release(&mut accounts, 1, 60 << 10);
        accounts.reserve(60 << 10);
        assert_eq!(accounts.excess(), [first]);
        accounts.unreserve(60 << 10);
        accounts.reserve(BOUND + 1);
        take_and_release(&mut accounts, 2, 90 << 10);
        assert_eq!(accounts.excess(), []);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Take(u8, u64),
        Found(u8, u64),
        Hold(u8),
        Release(usize),
        Forget(u8),
        Trim,
        Surrender(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        let key = 0..6_u8;
        prop_oneof![
            (key.clone(), 0..BOUND * 5 / 4).prop_map(|(key, bytes)| Step::Take(key, bytes)),
            (key.clone(), 0..BOUND * 5 / 4).prop_map(|(key, bytes)| Step::Found(key, bytes)),
            key.clone().prop_map(Step::Hold),
            any::<usize>().prop_map(Step::Release),
            key.prop_map(Step::Forget),
            Just(Step::Trim),
            (0..BOUND).prop_map(Step::Surrender),
        ]
    }

    proptest! {
        #[test]
        fn nothing_that_is_held_goes_and_every_file_goes_once(
            steps in prop::collection::vec(step(), 1..200),
        ) {
            let mut accounts = Accounts::new(BOUND);
            let mut held: Vec<u64> = Vec::new();
            let mut gone = BTreeSet::new();
            let mut made = 0;
            for step in steps {
                let victims = match step {
                    Step::Take(key, bytes) => {
                        let name = FileName { key: FileKey::of(&[key]), number: accounts.number() };
                        held.push(name.number);
                        made += 1;
                        accounts.take(name, bytes, UNIX_EPOCH).into_iter().collect()
                    }
                    Step::Found(key, bytes) => {
                        let name = FileName { key: FileKey::of(&[key]), number: accounts.number() };
                        made += 1;
                        accounts.found(name, bytes, UNIX_EPOCH).into_iter().collect()
                    }
                    Step::Hold(key) => {
                        let found = accounts.hold(&FileKey::of(&[key]), UNIX_EPOCH);
                        held.extend(found.map(|(name, _)| name.number));
                        Vec::new()
                    }
                    Step::Release(at) if !held.is_empty() => {
                        let number = held.swap_remove(at % held.len());
                        accounts.release(number, UNIX_EPOCH).into_iter().collect()
                    }
                    Step::Release(_) => Vec::new(),
                    Step::Forget(key) => {
                        accounts.forget(&FileKey::of(&[key])).into_iter().collect()
                    }
                    Step::Trim => accounts.excess(),
                    Step::Surrender(bytes) => accounts.surrender(bytes),
                };
                for victim in victims {
                    prop_assert!(!held.contains(&victim.number), "{victim} is held");
                    prop_assert!(gone.insert(victim.number), "{victim} went twice");
                }
            }
            for number in std::mem::take(&mut held) {
                gone.extend(accounts.release(number, UNIX_EPOCH).map(|victim| victim.number));
            }
            accounts.excess();
            prop_assert!(accounts.totals().1 <= BOUND, "{:?}", accounts.totals());
            gone.extend(accounts.surrender(u64::MAX).iter().map(|victim| victim.number));
            prop_assert_eq!(accounts.totals(), (0, 0));
            prop_assert!(gone.len() <= made);
        }
    }
}
