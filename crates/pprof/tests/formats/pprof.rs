//! pprof: what is written is read back equal, and odd but sound files are read as other readers do.

use proptest::prelude::*;
use unhex_pprof::{
    Builder, CodeAddress, DecodeError, EncodeError, FrameKind, Limits, NewSample, Profile,
    Profiles, ValueType, packed, pprof, unpacked,
};

use crate::plain::{kinds, plain};
use crate::recipe::{built, recipe};

proptest! {
    #[test]
    fn what_is_written_is_read_back(recipe in recipe()) {
        let model = built(&recipe);
        let bytes = pprof::encode(&model, &model.profiles()[0]).unwrap();
        let again = pprof::decode(&bytes, &Limits::default()).unwrap();
        prop_assert_eq!(plain(&again), plain(&model));
        prop_assert_eq!(again.totals(&again.profiles()[0]), model.totals(&model.profiles()[0]));
        let twice = pprof::encode(&again, &again.profiles()[0]).unwrap();
        prop_assert_eq!(twice, bytes);
    }
}

/// A message by hand: fields as number and value.
#[derive(Default)]
pub(crate) struct Message(pub(crate) Vec<u8>);

impl Message {
    fn raw(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.0.push(value.to_le_bytes()[0]);
    }

    pub(crate) fn number(mut self, field: u64, value: u64) -> Self {
        self.raw(field << 3);
        self.raw(value);
        self
    }

    pub(crate) fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        self.raw(field << 3 | 2);
        self.raw(bytes.len() as u64);
        self.0.extend(bytes);
        self
    }

    pub(crate) fn message(self, field: u64, message: &Message) -> Self {
        self.bytes(field, &message.0)
    }
}

/// `samples` `count`, and the strings of the tests from 3 on.
pub(crate) fn file(strings: &[&str]) -> Message {
    let typed = Message::default().number(1, 1).number(2, 2);
    let all = ["", "samples", "count"].iter().chain(strings);
    all.fold(Message::default().message(1, &typed), |file, text| {
        file.bytes(6, text.as_bytes())
    })
}

fn sample(locations: &[u64], value: u64) -> Message {
    let of = locations
        .iter()
        .fold(Message::default(), |of, id| of.number(1, *id));
    of.number(2, value)
}

fn location(id: u64, mapping: u64, address: u64) -> Message {
    Message::default()
        .number(1, id)
        .number(2, mapping)
        .number(3, address)
}

fn read(file: &Message) -> Result<Profiles<'_>, DecodeError> {
    pprof::decode(&file.0, &Limits::default())
}

#[test]
fn a_mapping_has_frames_with_names_and_without() {
    let mapping = Message::default()
        .number(1, 1)
        .number(2, 0x40_0000)
        .number(3, 0x50_0000);
    let mapping = mapping.number(5, 3).number(6, 4).number(7, 1);
    let line = Message::default().number(1, 1).number(2, 12);
    let file = file(&["/bin/a", "9a0f", "main"])
        .message(2, &sample(&[1, 2, 3], 5))
        .message(3, &mapping)
        .message(4, &location(1, 1, 0x40_1000).message(4, &line))
        .message(4, &location(2, 1, 0x40_2000))
        .message(4, &location(3, 0, 0x7f00_0000))
        .message(5, &Message::default().number(1, 1).number(2, 5));
    let model = read(&file).unwrap();
    let native = |offset| FrameKind::Native(CodeAddress::FileOffset(offset));
    assert_eq!(
        kinds(&model),
        [native(0x1000), native(0x2000), FrameKind::Unplaced]
    );
    let bytes = pprof::encode(&model, &model.profiles()[0]).unwrap();
    let again = pprof::decode(&bytes, &Limits::default()).unwrap();
    assert_eq!(plain(&again), plain(&model));
    // Not all frames have functions, so that readers are to go on and symbolize: no has_functions (field 7).
    let mapping = bytes.windows(2).position(|w| w == [0x38, 1]);
    assert_eq!(mapping, None);
}

#[test]
fn names_of_the_caller_replace_those_of_the_profiler_and_complete_the_mapping() {
    let mapping = Message::default()
        .number(1, 1)
        .number(2, 0x40_0000)
        .number(3, 0x50_0000);
    let file = file(&["/bin/a", "9a0f"])
        .message(2, &sample(&[1, 2], 5))
        .message(3, &mapping.number(5, 3).number(6, 4))
        .message(4, &location(1, 1, 0x40_1000))
        .message(4, &location(2, 1, 0x40_2000));
    let model = read(&file).unwrap();
    let names = ["inlined".to_owned(), "outer".to_owned()];
    let mut asked = 0;
    let bytes = pprof::encode_named(&model, &model.profiles()[0], &mut |_, lines| {
        asked += 1;
        let line = |name| pprof::NamedLine {
            name,
            file_name: "a.c",
            line: 7,
            ..Default::default()
        };
        lines.extend(names.iter().map(|name| line(name.as_str())));
    });
    assert_eq!(asked, 2);
    let bytes = bytes.unwrap();
    let again = pprof::decode(&bytes, &Limits::default()).unwrap();
    let frames = &plain(&again)[0].samples[0].frames;
    for frame in frames {
        let found: Vec<_> = frame.lines.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(found, ["inlined", "outer"]);
    }
    assert!(again.binaries()[0].has_inline_frames);
}

#[test]
fn ids_need_not_count_from_one_but_must_be_there_and_unique() {
    let file_of = |ids: [u64; 2], used: u64| {
        file(&["a"])
            .message(2, &sample(&[used], 1))
            .message(4, &location(ids[0], 0, 0x10))
            .message(4, &location(ids[1], 0, 0x20))
    };
    let sparse = file_of([u64::MAX, 7], 7);
    let model = read(&sparse).unwrap();
    assert_eq!(plain(&model)[0].samples[0].frames[0].address, 0x20);
    let missing = file_of([1, 2], 3);
    let error = DecodeError::OutOfRange {
        place: "sample",
        what: "location",
        index: 3,
        length: 2,
    };
    assert_eq!(read(&missing).unwrap_err(), error);
    let twice = file_of([7, 7], 7);
    assert_eq!(
        read(&twice).unwrap_err(),
        DecodeError::DuplicateId {
            what: "location",
            id: 7
        }
    );
    let zero = file_of([0, 1], 1);
    assert_eq!(
        read(&zero).unwrap_err(),
        DecodeError::IdZero { what: "location" }
    );
}

#[test]
fn a_line_without_a_function_names_nothing() {
    let line = Message::default().number(2, 12);
    let file = file(&[])
        .message(2, &sample(&[1], 1))
        .message(4, &location(1, 0, 0).message(4, &line));
    assert_eq!(kinds(&read(&file).unwrap()), [FrameKind::Unplaced]);
}

#[test]
fn a_second_empty_string_is_a_text_and_the_first_is_none() {
    let label = |text| Message::default().number(1, 3).number(2, text);
    let of = |text| sample(&[], 1).message(3, &label(text));
    let file = file(&["key", ""]).message(2, &of(4)).message(2, &of(0));
    let model = read(&file).unwrap();
    let bytes = pprof::encode(&model, &model.profiles()[0]).unwrap();
    let again = pprof::decode(&bytes, &Limits::default()).unwrap();
    assert_eq!(plain(&again), plain(&model));
    let values: Vec<_> = plain(&again)[0]
        .samples
        .iter()
        .map(|sample| sample.attributes[0].value.clone())
        .collect();
    assert_eq!(
        values,
        [
            crate::plain::PlainValue::Text(String::new()),
            crate::plain::PlainValue::Integer(0)
        ]
    );
}

#[test]
fn a_file_without_a_period_type_counts_no_cpu_time() {
    let file = file(&["cpu", "nanoseconds"])
        .message(2, &sample(&[], 3))
        .number(12, 1000);
    let model = read(&file).unwrap();
    let profile = &model.profiles()[0];
    assert_eq!((profile.period, profile.period_type), (1000, None));
    assert_eq!(model.cpu_nanos_per_value(profile, 0), None);
    assert_eq!(model.sample_count_type(profile), Some(0));
    let typed = Message::default().number(1, 3).number(2, 4);
    let with = Message(file.0.clone()).message(11, &typed);
    let model = read(&with).unwrap();
    assert_eq!(
        model.cpu_nanos_per_value(&model.profiles()[0], 0),
        Some(1000)
    );
}

#[test]
fn a_sample_of_another_number_of_values_is_an_error() {
    let two = sample(&[], 1).number(2, 2);
    let error = read(&file(&[]).message(2, &two)).unwrap_err();
    assert!(
        matches!(
            error,
            DecodeError::ValueCount {
                found: 2,
                expected: 1,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn string_zero_must_be_empty() {
    let file = Message::default().bytes(6, b"a");
    assert_eq!(read(&file).unwrap_err(), DecodeError::FirstString);
}

#[test]
fn a_string_that_is_not_utf8_is_mended() {
    let file = file(&[])
        .bytes(6, b"a\xff")
        .message(2, &sample(&[], 1))
        .number(14, 3);
    assert_eq!(plain(&read(&file).unwrap())[0].texts[0], "a\u{fffd}");
}

#[test]
fn observations_beyond_64_bits_cannot_be_written() {
    let mut builder = Builder::default();
    builder.profile(Profile {
        value_types: vec![ValueType::default()],
        ..Profile::default()
    });
    let stack = builder.stack(&[]);
    let values = [i64::MAX, i64::MAX];
    builder.sample(NewSample {
        stack,
        values: &values,
        timestamps: &[1, 2],
        ..NewSample::default()
    });
    let model = builder.finish();
    let total = 2 * i128::from(i64::MAX);
    assert_eq!(model.totals(&model.profiles()[0]), [total]);
    let written = pprof::encode(&model, &model.profiles()[0]);
    assert_eq!(written, Err(EncodeError::TotalTooLarge { total }));
}

#[test]
fn a_packed_file_is_read_like_an_unpacked_one() {
    let file = file(&["/bin/a"]).message(2, &sample(&[], 3)).0;
    let limits = Limits::default();
    let gzip = packed(&file);
    assert_eq!(gzip, packed(&file), "the same bytes each time");
    let message = unpacked(&gzip, &limits).unwrap();
    let model = pprof::decode(&message, &limits).unwrap();
    assert_eq!(model.totals(&model.profiles()[0]), [3]);
}
