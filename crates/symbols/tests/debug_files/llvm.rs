//! What llvm-symbolizer says of addresses, and whether two answers mean the same.

use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Stdio};

use unhex_symbols::elf::ElfFile;

use crate::lookup::Frame;

/// The name of the program.
pub(crate) const LLVM_SYMBOLIZER: &str = "llvm-symbolizer-19";

/// The frames of each address by llvm-symbolizer, run once for all.
pub(crate) fn symbolize(file: &Path, addresses: &[u64], flags: &[&str]) -> Vec<Vec<Frame>> {
    let mut child = Command::new(LLVM_SYMBOLIZER)
        .arg(format!("--obj={}", file.display()))
        .args(["--output-style=JSON", "--no-demangle"])
        .args(flags)
        .env_remove("DEBUGINFOD_URLS")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines: Vec<String> = addresses
        .iter()
        .map(|address| format!("{address:#x}\n"))
        .collect();
    let input = lines.concat();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let answers: Vec<Vec<Frame>> = text.lines().map(answer).collect();
    assert_eq!(
        answers.len(),
        addresses.len(),
        "llvm-symbolizer answered not each address"
    );
    answers
}

fn answer(line: &str) -> Vec<Frame> {
    let value: serde_json::Value = serde_json::from_str(line).unwrap();
    let frames = value["Symbol"].as_array().cloned().unwrap_or_default();
    let number = |frame: &serde_json::Value, key: &str| {
        u32::try_from(frame[key].as_u64().unwrap_or(0)).unwrap()
    };
    let text =
        |frame: &serde_json::Value, key: &str| frame[key].as_str().unwrap_or_default().to_owned();
    frames
        .iter()
        .map(|frame| Frame {
            function: text(frame, "FunctionName"),
            file: text(frame, "FileName"),
            line: number(frame, "Line"),
            column: number(frame, "Column"),
        })
        .filter(|frame| !frame.function.is_empty() || !frame.file.is_empty())
        .collect()
}

/// The names that share an address, from all symbol tables of a file.
pub(crate) struct Aliases {
    addresses: HashMap<String, HashSet<u64>>,
    /// Where the symbols of a name reach: by their size, else to the end of their section.
    extents: HashMap<String, Vec<(u64, u64)>>,
    /// Sized functions: start and size.
    pub(crate) functions: Vec<(u64, u64)>,
    /// Where the symbols of a name with a size reach, functions or untyped.
    sized: HashMap<String, Vec<Range<u64>>>,
    /// Where the symbols of a name stand that have neither a type nor a size.
    labels: HashMap<String, Vec<u64>>,
    /// The names of the source files, of which compilers make symbols; an assembler that is told
    /// the name by `.file` repeats the path that stands there.
    files: HashSet<String>,
}

impl Aliases {
    pub(crate) fn of(file: &[u8]) -> Self {
        let elf = ElfFile::parse(file).unwrap();
        let mut aliases = Self {
            addresses: HashMap::new(),
            extents: HashMap::new(),
            functions: Vec::new(),
            sized: HashMap::new(),
            labels: HashMap::new(),
            files: HashSet::new(),
        };
        for table in elf.sections.iter().filter(|s| s.kind == 2 || s.kind == 11) {
            elf.for_each_symbol(table, |symbol| {
                let name = String::from_utf8_lossy(symbol.name).into_owned();
                if symbol.kind == 4 {
                    aliases.files.insert(name);
                    return true;
                }
                let places = aliases
                    .addresses
                    .entry(plain(&name).to_owned())
                    .or_default();
                places.insert(symbol.value);
                let section = elf.sections.get(symbol.section as usize);
                let section_end = section.map_or(0, |s| s.address + s.size);
                let end = match symbol.size {
                    0 => section_end,
                    size => symbol.value + size,
                };
                let extents = aliases.extents.entry(name.clone()).or_default();
                extents.push((symbol.value, end));
                if [2, 10].contains(&symbol.kind) && symbol.section != 0 && symbol.size > 0 {
                    aliases.functions.push((symbol.value, symbol.size));
                }
                if symbol.kind == 0 && symbol.size == 0 {
                    aliases.labels.entry(name).or_default().push(symbol.value);
                } else if [0, 2, 10].contains(&symbol.kind) && symbol.section != 0 {
                    let sized = aliases.sized.entry(name).or_default();
                    sized.push(symbol.value..symbol.value + symbol.size);
                }
                true
            });
        }
        aliases.functions.sort_unstable();
        aliases.functions.dedup();
        aliases
    }

    /// Whether a symbol of that name reaches an address.
    pub(crate) fn reaches(&self, name: &str, address: u64) -> bool {
        let extents = self.extents.get(name).into_iter().flatten();
        extents
            .into_iter()
            .any(|(start, end)| (*start..*end).contains(&address))
    }

    /// Whether an `STT_FILE` symbol has that name.
    pub(crate) fn is_file(&self, name: &str) -> bool {
        self.files.contains(name)
    }

    /// Whether `label` is a symbol without type and size between the start of a `function` that has a
    /// size and an address in it.
    pub(crate) fn is_label_inside(&self, label: &str, function: &str, address: u64) -> bool {
        let labels = self.labels.get(label).into_iter().flatten();
        let functions = self.sized.get(function).into_iter().flatten();
        let functions = functions.filter(|range| range.contains(&address));
        let mut before = functions.map(|range| range.start..=address);
        before.any(|range| labels.clone().any(|label| range.contains(label)))
    }

    /// Whether two names are one function: the same but for clone suffixes and versions, or at the
    /// same address.
    pub(crate) fn same(&self, a: &str, b: &str) -> bool {
        let (a, b) = (plain(a), plain(b));
        let shares = |a: &HashSet<u64>, b: &HashSet<u64>| !a.is_disjoint(b);
        a == b
            || matches!(
                (self.addresses.get(a), self.addresses.get(b)),
                (Some(a), Some(b)) if shares(a, b)
            )
    }
}

/// A name without version and clone suffix.
pub(crate) fn plain(name: &str) -> &str {
    let name = name.split('@').next().unwrap_or(name);
    match name.find('.') {
        Some(dot) if dot > 0 => name.split_at(dot).0,
        _ => name,
    }
}
