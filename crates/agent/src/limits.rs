//! How much of everything the agent takes on: files of strangers and busy hosts decide over no memory.
//!
//! [`Limits`] can be set. Bounds that nobody needs to set are constants, here where several rooms use them, else where
//! they are used.

/// What the agent holds at most. What goes beyond is left out and counted, never an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Processes that are known, those forgotten first that were not looked at for longest: two each for the 8192
    /// threads that a busy host has. One that is needed again is read again from `/proc`.
    pub processes_max: usize,
    /// Executable mappings of one process: a browser has some 300; a process that makes code in many small pieces has
    /// thousands, of 40 bytes each here.
    pub mappings_per_process_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            processes_max: 16_384,
            mappings_per_process_max: 4096,
        }
    }
}
