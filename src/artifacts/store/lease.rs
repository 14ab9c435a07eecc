//! What keeps a file of a store's disk cache at its path while somebody needs the path.
//!
//! An open file outlives its removal, but children and maps open a file by its path, later. A store
//! whose files lie where they are for good has nothing to keep.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// While one of its clones lives, the file that it came with stays at its path.
#[derive(Clone, Default)]
pub struct Lease(Option<Arc<dyn Any + Send + Sync>>);

impl Lease {
    /// The lease of a file that is never moved or evicted.
    pub fn unlimited() -> Self {
        Self::default()
    }

    /// A lease that ends when `guard` is dropped with the last clone.
    pub fn guarded_by(guard: Arc<dyn Any + Send + Sync>) -> Self {
        Self(Some(guard))
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.0.as_ref().map_or("unlimited", |_| "guarded");
        write!(f, "Lease({kind})")
    }
}
