//! The ways in which debug information reaches us: object files, compressed sections, stripped and
//! split files, stubs without any; each against the plain file or another tool.

use unhex_symbols::convert::{ConvertLimits, ConvertSources, convert};
use unhex_symbols::model::{Model, NONE, Provenance};
use unhex_symbols::quality::Quality;

use crate::lookup::{Frame, frames, model_of};
use crate::toolchain::{Workshop, has_all};

const TOOLS: [(&str, &str); 5] = [
    ("g++", "g++"),
    ("objcopy", "binutils"),
    ("strip", "binutils"),
    ("llvm-objcopy-19", "llvm-19"),
    ("clang++-19", "clang-19"),
];

/// A folder with the program `small`, and its sources; `None` without the tools.
fn small(name: &str, flags: &str) -> Option<Workshop> {
    if !has_all(&TOOLS) {
        return None;
    }
    let workshop = Workshop::new(name);
    workshop.write("small.cpp", include_str!("fixtures/small.cpp"));
    workshop.write("small.h", include_str!("fixtures/small.h"));
    workshop.run("g++", &format!("-g -O2 {flags} -o small small.cpp"));
    Some(workshop)
}

/// A function's name, and the frames at each of its bytes.
type ByFunction = (String, Vec<Vec<Frame>>);

/// What a model says of each byte of each function with DWARF, by name.
fn by_function(model: &Model) -> Vec<ByFunction> {
    let is_root = |function: u32| {
        let function = &model.functions[function as usize];
        function.provenance == Provenance::Dwarf
    };
    let roots = model
        .nodes
        .iter()
        .filter(|node| node.parent == NONE && is_root(node.function));
    let mut functions: Vec<_> = roots
        .map(|root| {
            let name = model.functions[root.function as usize].linkage_name.clone();
            let bytes = root.entry..root.entry + root.size_bytes;
            (name, bytes.map(|address| frames(model, address)).collect())
        })
        .collect();
    functions.sort_by(|(a, _): &(String, _), (b, _)| a.cmp(b));
    functions
}

fn assert_same(object: &[ByFunction], linked: &[ByFunction], flags: &str) {
    let names = |functions: &[ByFunction]| -> Vec<String> {
        functions.iter().map(|(name, _)| name.clone()).collect()
    };
    assert_eq!(names(object), names(linked), "{flags}");
    for ((name, ours), (_, theirs)) in object.iter().zip(linked) {
        assert_eq!(ours.len(), theirs.len(), "{flags}: {name}");
        for (byte, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
            assert_eq!(ours, theirs, "{flags}: {name}+{byte}");
        }
    }
}

#[test]
fn an_object_file_has_the_functions_of_the_linked_program() {
    let Some(workshop) = small("object-file", "") else {
        return;
    };
    for flags in ["-gdwarf-5", "-gdwarf-4", "-gdwarf-5 -gz=zlib"] {
        workshop.run("g++", &format!("-O2 {flags} -o small small.cpp"));
        workshop.run("g++", &format!("-O2 {flags} -c -o small.o small.cpp"));
        let (object, linked) = (workshop.read("small.o"), workshop.read("small"));
        let (object, linked) = (
            by_function(&model_of(&object)),
            by_function(&model_of(&linked)),
        );
        assert!(object.len() > 5, "{flags}");
        assert_same(&object, &linked, flags);
    }
    workshop.run("g++", "-O2 -g -ffunction-sections -c -o small.o small.cpp");
    workshop.run("g++", "-O2 -g -ffunction-sections -o small small.cpp");
    let (object, linked) = (workshop.read("small.o"), workshop.read("small"));
    assert_eq!(
        by_function(&model_of(&object)),
        by_function(&model_of(&linked))
    );
}

#[test]
fn compressed_sections_give_the_same_model() {
    let Some(workshop) = small("compressed", "") else {
        return;
    };
    let plain = model_of(&workshop.read("small"));
    let packings = [
        ("objcopy", "--compress-debug-sections=zlib"),
        ("objcopy", "--compress-debug-sections=zlib-gnu"),
        ("llvm-objcopy-19", "--compress-debug-sections=zlib"),
        ("llvm-objcopy-19", "--compress-debug-sections=zstd"),
    ];
    for (tool, flags) in packings {
        workshop.run(tool, &format!("{flags} small packed"));
        let packed = model_of(&workshop.read("packed"));
        assert_eq!(packed.rows, plain.rows, "{flags}");
        assert_eq!(packed.nodes, plain.nodes, "{flags}");
        assert_eq!(packed.functions, plain.functions, "{flags}");
    }
}

#[test]
fn symbol_tables_alone_are_rated_and_used_for_what_they_are() {
    let Some(workshop) = small("symbols-only", "-rdynamic") else {
        return;
    };
    workshop.run("strip", "--strip-debug -o symbols small");
    workshop.run("strip", "-o stripped small");
    workshop.run("g++", "-O2 -static-pie -s -o bare small.cpp");
    let whole = model_of(&workshop.read("small"));
    let twin = whole
        .functions
        .iter()
        .position(|f| f.linkage_name == "_Z8twin_onei")
        .unwrap();
    let twin = whole
        .nodes
        .iter()
        .find(|node| node.function as usize == twin)
        .unwrap();
    let cases = [
        ("symbols", Quality::Symtab, Provenance::Symtab),
        ("stripped", Quality::Dynsym, Provenance::Dynsym),
    ];
    for (name, quality, provenance) in cases {
        let model = model_of(&workshop.read(name));
        assert_eq!(model.header.quality, quality);
        let found = frames(&model, twin.entry + 2);
        assert_eq!(found.len(), 1, "{name}: {found:?}");
        assert_eq!(
            (found[0].function.as_str(), found[0].line),
            ("_Z8twin_onei", 0)
        );
        let function = model
            .functions
            .iter()
            .find(|f| f.linkage_name == "_Z8twin_onei")
            .unwrap();
        assert_eq!(function.provenance, provenance);
        assert_eq!(function.full_name, "twin_one(int)");
        assert!(
            frames(&model, twin.entry + twin.size_bytes + 1).is_empty(),
            "padding has a name"
        );
    }
    assert_eq!(
        model_of(&workshop.read("bare")).header.quality,
        Quality::None
    );
}

#[test]
fn a_debug_file_takes_what_it_lacks_from_the_executable() {
    let Some(workshop) = small("two-files", "") else {
        return;
    };
    workshop.run("objcopy", "--only-keep-debug small debug");
    workshop.run("strip", "-o stripped small");
    let (debug, stripped) = (workshop.read("debug"), workshop.read("stripped"));
    let sources = ConvertSources {
        debuginfo: Some(&debug),
        executable: Some(&stripped),
        ..ConvertSources::default()
    };
    let both = convert(sources, &ConvertLimits::default()).unwrap();
    let whole = model_of(&workshop.read("small"));
    assert_eq!((&both.rows, &both.nodes), (&whole.rows, &whole.nodes));
    assert_eq!(both.header.segments, whole.header.segments);
    assert!(both.header.segments.is_some());
    assert_eq!(model_of(&debug).header.segments, None);
}

#[test]
fn stubs_are_named_as_objdump_names_them() {
    let Some(workshop) = small("stubs", "") else {
        return;
    };
    let builds = [
        ("g++", "-fcf-protection=none"),
        ("g++", "-fcf-protection=none -Wl,-z,now"),
        ("g++", "-fcf-protection=full -Wl,-z,ibtplt"),
        ("g++", "-fcf-protection=none -no-pie"),
        ("clang++-19", "--ld-path=/usr/bin/ld.lld-19"),
    ];
    for (compiler, flags) in builds {
        workshop.run(compiler, &format!("-g -O2 {flags} -o small small.cpp"));
        let model = model_of(&workshop.read("small"));
        let listing = workshop.run("objdump", "-d small");
        let stubs = listing.lines().filter_map(|line| {
            let (address, name) = line.strip_suffix(">:")?.split_once(" <")?;
            let address = u64::from_str_radix(address, 16).ok()?;
            Some((address, name.strip_suffix("@plt")?))
        });
        let mut count = 0;
        for (address, name) in stubs {
            let found: Vec<String> = frames(&model, address)
                .into_iter()
                .map(|frame| frame.function)
                .collect();
            // With IBT, the lazy stubs have names in objdump too, but jump through no slot.
            if flags.contains("ibtplt") && found.is_empty() {
                continue;
            }
            assert_eq!(found, [format!("{name}@plt")], "{flags}: {address:#x}");
            count += 1;
        }
        assert!(count > 0, "{flags}");
    }
}

#[test]
fn what_dwz_moved_is_found_again() {
    let Some(workshop) = small("dwz", "") else {
        return;
    };
    if !has_all(&[("dwz", "dwz")]) {
        return;
    }
    for flags in ["-gdwarf-5", "-gdwarf-4"] {
        workshop.run(
            "g++",
            &format!("-O2 {flags} -Wl,--build-id=sha1 -o small small.cpp"),
        );
        workshop.run(
            "g++",
            &format!("-O1 {flags} -Wl,--build-id=sha1 -o other small.cpp"),
        );
        let plain = by_function(&model_of(&workshop.read("small")));
        workshop.run("cp", "small alone");
        workshop.run("dwz", "alone");
        assert_same(
            &by_function(&model_of(&workshop.read("alone"))),
            &plain,
            flags,
        );

        workshop.run("dwz", "-m shared small other");
        let (small, shared) = (workshop.read("small"), workshop.read("shared"));
        let sources = ConvertSources {
            debuginfo: Some(&small),
            supplement: Some(&shared),
            ..ConvertSources::default()
        };
        let with = convert(sources, &ConvertLimits::default()).unwrap();
        assert_eq!(
            (
                with.header.needs_supplement.clone(),
                with.header.units_failed
            ),
            (None, 0)
        );
        assert_same(&by_function(&with), &plain, flags);

        let id = unhex_build_id::ElfIdentities::read(&shared).gnu.unwrap();
        let alone = model_of(&small);
        assert_eq!(
            alone.header.needs_supplement.as_deref(),
            Some(id.as_bytes())
        );
        assert_eq!(alone.header.units_failed, 0);
        let cut = ConvertSources {
            supplement: Some(&shared[..shared.len() - 1]),
            ..sources
        };
        let cut = convert(cut, &ConvertLimits::default()).unwrap();
        assert_eq!(cut.header.needs_supplement.as_deref(), Some(id.as_bytes()));
        assert_eq!(cut.header.units_failed, 1, "as good as none, and counted");
        assert_same(&by_function(&cut), &by_function(&alone), flags);
        let wrong = ConvertSources {
            supplement: Some(&small),
            ..sources
        };
        let wrong = convert(wrong, &ConvertLimits::default()).unwrap();
        assert_eq!(
            wrong.header.needs_supplement.as_deref(),
            Some(id.as_bytes())
        );
    }
}

#[test]
fn split_units_are_found_in_their_package() {
    let Some(workshop) = small("split", "") else {
        return;
    };
    if !has_all(&[("llvm-dwp-19", "llvm-19")]) {
        return;
    }
    for flags in ["-gdwarf-5", "-gdwarf-4"] {
        let plain = format!("-O2 -g {flags} -o small small.cpp");
        workshop.run("clang++-19", &plain);
        let plain_model = by_function(&model_of(&workshop.read("small")));
        workshop.run("clang++-19", &format!("-gsplit-dwarf {plain}"));
        workshop.run("llvm-dwp-19", "-e small -o small.dwp");
        let (small, package) = (workshop.read("small"), workshop.read("small.dwp"));
        let sources = ConvertSources {
            debuginfo: Some(&small),
            dwp: Some(&package),
            ..ConvertSources::default()
        };
        let with = convert(sources, &ConvertLimits::default()).unwrap();
        assert_eq!(
            (with.header.units_without_dwo, with.header.units_failed),
            (0, 0)
        );
        assert_same(&by_function(&with), &plain_model, flags);
        let without = model_of(&small);
        assert_eq!(
            (
                without.header.units_without_dwo,
                without.header.units_failed
            ),
            (1, 0)
        );
        // Names then come from the symbols, lines from the skeleton.
        let main = without
            .functions
            .iter()
            .position(|f| f.linkage_name == "main")
            .unwrap();
        let main = without
            .nodes
            .iter()
            .find(|node| node.function as usize == main)
            .unwrap();
        assert!(frames(&without, main.entry)[0].line > 0);
        assert_damaged_packages_are_as_good_as_none(&small, &package, &by_function(&without));
    }
}

/// No byte in front of a package can take away what the debug file says.
fn assert_damaged_packages_are_as_good_as_none(
    small: &[u8],
    package: &[u8],
    without: &[ByFunction],
) {
    let cut = &package[..package.len() / 2];
    for damaged in [b"no ELF file".as_slice(), cut] {
        let sources = ConvertSources {
            debuginfo: Some(small),
            dwp: Some(damaged),
            ..ConvertSources::default()
        };
        let model = convert(sources, &ConvertLimits::default()).unwrap();
        let header = &model.header;
        assert_eq!((header.units_without_dwo, header.units_failed), (1, 1));
        assert_same(&by_function(&model), without, "damaged package");
    }
}

#[test]
fn packed_symbols_name_what_the_exported_ones_do_not() {
    let Some(workshop) = small("minidebuginfo", "") else {
        return;
    };
    if !has_all(&[("xz", "xz-utils")]) {
        return;
    }
    workshop.run("objcopy", "--only-keep-debug small debug");
    workshop.run("strip", "--strip-debug -o mini debug");
    workshop.run("xz", "-f -k mini");
    workshop.run("strip", "-o stripped small");
    workshop.run(
        "objcopy",
        "--add-section .gnu_debugdata=mini.xz stripped packed",
    );
    let model = model_of(&workshop.read("packed"));
    assert_eq!(model.header.quality, Quality::Symtab);
    let function = |name: &str| model.functions.iter().find(|f| f.linkage_name == name);
    let twin = function("_Z8twin_onei").unwrap();
    assert_eq!(twin.provenance, Provenance::Minidebuginfo);
    assert_eq!(
        model_of(&workshop.read("stripped")).header.quality,
        Quality::None
    );
}
