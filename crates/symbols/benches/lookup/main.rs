//! How fast and how small the symbol index is, beside symbolic's symcache, GSYM and llvm-symbolizer.
//!
//! `cargo bench -p unhex-symbols --bench lookup -- FILE...` takes debug files. Both indexes are
//! made from the same file in this process and asked for the same addresses, uniformly random over
//! code, on one thread. Times are CPU time of this thread, the best of several rounds in which the
//! engines take turns, so that a neighbour's load hits both.
//!
//! Both give names as `&str` and joined paths for every frame of every address. Symcache has one
//! name; here all three are at hand.

#![expect(clippy::print_stdout, reason = "a bench reports on standard output")]
#![expect(
    clippy::cast_precision_loss,
    reason = "figures for people have four digits"
)]

mod peers;

use std::error::Error;
use std::hint::black_box;
use std::path::{Path, PathBuf};

use object::{Object, ObjectSection};
use unhex_symbols::address::LinkAddress;
use unhex_symbols::convert::{ConvertLimits, ConvertSources, convert};
use unhex_symbols::index::{
    Batch, BatchFrame, FunctionRecord, NameBuffer, NameSet, ResolveOptions, SymbolIndex, write,
};

use peers::{SymCacheBytes, cpu_seconds};

/// Rounds of each measurement; the best counts.
const ROUNDS: usize = 3;
/// CPU time of one round: the clock is only exact to a few milliseconds.
const ROUND_SECONDS: f64 = 0.15;

fn main() -> Result<(), Box<dyn Error>> {
    let files: Vec<PathBuf> = std::env::args_os()
        .skip(1)
        .filter(|argument| !argument.to_string_lossy().starts_with("--"))
        .map(PathBuf::from)
        .collect();
    if files.is_empty() {
        println!("skipped: no debug files were given; see the head of benches/lookup.rs");
    }
    for file in files {
        measure_file(&file)?;
    }
    Ok(())
}

fn measure_file(path: &Path) -> Result<(), Box<dyn Error>> {
    let data = std::fs::read(path)?;
    let object = object::File::parse(&data[..])?;
    println!("\n## {}", path.display());

    let begun = cpu_seconds();
    let sources = ConvertSources {
        debuginfo: Some(&data),
        ..ConvertSources::default()
    };
    let model = convert(sources, &ConvertLimits::default())?;
    let converted = cpu_seconds();
    let mut bytes = Vec::new();
    let facts = write(model, &mut bytes)?;
    let written = cpu_seconds();
    let symcache = SymCacheBytes::convert(&data)?;
    let cached = cpu_seconds();
    println!(
        "rows {} nodes {} functions {} files {}; DWARF to model {:.3} s, model to index {:.3} s, symcache {:.3} s",
        facts.rows,
        facts.nodes,
        facts.functions,
        facts.files,
        converted - begun,
        written - converted,
        cached - written,
    );
    report_size(path, bytes.len(), symcache.bytes.len());

    let index = SymbolIndex::parse(&bytes[..])?;
    index.verify()?;
    let peer = symcache.open()?;
    let image_base = symcache.image_base;
    for count in [100, 10_000, 1_000_000] {
        let addresses = random_addresses(&object, count);
        report_agreement(&index, &peer, image_base, &addresses)?;
        measure_lookups(&index, &peer, image_base, &addresses);
        if count == 10_000 {
            peers::report_llvm_symbolizer(path, &addresses)?;
        }
    }
    Ok(())
}

fn report_size(path: &Path, ours: usize, symcache: usize) {
    let megabytes = |bytes: usize| bytes as f64 / 1e6;
    println!(
        "size: index {:.3} MB, symcache {:.3} MB",
        megabytes(ours),
        megabytes(symcache)
    );
    if let Some(gsym) = peers::gsym_size(path) {
        let share = 100.0 * ours as f64 / gsym as f64;
        println!(
            "size: GSYM {:.3} MB, the index is {share:.1} % of it",
            megabytes(gsym)
        );
    }
}

/// Addresses uniformly random over the bytes of executable sections; the same on every run.
fn random_addresses(object: &object::File<'_>, count: usize) -> Vec<u64> {
    let executable = |section: &object::Section<'_, '_>| {
        let object::SectionFlags::Elf { sh_flags, .. } = section.flags() else {
            return false;
        };
        sh_flags.0 & object::elf::SHF_EXECINSTR.0 != 0
    };
    let ranges: Vec<(u64, u64)> = object
        .sections()
        .filter(executable)
        .map(|section| (section.address(), section.size()))
        .collect();
    let total = ranges.iter().map(|(_, size)| size).sum::<u64>().max(1);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut draw = || {
        // SplitMix64
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let mut within = (mixed ^ (mixed >> 31)) % total;
        for &(address, size) in &ranges {
            if within < size {
                return address + within;
            }
            within -= size;
        }
        0
    };
    (0..count).map(|_| draw()).collect()
}

/// Lines of the whole chain against symcache, so that a quick wrong answer is seen.
fn report_agreement(
    index: &SymbolIndex<&[u8]>,
    peer: &peers::SymCache<'_>,
    image_base: u64,
    addresses: &[u64],
) -> Result<(), Box<dyn Error>> {
    let (mut equal, mut asked) = (0, 0);
    for &address in addresses.iter().take(10_000) {
        let theirs: Vec<u32> = peer
            .lookup(address.wrapping_sub(image_base))
            .map(|location| location.line())
            .collect();
        if theirs.is_empty() {
            continue;
        }
        let frames = index.frames(LinkAddress(address))?;
        let ours: Vec<u32> = frames.iter().map(|frame| frame.line).collect();
        asked += 1;
        equal += usize::from(ours == theirs);
    }
    println!(
        "n={}: chains whose lines equal symcache's: {equal} of {asked}",
        addresses.len()
    );
    Ok(())
}

/// One way to answer all addresses; the number it gives keeps the work from being left out.
type Engine<'a> = Box<dyn FnMut() -> usize + 'a>;

fn measure_lookups(
    index: &SymbolIndex<&[u8]>,
    peer: &peers::SymCache<'_>,
    image_base: u64,
    addresses: &[u64],
) {
    let linked: Vec<LinkAddress> = addresses
        .iter()
        .map(|address| LinkAddress(*address))
        .collect();
    let linked = linked.as_slice();
    let batch = |names| {
        let mut kept = Batch::default();
        move || batch_answer(index, linked, names, &mut kept)
    };
    let mut engines: Vec<(&str, Engine<'_>)> = vec![
        (
            "symcache, name + path",
            Box::new(|| symcache_answer(peer, image_base, addresses)),
        ),
        (
            "single, three names + path",
            Box::new(|| single_answer(index, linked, NameSet::All)),
        ),
        (
            "single, linkage + path",
            Box::new(|| single_answer(index, linked, NameSet::Linkage)),
        ),
        ("batch, frames + path", Box::new(batch(NameSet::None))),
        ("batch, linkage + path", Box::new(batch(NameSet::Linkage))),
        ("batch, three names + path", Box::new(batch(NameSet::All))),
        (
            "batch, three names, no memory kept",
            Box::new(|| batch_answer(index, linked, NameSet::All, &mut Batch::default())),
        ),
    ];
    let mut best = vec![f64::INFINITY; engines.len()];
    for _ in 0..ROUNDS {
        for ((_, engine), best) in engines.iter_mut().zip(&mut best) {
            let mut rounds = 0_u32;
            let begun = cpu_seconds();
            let mut spent = 0.0;
            while spent < ROUND_SECONDS {
                black_box(engine());
                rounds += 1;
                spent = cpu_seconds() - begun;
            }
            *best = best.min(spent / f64::from(rounds));
        }
    }
    let peer_seconds = best.first().copied().unwrap_or(f64::NAN);
    for ((name, _), seconds) in engines.iter().zip(&best) {
        println!(
            "n={:<8} {name:36} {:8.1} ns/address {:10.1} us in all  {:6.2} x symcache",
            addresses.len(),
            seconds / addresses.len() as f64 * 1e9,
            seconds * 1e6,
            peer_seconds / seconds,
        );
    }
}

fn symcache_answer(peer: &peers::SymCache<'_>, image_base: u64, addresses: &[u64]) -> usize {
    let mut total = 0;
    for &address in addresses {
        for location in peer.lookup(address.wrapping_sub(image_base)) {
            let path = location
                .file()
                .map(|file| file.full_path())
                .unwrap_or_default();
            total += black_box((location.function().name(), &path, location.line()))
                .0
                .len();
        }
    }
    total
}

fn single_answer(index: &SymbolIndex<&[u8]>, addresses: &[LinkAddress], names: NameSet) -> usize {
    let mut total = 0;
    let mut name_buffer = NameBuffer::default();
    let mut path_buffer = NameBuffer::default();
    for &address in addresses {
        for frame in index.frames(address).unwrap_or_default() {
            let Ok(function) = index.function(frame.function, names, &mut name_buffer) else {
                continue;
            };
            let path = frame.file.map(|file| index.path(file, &mut path_buffer));
            let path = path.and_then(Result::ok).unwrap_or_default();
            total += black_box((function, path, frame.line)).0.linkage_name.len();
        }
    }
    total
}

fn batch_answer(
    index: &SymbolIndex<&[u8]>,
    addresses: &[LinkAddress],
    names: NameSet,
    batch: &mut Batch,
) -> usize {
    if index
        .resolve(addresses, ResolveOptions { names }, batch)
        .is_err()
    {
        return 0;
    }
    let functions: Vec<FunctionRecord<'_>> = batch.functions().collect();
    let paths: Vec<&str> = batch.paths().collect();
    let frame_text = |frame: &BatchFrame| -> usize {
        let function = functions.get(frame.function as usize);
        let path = paths.get(frame.file as usize).copied().unwrap_or_default();
        let seen = black_box((function, path, frame.line, frame.column));
        seen.0.map_or(0, |function| function.linkage_name.len()) + seen.1.len()
    };
    let frames = (0..addresses.len()).flat_map(|place| batch.frames_of(place));
    frames.map(frame_text).sum()
}
