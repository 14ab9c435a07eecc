//! Every bound on what strangers send, each with its reason; docs/limits.md lists them.

use std::time::Duration;

/// Bounds on what strangers send. Each can be set in the configuration.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Largest upload after decompression: Chromium's and Firefox's debug files are below 8 GiB.
    pub upload_bytes_max: u64,
    /// Wall clock of one conversion: the largest file seen (libjvm) takes 3 s.
    pub conversion_seconds_max: Duration,
    /// Address space of the conversion child beyond its input files, which it maps.
    pub conversion_memory_bytes_max: u64,
    /// Largest symbol index that a conversion may write.
    pub conversion_output_bytes_max: u64,
    /// Largest `/symbolize` body after decompression.
    pub symbolize_body_bytes_max: u64,
    /// Addresses in one `/symbolize` request, over all modules.
    pub symbolize_addresses_max: usize,
    /// Modules in one `/symbolize` request.
    pub symbolize_modules_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            upload_bytes_max: 8 << 30,
            conversion_seconds_max: Duration::from_mins(10),
            conversion_memory_bytes_max: 4 << 30,
            conversion_output_bytes_max: 2 << 30,
            symbolize_body_bytes_max: 64 << 20,
            symbolize_addresses_max: 1_000_000,
            symbolize_modules_max: 4_096,
        }
    }
}
