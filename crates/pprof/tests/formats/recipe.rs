//! Models of any shape that pprof can hold, from numbers that are cut to the tables that they lead into.

use proptest::collection::vec;
use proptest::prelude::*;
use unhex_pprof::{
    Attribute, AttributeId, Binary, Builder, Extent, Frame, FrameId, Function, FunctionId, Line,
    NewSample, Profile, Profiles, StringId, Value, ValueType,
};

/// What is to be built.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    texts: Vec<String>,
    labels: Vec<(usize, usize, i64, bool)>,
    mappings: Vec<([u64; 3], usize, usize)>,
    functions: Vec<(usize, usize, usize, i64)>,
    locations: Vec<Location>,
    stacks: Vec<Vec<usize>>,
    value_types: usize,
    samples: Vec<(usize, Vec<i64>, Vec<usize>)>,
    header: (i64, u64, u64, Vec<usize>, bool),
}

#[derive(Clone, Debug)]
struct Location {
    mapping: usize,
    address: u64,
    lines: Vec<(usize, i64, i64)>,
    is_folded: bool,
}

fn location() -> impl Strategy<Value = Location> {
    let line = (0_usize..50, any::<i64>(), any::<i64>());
    let numbers = (0_usize..50, any::<u64>(), vec(line, 0..3), any::<bool>());
    numbers.prop_map(|(mapping, address, lines, is_folded)| Location {
        mapping,
        address,
        lines,
        is_folded,
    })
}

pub(crate) fn recipe() -> impl Strategy<Value = Recipe> {
    let n = 0_usize..50;
    let tables = (
        vec("[a-z/.]{0,6}", 1..8),
        vec((n.clone(), n.clone(), any::<i64>(), any::<bool>()), 0..5),
        vec((any::<[u64; 3]>(), n.clone(), n.clone()), 0..4),
        vec((n.clone(), n.clone(), n.clone(), any::<i64>()), 1..5),
        vec(location(), 1..6),
    );
    let samples = (
        vec(vec(n.clone(), 0..6), 1..6),
        0_usize..4,
        vec(
            (n.clone(), vec(any::<i64>(), 4), vec(n.clone(), 0..3)),
            0..8,
        ),
        (
            any::<i64>(),
            any::<u64>(),
            any::<u64>(),
            vec(n, 0..3),
            any::<bool>(),
        ),
    );
    (tables, samples).prop_map(|(tables, samples)| Recipe {
        texts: tables.0,
        labels: tables.1,
        mappings: tables.2,
        functions: tables.3,
        locations: tables.4,
        stacks: samples.0,
        value_types: samples.1,
        samples: samples.2,
        header: samples.3,
    })
}

fn pick<T: Copy>(from: &[T], at: usize) -> Option<T> {
    (!from.is_empty()).then(|| from[at % from.len()])
}

/// The model: one profile.
pub(crate) fn built(recipe: &Recipe) -> Profiles<'_> {
    let mut builder = Builder::default();
    let texts: Vec<_> = recipe
        .texts
        .iter()
        .map(|text| builder.string(text.as_str()))
        .collect();
    let text = |at: usize| texts[at % texts.len()];
    let labels: Vec<AttributeId> = recipe
        .labels
        .iter()
        .map(|&(key, value, number, is_text)| Attribute {
            key: text(key),
            value: if is_text {
                Value::Text(text(value))
            } else {
                Value::Integer(number)
            },
            unit: text(value + 1),
        })
        .map(|label| builder.attribute(label))
        .collect();
    let frames = frames(recipe, &mut builder, &text);
    let stacks: Vec<_> = recipe
        .stacks
        .iter()
        .map(|stack| {
            stack
                .iter()
                .map(|at| frames[at % frames.len()])
                .collect::<Vec<_>>()
        })
        .map(|stack| builder.stack(&stack))
        .collect();
    builder.profile(header(recipe, &text));
    for (stack, values, own) in &recipe.samples {
        let own: Vec<_> = own.iter().filter_map(|at| pick(&labels, *at)).collect();
        builder.sample(NewSample {
            stack: stacks[stack % stacks.len()],
            values: &values[..recipe.value_types],
            attributes: &own,
            ..NewSample::default()
        });
    }
    builder.finish()
}

fn frames<'r>(
    recipe: &'r Recipe,
    builder: &mut Builder<'r>,
    text: &impl Fn(usize) -> StringId,
) -> Vec<FrameId> {
    let mappings = recipe
        .mappings
        .iter()
        .map(|&([start, limit, file_offset], name, id)| Binary {
            file_name: text(name),
            id_text: text(id),
            extent: Extent {
                start,
                limit,
                file_offset,
            },
            ..Binary::default()
        });
    let mappings: Vec<_> = mappings.map(|binary| builder.binary(binary)).collect();
    let functions = recipe
        .functions
        .iter()
        .map(|&(name, system_name, file_name, start_line)| {
            let (name, system_name) = (text(name), text(system_name));
            Function {
                name,
                system_name,
                file_name: text(file_name),
                start_line,
            }
        });
    let functions: Vec<FunctionId> = functions
        .map(|function| builder.function(function))
        .collect();
    let frame = |location: &Location| {
        let lines = location.lines.iter().map(|&(function, line, column)| Line {
            function: functions[function % functions.len()],
            line,
            column,
        });
        let has_binary = !location.mapping.is_multiple_of(3);
        let frame = Frame {
            binary: has_binary
                .then(|| pick(&mappings, location.mapping))
                .flatten(),
            address: location.address,
            is_folded: location.is_folded,
            ..Frame::default()
        };
        builder.frame(frame, &lines.collect::<Vec<_>>())
    };
    recipe.locations.iter().map(frame).collect()
}

fn header(recipe: &Recipe, text: &impl Fn(usize) -> StringId) -> Profile {
    let typed = |at: usize| ValueType {
        name: text(at),
        unit: text(at + 1),
    };
    let (period, time_unix_nanos, duration_nanos, comments, has_period_type) = &recipe.header;
    Profile {
        value_types: (0..recipe.value_types).map(typed).collect(),
        period_type: has_period_type.then(|| typed(3)),
        period: *period,
        time_unix_nanos: *time_unix_nanos,
        duration_nanos: *duration_nanos,
        comments: comments.iter().map(|at| text(*at)).collect(),
        default_type: text(5),
        dropped_frames: text(6),
        kept_frames: text(7),
        ..Profile::default()
    }
}
