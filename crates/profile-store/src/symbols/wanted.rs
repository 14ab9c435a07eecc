//! The places of which a query wants names, by binary, each once.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use unhex_build_id::Identity;
use unhex_pprof::CodeAddress;

use crate::rows::NativeFrame;

/// The places of which names are wanted.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    pub(super) modules: FxHashMap<Identity, WantedModule>,
}

/// The places in one binary.
#[derive(Clone, Debug)]
pub(super) struct WantedModule {
    pub(super) file_name: Arc<str>,
    pub(super) addresses: FxHashSet<CodeAddress>,
}

impl Wanted {
    /// Wants the names of a place. One in a binary without an identity has none.
    pub fn add(&mut self, native: &NativeFrame) {
        let Some(identity) = &native.identity else {
            return;
        };
        if let Some(module) = self.modules.get_mut(identity) {
            module.addresses.insert(native.address);
            return;
        }
        let module = WantedModule {
            file_name: Arc::clone(&native.file_name),
            addresses: std::iter::once(native.address).collect(),
        };
        self.modules.insert(identity.clone(), module);
    }
}
