//! The engines that the index is measured against, and the clock.

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use symbolic_debuginfo::Object;
pub(crate) use symbolic_symcache::SymCache;
use symbolic_symcache::SymCacheConverter;

/// A symcache in memory.
pub(crate) struct SymCacheBytes {
    pub(crate) bytes: Vec<u8>,
    /// Its addresses are relative to this.
    pub(crate) image_base: u64,
}

impl SymCacheBytes {
    /// Converts a debug file.
    pub(crate) fn convert(data: &[u8]) -> Result<Self, Box<dyn Error>> {
        let object = Object::parse(data)?;
        let image_base = object.load_address();
        let mut converter = SymCacheConverter::new();
        converter.process_object(&object)?;
        let mut bytes = Vec::new();
        converter.serialize(&mut bytes)?;
        Ok(Self { bytes, image_base })
    }

    /// Opens it.
    pub(crate) fn open(&self) -> Result<SymCache<'_>, Box<dyn Error>> {
        Ok(SymCache::parse(&self.bytes)?)
    }
}

/// CPU seconds of this thread.
pub(crate) fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text
        .split(' ')
        .next()
        .and_then(|first| first.parse::<f64>().ok());
    nanoseconds.unwrap_or(0.0) / 1e9
}

/// Bytes of the GSYM that llvm-gsymutil-19 makes of a debug file, if it is installed.
pub(crate) fn gsym_size(path: &Path) -> Option<usize> {
    let output = std::env::temp_dir().join(format!("unhex-bench-{}.gsym", std::process::id()));
    let converted = Command::new("llvm-gsymutil-19")
        .args([
            "--convert",
            &path.to_string_lossy(),
            "--num-threads=1",
            "--out-file",
        ])
        .arg(&output)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let size = std::fs::metadata(&output)
        .map(|metadata| metadata.len())
        .ok();
    let _removed = std::fs::remove_file(&output);
    converted.ok().filter(std::process::ExitStatus::success)?;
    usize::try_from(size?).ok()
}

/// CPU time of llvm-symbolizer-19 for the same addresses, start to end, if it is installed.
pub(crate) fn report_llvm_symbolizer(path: &Path, addresses: &[u64]) -> Result<(), Box<dyn Error>> {
    let begun = children_seconds();
    let child = Command::new("llvm-symbolizer-19")
        .args(["--output-style=JSON", "--no-demangle", "--obj"])
        .arg(path)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn();
    let Ok(mut child) = child else {
        println!("llvm-symbolizer-19 is not installed");
        return Ok(());
    };
    if let Some(mut input) = child.stdin.take() {
        let mut text = Vec::new();
        for address in addresses {
            writeln!(text, "{address:#x}")?;
        }
        input.write_all(&text)?;
    }
    child.wait()?;
    let spent = children_seconds() - begun;
    let each = spent / addresses.len() as f64 * 1e9;
    println!(
        "n={:<8} llvm-symbolizer-19, start to end {each:13.1} ns/address",
        addresses.len()
    );
    Ok(())
}

/// CPU seconds of children that were waited for, in steps of 10 ms (`cutime` and `cstime` of proc(5)).
fn children_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let behind_name = text.rsplit(')').next().unwrap_or_default();
    let fields: Vec<&str> = behind_name.split_whitespace().collect();
    let ticks = fields
        .iter()
        .skip(13)
        .take(2)
        .filter_map(|field| field.parse::<f64>().ok());
    ticks.sum::<f64>() / 100.0
}
