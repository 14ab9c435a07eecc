//! A profile with every number followed to what it stands for, so that profiles with other tables can be compared.

use unhex_pprof::{
    Attribute, Binary, Extent, Frame, FrameId, FrameKind, Profile, Profiles, Sample, Span, Value,
    ValueType,
};

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PlainProfile {
    pub(crate) value_types: Vec<(String, String)>,
    pub(crate) period_type: Option<(String, String)>,
    pub(crate) period: i64,
    pub(crate) time_unix_nanos: u64,
    pub(crate) duration_nanos: u64,
    pub(crate) id: Option<[u8; 16]>,
    pub(crate) resource: Vec<PlainAttribute>,
    pub(crate) scope: (String, String, Vec<PlainAttribute>),
    pub(crate) attributes: Vec<PlainAttribute>,
    pub(crate) texts: Vec<String>,
    pub(crate) samples: Vec<PlainSample>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PlainSample {
    pub(crate) frames: Vec<PlainFrame>,
    pub(crate) values: Vec<i64>,
    pub(crate) timestamps: Vec<u64>,
    pub(crate) attributes: Vec<PlainAttribute>,
    pub(crate) link: Option<([u8; 16], [u8; 8])>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PlainFrame {
    pub(crate) address: u64,
    pub(crate) is_folded: bool,
    pub(crate) binary: Option<PlainBinary>,
    pub(crate) lines: Vec<PlainLine>,
    pub(crate) attributes: Vec<PlainAttribute>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PlainBinary {
    pub(crate) file_name: String,
    pub(crate) id_text: String,
    pub(crate) extent: Extent,
    pub(crate) attributes: Vec<PlainAttribute>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PlainLine {
    pub(crate) name: String,
    pub(crate) system_name: String,
    pub(crate) file_name: String,
    pub(crate) start_line: i64,
    pub(crate) line: i64,
    pub(crate) column: i64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PlainAttribute {
    pub(crate) key: String,
    pub(crate) value: PlainValue,
    pub(crate) unit: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum PlainValue {
    #[default]
    Empty,
    Text(String),
    Bool(bool),
    Integer(i64),
    Double(f64),
    Structured(String),
}

/// All profiles of a model.
pub(crate) fn plain(model: &Profiles<'_>) -> Vec<PlainProfile> {
    model
        .profiles()
        .iter()
        .map(|profile| plain_profile(model, profile))
        .collect()
}

fn plain_profile(model: &Profiles<'_>, profile: &Profile) -> PlainProfile {
    let text = |id| model.text(id).to_owned();
    let typed = |counted: &ValueType| (text(counted.name), text(counted.unit));
    let attributes = |span: Span| {
        model
            .attributes(span)
            .map(|one| attribute(model, one))
            .collect()
    };
    let single = [
        profile.default_type,
        profile.dropped_frames,
        profile.kept_frames,
    ];
    PlainProfile {
        value_types: profile.value_types.iter().map(typed).collect(),
        period_type: profile.period_type.as_ref().map(typed),
        period: profile.period,
        time_unix_nanos: profile.time_unix_nanos,
        duration_nanos: profile.duration_nanos,
        id: profile.id,
        resource: attributes(profile.resource),
        scope: (
            text(profile.origin.name),
            text(profile.origin.version),
            attributes(profile.origin.attributes),
        ),
        attributes: attributes(profile.attributes),
        texts: single
            .iter()
            .chain(&profile.comments)
            .map(|id| text(*id))
            .collect(),
        samples: model
            .samples(profile)
            .map(|sample| plain_sample(model, &sample))
            .collect(),
    }
}

fn plain_sample(model: &Profiles<'_>, sample: &Sample<'_>) -> PlainSample {
    let link = sample.link.and_then(|id| model.link(id));
    let own = sample
        .attributes
        .iter()
        .filter_map(|id| model.attribute(*id));
    PlainSample {
        frames: model
            .stack(sample.stack)
            .iter()
            .map(|id| plain_frame(model, *id))
            .collect(),
        values: sample.values.to_vec(),
        timestamps: sample.timestamps.to_vec(),
        attributes: own.map(|one| attribute(model, one)).collect(),
        link: link.map(|link| (link.trace_id, link.span_id)),
    }
}

fn plain_frame(model: &Profiles<'_>, id: FrameId) -> PlainFrame {
    let frame: &Frame = model.frame(id).expect("a frame of the model");
    let binary = frame
        .binary
        .map(|id| model.binary(id).expect("a binary of the model"));
    let lines = model.lines(frame).iter().map(|line| {
        let function = model
            .function(line.function)
            .expect("a function of the model");
        PlainLine {
            name: model.text(function.name).to_owned(),
            system_name: model.text(function.system_name).to_owned(),
            file_name: model.text(function.file_name).to_owned(),
            start_line: function.start_line,
            line: line.line,
            column: line.column,
        }
    });
    PlainFrame {
        address: frame.address,
        is_folded: frame.is_folded,
        binary: binary.map(|binary| plain_binary(model, binary)),
        lines: lines.collect(),
        attributes: model
            .attributes(frame.attributes)
            .map(|one| attribute(model, one))
            .collect(),
    }
}

fn plain_binary(model: &Profiles<'_>, binary: &Binary) -> PlainBinary {
    PlainBinary {
        file_name: model.text(binary.file_name).to_owned(),
        id_text: model.text(binary.id_text).to_owned(),
        extent: binary.extent,
        attributes: model
            .attributes(binary.attributes)
            .map(|one| attribute(model, one))
            .collect(),
    }
}

fn attribute(model: &Profiles<'_>, attribute: &Attribute) -> PlainAttribute {
    let text = |id| model.text(id).to_owned();
    PlainAttribute {
        key: text(attribute.key),
        value: match attribute.value {
            Value::Empty => PlainValue::Empty,
            Value::Text(id) => PlainValue::Text(text(id)),
            Value::Bool(is) => PlainValue::Bool(is),
            Value::Integer(number) => PlainValue::Integer(number),
            Value::Double(number) => PlainValue::Double(number),
            Value::Structured(id) => PlainValue::Structured(text(id)),
        },
        unit: text(attribute.unit),
    }
}

/// The kinds of the frames of the first sample of the first profile.
pub(crate) fn kinds(model: &Profiles<'_>) -> Vec<FrameKind> {
    let profile = model.profiles().first().expect("a profile");
    let sample = model.samples(profile).next().expect("a sample");
    let frames = model.stack(sample.stack).iter();
    frames
        .map(|id| model.frame(*id).expect("a frame").kind)
        .collect()
}
