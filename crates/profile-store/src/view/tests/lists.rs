//! Filters, and the list of the top functions.

use super::*;

fn top_of(merged: &Merged, by: TopBy, order: TopOrder) -> Vec<String> {
    let options = TopOptions {
        by,
        order,
        limit: 4,
    };
    let answer = top(merged, options, Asked::default());
    let ms = |amount: crate::answers::Amount| amount.value / 1_000_000;
    let lines = answer.functions.iter();
    lines
        .map(|of| {
            format!(
                "{} {} {} {}",
                of.function,
                of.kind,
                ms(of.own),
                ms(of.total)
            )
        })
        .collect()
}

#[test]
fn a_stack_counts_once_for_a_function_that_calls_itself() {
    assert_eq!(
        top_of(&example(), TopBy::Function, TopOrder::Total),
        [
            "main native 300 1000",
            "hash; 2 native 400 400",
            "find native 0 400",
            "libfoo.so@0x1a2b [bb02] unresolved 120 120",
        ]
    );
    let mut recursive = Merged::new(ProfileType::cpu());
    let handle = recursive.frame(&named("handle"), &[]);
    recursive.stack(
        &[handle; 3],
        Weight {
            count: 2,
            value: 5_000_000,
        },
    );
    assert_eq!(
        top_of(&recursive, TopBy::Function, TopOrder::Own),
        ["handle named 5 5"]
    );
}

#[test]
fn samples_without_a_stack_have_a_line_so_that_own_weights_are_all() {
    let mut merged = Merged::new(ProfileType::cpu());
    let handle = merged.frame(&named("handle"), &[]);
    let weight = |value| Weight { count: 1, value };
    merged.stack(&[handle], weight(5_000_000));
    merged.stack(&[], weight(3_000_000));
    assert_eq!(
        top_of(&merged, TopBy::Function, TopOrder::Own),
        ["handle named 5 5", "[no stack] unplaced 3 3"]
    );
    assert_eq!(
        top_of(&merged, TopBy::Binary, TopOrder::Own),
        ["[named] named 5 5", "[no stack] unplaced 3 3"]
    );
}

#[test]
fn the_list_can_be_of_files_and_of_binaries() {
    assert_eq!(
        top_of(&example(), TopBy::Binary, TopOrder::Own),
        [
            "checkout native 700 1000",
            "libfoo.so native 200 200",
            "ext4 kernel 100 100",
            "[named] named 0 100",
        ]
    );
    assert_eq!(
        top_of(&example(), TopBy::File, TopOrder::Total)[..2],
        ["main.c native 300 1000", "h.c native 400 400"]
    );
}

#[test]
fn the_list_says_how_much_it_leaves_out() {
    let options = TopOptions {
        limit: 2,
        ..TopOptions::default()
    };
    let answer = top(&example(), options, Asked::default());
    assert_eq!((answer.functions.len(), answer.left_out), (2, 5));
    assert_eq!(answer.total.value, 1_000_000_000);
    assert_eq!(answer.unit, "nanoseconds");
}

#[test]
fn filters_keep_whole_stacks() {
    let filtered = |texts: FilterTexts<'_>| {
        let merged = StackFilter::new(texts).unwrap().apply(example());
        let total = merged.total().value / 1_000_000;
        assert_eq!(Tree::whole(&merged).nodes()[0].total, merged.total().value);
        (super::texts(&merged).len(), total)
    };
    let none = FilterTexts::default();
    assert_eq!(filtered(none), (5, 1000));
    assert_eq!(
        filtered(FilterTexts {
            function: Some("^find$"),
            ..none
        }),
        (1, 400)
    );
    assert_eq!(
        filtered(FilterTexts {
            function: Some("app.py"),
            ..none
        }),
        (1, 100)
    );
    assert_eq!(
        filtered(FilterTexts {
            binary: Some("libfoo"),
            ..none
        }),
        (2, 200)
    );
    let by_build_id = FilterTexts {
        binary: Some("^cc03$"),
        ..none
    };
    assert_eq!(filtered(by_build_id), (1, 80));
    let of_build = FilterTexts {
        function: Some("^find$"),
        binary: Some("^aa01$"),
    };
    assert_eq!(filtered(of_build), (1, 400));
    // Function and binary have to be those of one frame.
    let both = FilterTexts {
        function: Some("main"),
        binary: Some("libfoo"),
    };
    assert_eq!(filtered(both), (0, 0));
}

#[test]
fn a_pattern_that_is_none_is_an_error_that_says_which() {
    let error = StackFilter::new(FilterTexts {
        binary: Some("("),
        ..FilterTexts::default()
    });
    assert_eq!(
        error.unwrap_err().to_string(),
        "binary: pattern `(`: unclosed group"
    );
    let long = "x".repeat(FILTER_BYTES_MAX + 1);
    let error = StackFilter::new(FilterTexts {
        function: Some(&long),
        ..FilterTexts::default()
    });
    let error = error.unwrap_err().to_string();
    assert_eq!(error, "function: pattern of 4097 bytes, at most 4096");
}
