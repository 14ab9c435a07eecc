//! A tree as the answer of `GET /query/profile` with `format=json`.

use rustc_hash::FxHashMap;

use super::shown::{ShownFunction, Weight};
use super::tree::{Label, Tree};
use crate::answers::{Amount, Asked, FlameGraphAnswer, FlameNodes, Lacking};

/// The answer; only functions that are in the tree are in it.
pub fn flame_graph(tree: &Tree, asked: Asked) -> FlameGraphAnswer {
    let mut tables = Tables::default();
    tables.string("");
    let mut nodes = FlameNodes::default();
    for node in tree.nodes() {
        nodes.depth.push(node.depth);
        nodes.function.push(tables.function(tree, node.label));
        nodes.total.push(node.total);
        nodes.own.push(node.own);
    }
    let Tables {
        strings, functions, ..
    } = tables;
    FlameGraphAnswer {
        asked,
        unit: tree.profile_type().unit().to_owned(),
        total: tree.total().into(),
        strings,
        functions,
        nodes,
        cut_nodes: tree.cut_nodes() as u64,
        names_lacking: tree.names_lacking().map(Into::into),
    }
}

impl From<Weight> for Amount {
    fn from(weight: Weight) -> Self {
        let Weight { count, value } = weight;
        Self { count, value }
    }
}

impl From<&super::merged::NamesLacking> for Lacking {
    fn from(lacking: &super::merged::NamesLacking) -> Self {
        Self {
            frames: lacking.frames,
            detail: lacking.detail.to_string(),
        }
    }
}

/// Strings and functions by the order of their first use.
#[derive(Debug, Default)]
struct Tables {
    strings: Vec<String>,
    string_places: FxHashMap<String, u32>,
    functions: Vec<[u32; 4]>,
    function_places: FxHashMap<Label, u32>,
}

impl Tables {
    fn string(&mut self, text: &str) -> u32 {
        if let Some(place) = self.string_places.get(text) {
            return *place;
        }
        let place = u32::try_from(self.strings.len()).unwrap_or(u32::MAX);
        self.strings.push(text.to_owned());
        self.string_places.insert(text.to_owned(), place);
        place
    }

    fn function(&mut self, tree: &Tree, label: Label) -> u32 {
        if let Some(place) = self.function_places.get(&label) {
            return *place;
        }
        let function = match label {
            Label::Root => [self.string(tree.name(label)), 0, 0, self.string("root")],
            Label::Other => [self.string(tree.name(label)), 0, 0, self.string("other")],
            Label::Function(place) => match tree.functions().get(place as usize) {
                Some(function) => self.shown(function),
                None => [0; 4],
            },
        };
        let place = u32::try_from(self.functions.len()).unwrap_or(u32::MAX);
        self.functions.push(function);
        self.function_places.insert(label, place);
        place
    }

    fn shown(&mut self, function: &ShownFunction) -> [u32; 4] {
        [
            self.string(&function.name),
            self.string(&function.file),
            self.string(&function.binary),
            self.string(function.kind.word()),
        ]
    }
}
