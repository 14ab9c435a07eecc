//! Whole indexes: written from random models, read back, damaged, and compared with a plain walk
//! over the model.

mod damage;
mod models;
mod round_trip;

use crate::address::LinkAddress;
use crate::index::SymbolIndex;
use crate::model::{CallNode, Function, Model, NONE, Row, SourcePath};

/// An index of 1,000 functions, each with one call inlined, and addresses in every row of it.
pub(crate) fn large_index() -> (SymbolIndex<Vec<u8>>, Vec<LinkAddress>) {
    let name = |number: u32| format!("function_{number}");
    let node = |number: u32| CallNode {
        function: number / 2,
        parent: if number.is_multiple_of(2) {
            NONE
        } else {
            number - 1
        },
        call_file: if number.is_multiple_of(2) {
            NONE
        } else {
            number % 50
        },
        call_line: number,
        call_column: 0,
        entry: u64::from(number) * 32,
        size_bytes: 64,
    };
    let row = |number: u32| Row {
        address: u64::from(number) * 8,
        node: number / 4,
        file: number % 50,
        line: number,
        column: number % 7,
    };
    let model = Model {
        rows: (0..8_000).map(row).collect(),
        nodes: (0..2_000).map(node).collect(),
        functions: (0..1_000)
            .map(|number| Function {
                linkage_name: name(number),
                full_name: format!("{}(int)", name(number)),
                short_name: name(number),
                ..Function::default()
            })
            .collect(),
        files: (0..50)
            .map(|number| SourcePath {
                directory: "/src".to_owned(),
                name: format!("{number}.c"),
            })
            .collect(),
        ..Model::default()
    };
    let addresses = (0..8_000).map(|number| LinkAddress(number * 7_919 % 64_000));
    (round_trip::index_of(&model), addresses.collect())
}
