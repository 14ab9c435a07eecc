//! Trees keep totals whatever is cut, and do not depend on the order of stacks.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;
use crate::rows::{FrameContent, FrameName};
use crate::view::merged::FrameNumber;

fn function(merged: &mut Merged, name: &str) -> FrameNumber {
    let names = vec![FrameName {
        function: name.into(),
        file_name: "".into(),
        line: 1,
    }];
    let language = "test".into();
    merged.frame(&FrameContent::Named { language, names }, &[])
}

/// Of stacks as `leaf caller root` and values.
fn merged(stacks: &[(Vec<u8>, u32)]) -> Merged {
    let mut merged = Merged::new(ProfileType::cpu());
    for (frames, value) in stacks {
        let frames = frames
            .iter()
            .map(|name| function(&mut merged, &format!("f{name}")));
        let frames: Vec<FrameNumber> = frames.collect::<Vec<_>>();
        let value = i128::from(*value);
        merged.stack(&frames, Weight { count: 1, value });
    }
    merged
}

/// As text, a line for each node.
fn drawn(tree: &Tree) -> String {
    let mut lines = String::new();
    for node in tree.nodes() {
        let indent = "  ".repeat(node.depth as usize);
        let name = tree.name(node.label);
        let _infallible = writeln!(lines, "{indent}{name} {} {}", node.total, node.own);
    }
    lines
}

#[test]
fn what_stacks_have_in_common_is_there_once() {
    let stacks = [
        (vec![3, 2, 1], 5),
        (vec![2, 1], 1),
        (vec![4, 1], 9),
        (vec![3, 2, 1], 2),
    ];
    let tree = Tree::whole(&merged(&stacks));
    assert_eq!(
        drawn(&tree),
        "total 17 0\n  f1 17 0\n    f2 8 1\n      f3 7 7\n    f4 9 9\n"
    );
    let ordered = tree.cut_to(5);
    assert_eq!(
        drawn(&ordered),
        "total 17 0\n  f1 17 0\n    f4 9 9\n    f2 8 1\n      f3 7 7\n"
    );
}

#[test]
fn the_smallest_subtrees_of_each_node_are_cut_into_one() {
    let stacks = [
        (vec![1], 50),
        (vec![2, 1], 30),
        (vec![3, 1], 5),
        (vec![4, 1], 4),
        (vec![6, 5], 20),
        (vec![7, 5], 1),
    ];
    let tree = Tree::whole(&merged(&stacks)).cut_to(7);
    assert_eq!(
        drawn(&tree),
        "total 110 0\n  f1 89 50\n    f2 30 30\n    (other) 9 9\n  f5 21 0\n    f6 20 20\n    (other) 1 1\n"
    );
    assert_eq!(tree.cut_nodes(), 3);
    let least = Tree::whole(&merged(&stacks)).cut_to(0);
    assert_eq!(drawn(&least), "total 110 0\n  (other) 110 110\n");
}

#[test]
fn a_stack_as_deep_as_the_model_allows_is_a_tree() {
    let mut merged = Merged::new(ProfileType::cpu());
    let names = ["even", "odd"].map(|name| function(&mut merged, name));
    let deep: Vec<FrameNumber> = names.into_iter().cycle().take(16_384).collect();
    merged.stack(&deep, Weight { count: 1, value: 7 });
    let tree = Tree::whole(&merged);
    assert_eq!(tree.nodes().len(), 16_385);
    assert_eq!(
        tree.nodes().last().map(|node| (node.depth, node.own)),
        Some((16_384, 7))
    );
}

fn stacks() -> impl Strategy<Value = Vec<(Vec<u8>, u32)>> {
    let stack = prop::collection::vec(0_u8..5, 0..6);
    prop::collection::vec((stack, 0_u32..1_000), 0..40)
}

/// Own and totals of children are the total, of every node.
fn assert_exact(tree: &Tree) {
    let nodes = tree.nodes();
    for (place, node) in nodes.iter().enumerate() {
        let below = nodes[place + 1..]
            .iter()
            .take_while(|of| of.depth > node.depth);
        let children = below.filter(|of| of.depth == node.depth + 1);
        let sum: i128 = children.map(|child| child.total).sum();
        assert_eq!(node.total, node.own + sum, "{}", drawn(tree));
    }
    assert_eq!(nodes[0].total, tree.total().value);
    assert_eq!(
        nodes.iter().map(|node| node.own).sum::<i128>(),
        nodes[0].total
    );
}

proptest! {
    #[test]
    fn totals_are_exact_whatever_is_cut(stacks in stacks(), max in 0_usize..60) {
        let whole = merged(&stacks);
        let expected: i128 = stacks.iter().map(|(_, value)| i128::from(*value)).sum();
        let all = Tree::whole(&whole);
        assert_exact(&all);
        prop_assert_eq!(all.nodes()[0].total, expected);
        let cut = Tree::whole(&whole).cut_to(max);
        assert_exact(&cut);
        prop_assert_eq!(cut.nodes()[0].total, expected);
        prop_assert!(cut.nodes().len() <= max.max(NODES_MIN).max(1));
        // Room is used: all, or so many that one more with its rest would not fit.
        prop_assert!(cut.cut_nodes() == 0 || cut.nodes().len() + 1 >= max, "{}", drawn(&cut));
    }

    #[test]
    fn the_order_of_stacks_and_the_numbers_of_functions_do_not_matter(
        stacks in stacks(), max in 2_usize..30, seed in any::<u64>(),
    ) {
        let mut shuffled = stacks.clone();
        let mut state = seed | 1;
        shuffled.sort_by_cached_key(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state
        });
        let (one, other) = (merged(&stacks), merged(&shuffled));
        prop_assert_eq!(drawn(&Tree::whole(&one)), drawn(&Tree::whole(&other)));
        let cut = |merged: &Merged| drawn(&Tree::whole(merged).cut_to(max));
        prop_assert_eq!(cut(&one), cut(&other));
    }
}
