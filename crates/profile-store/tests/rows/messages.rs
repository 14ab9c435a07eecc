//! Profiles in words, and the models of them: in order, or with everything and every table the other way round.

use unhex_build_id::{IdKind, Identity};
use unhex_pprof::{
    Attribute, AttributeId, Binary, BinaryRole, Builder, CodeAddress, Frame, FrameId, FrameKind,
    Function, Line, NewSample, Profile, Profiles, StringId, Value, ValueType,
};
use unhex_profile_store::rows::{Arrival, Batch, TimeBounds, batch};

/// 2026-12-01T13:00:00Z.
pub(crate) const NOON_NANOS: u64 = 1_796_130_000_000_000_000;

pub(crate) const GO: &[(&str, &str)] = &[("samples", "count"), ("cpu", "nanoseconds")];
pub(crate) const OTLP: &[(&str, &str)] = &[("samples", "count")];
pub(crate) const HEAP: &[(&str, &str)] = &[
    ("alloc_objects", "count"),
    ("alloc_space", "bytes"),
    ("inuse_objects", "count"),
    ("inuse_space", "bytes"),
];

/// Names and values.
pub(crate) type Labels = Vec<(String, String)>;

#[derive(Clone, Debug)]
pub(crate) struct PlainProfile {
    pub(crate) resource: Labels,
    pub(crate) scope: Labels,
    pub(crate) attributes: Labels,
    pub(crate) types: &'static [(&'static str, &'static str)],
    pub(crate) period: i64,
    pub(crate) time: u64,
    pub(crate) samples: Vec<PlainSample>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct PlainSample {
    pub(crate) stack: Vec<PlainFrame>,
    pub(crate) labels: Labels,
    pub(crate) values: Vec<i64>,
    pub(crate) timestamps: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlainFrame {
    /// A binary by its number and an address in it.
    Native(u8, u64),
    /// Native code that has names and a binary without an identity.
    NamedNative(&'static str),
    Python(&'static str),
    Kernel(&'static str),
    Vdso,
    Jit,
    MissingUnwinder(&'static str),
    Truncated(&'static str),
}

impl Default for PlainProfile {
    fn default() -> Self {
        Self {
            resource: labels(&[("service.name", "checkout"), ("service.version", "2.4")]),
            scope: Vec::new(),
            attributes: Vec::new(),
            types: GO,
            period: 10_000_000,
            time: NOON_NANOS,
            samples: Vec::new(),
        }
    }
}

pub(crate) fn labels(labels: &[(&str, &str)]) -> Labels {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    labels.iter().map(owned).collect()
}

pub(crate) fn sample(stack: &[PlainFrame], values: &[i64]) -> PlainSample {
    PlainSample {
        stack: stack.to_vec(),
        values: values.to_vec(),
        ..PlainSample::default()
    }
}

pub(crate) fn profile(samples: Vec<PlainSample>) -> PlainProfile {
    PlainProfile {
        samples,
        ..PlainProfile::default()
    }
}

pub(crate) fn bounds() -> TimeBounds {
    TimeBounds {
        now: "2026-12-01T13:00:05Z".parse().expect("a time"),
        samples_days: 21,
    }
}

pub(crate) fn kept(profiles: &[PlainProfile]) -> Batch {
    kept_with(&model(profiles), &[])
}

pub(crate) fn kept_with(model: &Profiles<'_>, request: &[(&str, &str)]) -> Batch {
    let arrival = Arrival {
        labels: &labels(request),
        bounds: bounds(),
    };
    batch(model, &arrival)
}

pub(crate) fn model(profiles: &[PlainProfile]) -> Profiles<'static> {
    let mut builder = Builder::default();
    for profile in profiles {
        add(&mut builder, profile, Clone::clone);
    }
    builder.finish()
}

/// The same, with profiles, samples, attributes and so all tables the other way round.
pub(crate) fn reversed(profiles: &[PlainProfile]) -> Profiles<'static> {
    let mut builder = Builder::default();
    // Frames and strings that no sample has, so that every number is another one.
    frame(&mut builder, PlainFrame::Python("nobody"));
    for profile in profiles.iter().rev() {
        add(&mut builder, profile, |labels| {
            labels.iter().rev().cloned().collect()
        });
    }
    builder.finish()
}

fn add(builder: &mut Builder<'static>, of: &PlainProfile, order: fn(&Labels) -> Labels) {
    let is_reversed = order(&labels(&[("a", ""), ("b", "")]))[0].0 == "b";
    let value_type = |builder: &mut Builder<'static>, (name, unit): (&str, &str)| ValueType {
        name: builder.string(name.to_owned()),
        unit: builder.string(unit.to_owned()),
    };
    let resource = attributes(builder, &order(&of.resource));
    let scope = attributes(builder, &order(&of.scope));
    let own = attributes(builder, &order(&of.attributes));
    let mut profile = Profile {
        period_type: Some(value_type(builder, ("cpu", "nanoseconds"))),
        period: of.period,
        time_unix_nanos: of.time,
        resource: builder.attribute_list(&resource),
        attributes: builder.attribute_list(&own),
        ..Profile::default()
    };
    profile.origin.attributes = builder.attribute_list(&scope);
    let types = of.types.iter();
    profile.value_types = types.map(|of| value_type(builder, *of)).collect();
    builder.profile(profile);
    let mut samples: Vec<&PlainSample> = of.samples.iter().collect();
    if is_reversed {
        samples.reverse();
    }
    for sample in samples {
        let frames: Vec<FrameId> = sample.stack.iter().map(|of| frame(builder, *of)).collect();
        let stack = builder.stack(&frames);
        let attributes = attributes(builder, &order(&sample.labels));
        builder.sample(NewSample {
            stack,
            link: None,
            attributes: &attributes,
            values: &sample.values,
            timestamps: &sample.timestamps,
        });
    }
}

fn attributes(builder: &mut Builder<'static>, labels: &Labels) -> Vec<AttributeId> {
    let labels = labels.iter();
    let attributes = labels.map(|(name, value)| {
        let (key, value) = (builder.string(name.clone()), builder.string(value.clone()));
        builder.attribute(Attribute {
            key,
            value: Value::Text(value),
            unit: StringId::EMPTY,
        })
    });
    attributes.collect()
}

pub(crate) fn build_id(number: u8) -> Identity {
    Identity::parse(IdKind::Gnu, &format!("{number:02x}").repeat(20)).expect("a build ID")
}

fn frame(builder: &mut Builder<'static>, of: PlainFrame) -> FrameId {
    let mut binary = |file_name: &str, role, identity| {
        let file_name = builder.string(file_name.to_owned());
        builder.binary(Binary {
            file_name,
            identity,
            role,
            ..Binary::default()
        })
    };
    let at = |address| FrameKind::Native(CodeAddress::Link(address));
    let (kind, binary, name, language) = match of {
        PlainFrame::Native(number, address) => {
            let name = format!("/usr/lib/lib{number}.so");
            let id = binary(&name, BinaryRole::File, Some(build_id(number)));
            // The profiler's own name, as Go's, which is not kept.
            (at(address), Some(id), "guess", "native")
        }
        PlainFrame::NamedNative(name) => {
            let id = binary("/opt/tool", BinaryRole::File, None);
            (at(0x10), Some(id), name, "native")
        }
        PlainFrame::Python(name) => (FrameKind::Named, None, name, "cpython"),
        PlainFrame::Kernel(name) => {
            let id = binary(
                "[kernel.kallsyms]",
                BinaryRole::Kernel,
                Some(build_id(0xee)),
            );
            (FrameKind::Kernel, Some(id), name, "kernel")
        }
        PlainFrame::Vdso => {
            let id = binary("[vdso]", BinaryRole::Vdso, Some(build_id(0xdd)));
            (at(0x20), Some(id), "", "native")
        }
        PlainFrame::Jit => {
            let id = binary("//anon", BinaryRole::Anonymous, None);
            (FrameKind::Unplaced, Some(id), "", "")
        }
        PlainFrame::MissingUnwinder(name) => (FrameKind::MissingUnwinder, None, name, ""),
        PlainFrame::Truncated(name) => (FrameKind::Truncated, None, name, ""),
    };
    let language = builder.string(language.to_owned());
    let mut lines = Vec::new();
    if !name.is_empty() {
        let name = builder.string(name.to_owned());
        let function = builder.function(Function {
            name,
            ..Function::default()
        });
        lines.push(Line {
            function,
            line: 7,
            column: 3,
        });
    }
    let frame = Frame {
        kind,
        binary,
        language,
        ..Frame::default()
    };
    builder.frame(frame, &lines)
}
