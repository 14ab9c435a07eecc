//! Folded stacks, flame graphs, pictures, speedscope's files and pprof.

use std::collections::BTreeMap;

use serde_json::Value;
use unhex_pprof::{Limits, unpacked};
use unhex_testkit::tools;

use super::*;

#[test]
fn folded_stacks_are_lines_from_the_root() {
    let lines: Vec<String> = FoldedLines::of(Tree::whole(&example())).collect();
    assert_eq!(
        lines.concat(),
        "handle;main;handle;handle;read_iter 100000000\n\
         main 300000000\n\
         main;find;hash: 2 400000000\n\
         main;libfoo.so@0x1a2b [bb02] 120000000\n\
         main;libfoo.so@0x1a2b [cc03] 80000000\n"
    );
    let mut odd = Merged::new(ProfileType::of("inuse_space:bytes"));
    let name = odd.frame(&named("operator\n\tnew;x"), &[]);
    odd.stack(&[name], Weight { count: 1, value: 2 });
    odd.stack(&[], Weight { count: 1, value: 3 });
    let lines: Vec<String> = FoldedLines::of(Tree::whole(&odd)).collect();
    assert_eq!(lines.concat(), "[no stack] 3\noperator new:x 2\n");
}

#[test]
fn a_flame_graph_is_a_walk_in_columns() {
    let tree = Tree::whole(&example()).cut_to(6);
    let answer = flame_graph(&tree, Asked::default());
    let name = |place: &u32| {
        let [name, _, _, kind] = answer.functions[*place as usize];
        let text = |of: u32| answer.strings[of as usize].as_str();
        format!("{} ({})", text(name), text(kind))
    };
    let nodes = &answer.nodes;
    let lines = nodes.function.iter().zip(&nodes.depth).zip(&nodes.total);
    let lines: Vec<String> = lines
        .map(|((function, depth), total)| {
            format!("{depth} {} {}", name(function), total / 1_000_000)
        })
        .collect();
    assert_eq!(
        lines,
        [
            "0 total (root) 1000",
            "1 main (native) 900",
            "2 find (native) 400",
            "3 hash; 2 (native) 400",
            "2 (other) (other) 200",
            "1 (other) (other) 100",
        ]
    );
    assert_eq!(nodes.own.iter().sum::<i128>(), 1_000_000_000);
    assert_eq!((answer.cut_nodes, answer.total.count), (7, 100));
}

/// Boxes of a picture: what is written of each.
fn boxes(picture: &[u8]) -> Vec<String> {
    let text = String::from_utf8(picture.to_vec()).unwrap();
    let titles = text.split("<title>").skip(1);
    titles
        .filter_map(|rest| rest.split_once("</title>"))
        .map(|(title, _)| title.to_owned())
        .collect()
}

#[test]
fn a_picture_has_title_question_and_exact_boxes() {
    let picture = svg(&Tree::whole(&example()), &heading()).unwrap();
    let text = String::from_utf8(picture.clone()).unwrap();
    assert!(text.contains(">CPU time</text>"), "{text}");
    assert!(text.contains("{service=&quot;checkout&quot;}"), "{text}");
    let boxes = boxes(&picture);
    for expected in [
        "all (1,000 ms, 100%)",
        "main (900 ms, 90.00%)",
        "hash:\u{a0}2 (400 ms, 40.00%)",
        "libfoo.so@0x1a2b [bb02] (120 ms, 12.00%)",
        "libfoo.so@0x1a2b [cc03] (80 ms, 8.00%)",
        "read_iter (100 ms, 10.00%)",
    ] {
        assert!(
            boxes.iter().any(|of| of == expected),
            "{expected}: {boxes:#?}"
        );
    }
}

#[test]
fn a_character_that_xml_cannot_have_is_replaced_in_a_picture() {
    let mut odd = Merged::new(ProfileType::cpu());
    let frame = odd.frame(&named("a\u{fffe}b\u{ffff}"), &[]);
    let weight = Weight {
        count: 1,
        value: 10,
    };
    odd.stack(&[frame], weight);
    let mut heading = heading();
    heading.title.push('\u{ffff}');
    heading.subtitle.push('\u{fffe}');
    let picture = svg(&Tree::whole(&odd), &heading).unwrap();
    let text = String::from_utf8(picture).unwrap();
    assert!(text.contains("a\u{fffd}b\u{fffd}"), "{text}");
    assert!(!text.contains(['\u{fffe}', '\u{ffff}']), "{text}");
}

#[test]
fn names_that_look_like_syntax_do_not_break_a_picture() {
    let mut odd = Merged::new(ProfileType::of("alloc_space:bytes"));
    for name in [
        "a",
        "a b",
        "a0",
        "f 5",
        "# comment",
        "x 1.5",
        "<b>&\"",
        "   ",
    ] {
        let [leaf, root] = [name, "a"].map(|name| odd.frame(&named(name), &[]));
        odd.stack(
            &[leaf, root],
            Weight {
                count: 1,
                value: 10,
            },
        );
        odd.stack(
            &[leaf],
            Weight {
                count: 1,
                value: 10,
            },
        );
    }
    let picture = svg(&Tree::whole(&odd), &heading()).unwrap();
    let boxes = boxes(&picture);
    assert_eq!(boxes.len(), 17, "{boxes:#?}");
    assert_eq!(boxes.iter().filter(|of| of.starts_with("a (")).count(), 2);
    assert!(
        boxes.contains(&"a (90 bytes, 56.25%)".to_owned()),
        "{boxes:#?}"
    );
    assert!(
        boxes.contains(&"all (160 bytes, 100%)".to_owned()),
        "{boxes:#?}"
    );
    // Nothing at all is a picture, too.
    let none = svg(&Tree::whole(&Merged::new(ProfileType::cpu())), &heading());
    assert!(
        String::from_utf8(none.unwrap())
            .unwrap()
            .contains("[no samples]")
    );
}

#[test]
fn a_picture_is_bounded_in_depth_and_in_values() {
    let mut deep = Merged::new(ProfileType::cpu());
    let names = ["even", "odd"].map(|name| deep.frame(&named(name), &[]));
    let stack: Vec<FrameNumber> = names.into_iter().cycle().take(16_384).collect();
    let value = i128::from(u64::MAX) * 1_000;
    deep.stack(&stack, Weight { count: 1, value });
    let picture = svg(&Tree::whole(&deep), &heading()).unwrap();
    let boxes = boxes(&picture);
    assert_eq!(boxes.len(), 1 + SVG_DEPTH_MAX as usize);
    assert!(boxes[1].starts_with("odd (18,446,7"), "{}", boxes[1]);
}

#[test]
fn a_file_for_speedscope_follows_its_schema() {
    let tree = Tree::whole(&example());
    let file = serde_json::to_string(&speedscope(&tree, &heading())).unwrap();
    let file: Value = serde_json::from_str(&file).unwrap();
    // The rules of file-format-schema.json, for a sampled profile.
    assert_eq!(
        file["$schema"],
        "https://www.speedscope.app/file-format-schema.json"
    );
    let frames = file["shared"]["frames"].as_array().unwrap();
    assert!(frames.iter().all(|frame| frame["name"].is_string()));
    let profile = &file["profiles"][0];
    assert_eq!(profile["type"], "sampled");
    assert_eq!(profile["unit"], "nanoseconds");
    assert!(profile["name"].is_string() && profile["startValue"] == 0);
    let samples = profile["samples"].as_array().unwrap();
    let weights = profile["weights"].as_array().unwrap();
    assert_eq!(samples.len(), weights.len());
    let place = |of: &Value| usize::try_from(of.as_u64().unwrap()).unwrap();
    let known = |of: &Value| place(of) < frames.len();
    assert!(
        samples
            .iter()
            .all(|sample| sample.as_array().unwrap().iter().all(known))
    );
    let sum: u64 = weights.iter().map(|weight| weight.as_u64().unwrap()).sum();
    assert_eq!(profile["endValue"].as_u64(), Some(sum));
    assert_eq!(sum, 1_000_000_000);
    // The root first.
    let name = |of: &Value| frames[place(of)]["name"].as_str().unwrap();
    let third: Vec<&str> = samples[2].as_array().unwrap().iter().map(name).collect();
    assert_eq!(third, ["main", "find", "hash; 2"]);
    let allowed = [
        "$schema",
        "shared",
        "profiles",
        "name",
        "activeProfileIndex",
        "exporter",
    ];
    let keys = file.as_object().unwrap().keys();
    assert!(
        keys.into_iter().all(|key| allowed.contains(&key.as_str())),
        "{file}"
    );
}

/// What is in a pprof file by the decoder: stacks by name with their values, and the binaries.
fn decoded(file: &[u8]) -> (BTreeMap<String, Vec<i128>>, Vec<String>) {
    let limits = Limits::default();
    let message = unpacked(file, &limits).unwrap();
    let model = unhex_pprof::pprof::decode(&message, &limits).unwrap();
    let profile = &model.profiles()[0];
    let mut stacks = BTreeMap::new();
    for sample in model.samples(profile) {
        let frames = model.stack(sample.stack).iter();
        let frames = frames.filter_map(|id| model.frame(*id));
        let lines = frames.flat_map(|frame| model.lines(frame));
        let names = lines.filter_map(|line| model.function(line.function));
        let names: Vec<&str> = names.map(|of| model.text(of.name)).collect();
        let totals = (0..profile.value_types.len()).map(|place| sample.total(place));
        stacks.insert(names.join("<"), totals.collect());
    }
    let binaries = model.binaries().iter();
    let binaries = binaries.map(|binary| {
        let identity = binary.identity.as_ref().map(ToString::to_string);
        format!(
            "{} {}",
            model.text(binary.file_name),
            identity.unwrap_or_default()
        )
    });
    (stacks, binaries.collect())
}

#[test]
fn pprof_has_the_same_stacks_and_totals_with_places_and_build_ids() {
    let file = pprof(&example(), &heading()).unwrap();
    let (stacks, binaries) = decoded(&file);
    let ms = 1_000_000;
    let expected = BTreeMap::from(
        [
            ("hash; 2<find<main", vec![40, 400 * ms]),
            ("main", vec![30, 300 * ms]),
            ("libfoo.so@0x1a2b [bb02]<main", vec![12, 120 * ms]),
            ("libfoo.so@0x1a2b [cc03]<main", vec![8, 80 * ms]),
            ("read_iter<handle<handle<main<handle", vec![10, 100 * ms]),
        ]
        .map(|(stack, values)| (stack.to_owned(), values)),
    );
    assert_eq!(stacks, expected);
    let expected = [
        "/usr/bin/checkout aa01",
        "libfoo.so bb02",
        "libfoo.so cc03",
        "[kernel.ext4] ",
    ];
    assert_eq!(binaries, expected);
}

#[test]
fn addresses_in_pprof_mean_what_they_meant() {
    let file = pprof(&example(), &heading()).unwrap();
    let limits = Limits::default();
    let message = unpacked(&file, &limits).unwrap();
    let model = unhex_pprof::pprof::decode(&message, &limits).unwrap();
    let kinds: Vec<String> = model
        .frames()
        .iter()
        .map(|frame| format!("{:?}", frame.kind))
        .collect();
    assert_eq!(
        kinds,
        [
            "Native(Link(16))",
            "Native(Link(32))",
            "Native(FileOffset(6699))",
            "Native(FileOffset(6699))",
            "Kernel",
            "Named",
        ]
    );
}

#[test]
fn a_sum_that_pprof_cannot_say_is_an_error_that_names_it() {
    let mut large = Merged::new(ProfileType::cpu());
    let value = i128::from(i64::MAX) + 1;
    large.stack(&[], Weight { count: 1, value });
    let error = pprof(&large, &heading()).unwrap_err().to_string();
    assert!(error.contains("9223372036854775808"), "{error}");
}

#[test]
fn go_tool_pprof_prints_the_same_functions_and_totals() {
    let Some(go) = tools::GO.find() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("merged.pb.gz");
    std::fs::write(&path, pprof(&example(), &heading()).unwrap()).unwrap();
    let arguments = ["tool", "pprof", "-top", "-nodecount=20", "-symbolize=none"];
    let mut command = std::process::Command::new(go);
    let output = command.args(arguments).arg(&path).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    assert!(text.contains("Type: cpu"), "{text}");
    let lines = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    let lines: Vec<String> = lines.collect();
    for expected in [
        "400ms 40.00% 40.00% 400ms 40.00% hash; 2 (inline)",
        "300ms 30.00% 70.00% 1000ms 100% main",
        "120ms 12.00% 82.00% 120ms 12.00% libfoo.so@0x1a2b [bb02]",
        "80ms 8.00% 100% 80ms 8.00% libfoo.so@0x1a2b [cc03]",
    ] {
        assert!(
            lines.iter().any(|line| line == expected),
            "{expected}: {text}"
        );
    }
}
