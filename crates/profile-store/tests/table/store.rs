//! An object store in memory, with LISTs whose pages are not of one instant.

use std::collections::BTreeMap;

use unhex_profile_store::table::names::{OUTPUTS, RECORDS, SEGMENTS};

/// A row: a number that no other has, and its service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Row {
    pub(crate) number: u32,
    pub(crate) service: &'static str,
}

/// What lies under a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Object {
    /// A Parquet file; totals are kept as the rows that they are sums of.
    Rows(Vec<Row>),
    /// The bytes of a record.
    Json(Vec<u8>),
}

/// The objects by key.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Store(pub(crate) BTreeMap<String, Object>);

/// What somebody saw: keys, and records that were read.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct View {
    pub(crate) keys: Vec<String>,
    pub(crate) records: BTreeMap<String, Vec<u8>>,
}

/// A LIST of some folders that is under way.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Lister {
    /// Folders that are still to be listed, the current one last.
    folders: Vec<&'static str>,
    /// The last key of the page before.
    after: String,
    view: View,
}

/// All folders of a table.
pub(crate) const FOLDERS: [&str; 3] = [SEGMENTS, OUTPUTS, RECORDS];

impl Store {
    /// Puts an object under a key that was never used.
    pub(crate) fn put(&mut self, key: &str, object: Object) {
        let before = self.0.insert(key.to_owned(), object);
        assert_eq!(before, None, "{key} was put twice");
    }

    pub(crate) fn keys_below(&self, folder: &str) -> Vec<String> {
        let keys = self.0.keys().filter(|key| key.starts_with(folder));
        keys.cloned().collect()
    }

    pub(crate) fn rows(&self, key: &str) -> Option<&Vec<Row>> {
        match self.0.get(key)? {
            Object::Rows(rows) => Some(rows),
            Object::Json(_) => None,
        }
    }

    /// All at one instant.
    pub(crate) fn view(&self) -> View {
        let mut lister = Lister::new(FOLDERS.to_vec());
        while lister.page(self, usize::MAX) {}
        lister.read_records(self).expect("of one instant")
    }
}

impl Lister {
    pub(crate) fn new(folders: Vec<&'static str>) -> Self {
        Self {
            folders,
            after: String::new(),
            view: View::default(),
        }
    }

    /// Lists one page of at most `keys` keys, of the store as it is now; whether there is more.
    pub(crate) fn page(&mut self, store: &Store, keys: usize) -> bool {
        let Some(folder) = self.folders.last() else {
            return false;
        };
        let in_folder = store.0.keys().filter(|key| key.starts_with(folder));
        let page: Vec<String> = in_folder
            .filter(|key| **key > self.after)
            .take(keys)
            .cloned()
            .collect();
        if page.len() < keys {
            self.folders.pop();
            self.after.clear();
        } else {
            self.after = page.last().cloned().unwrap_or_default();
        }
        self.view.keys.extend(page);
        !self.folders.is_empty()
    }

    /// Reads the records that were listed; nothing when one of them is gone.
    pub(crate) fn read_records(mut self, store: &Store) -> Option<View> {
        for key in self.view.keys.iter().filter(|key| key.starts_with(RECORDS)) {
            let Object::Json(json) = store.0.get(key)? else {
                return None;
            };
            self.view.records.insert(key.clone(), json.clone());
        }
        Some(self.view)
    }

    /// Adds keys that another LIST saw.
    pub(crate) fn extend(&mut self, keys: Vec<String>) {
        self.view.keys.extend(keys);
    }
}
