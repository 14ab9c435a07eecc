//! Which of the things that senders say becomes which label.

use proptest::collection::vec;
use proptest::prelude::*;
use unhex_pprof::{Attribute, Builder, NewSample, Profile, StringId, Value, ValueType};
use unhex_profile_store::rows::{FREE_LABELS_MAX, LABEL_VALUE_BYTES_MAX, Series};

use crate::messages::{
    Labels, PlainProfile, PlainSample, kept, kept_with, labels, model, reversed, sample,
};

fn one(resource: &[(&str, &str)], own: &[(&str, &str)], request: &[(&str, &str)]) -> Series {
    let profile = PlainProfile {
        resource: labels(resource),
        samples: vec![PlainSample {
            labels: labels(own),
            ..sample(&[], &[1, 10])
        }],
        ..PlainProfile::default()
    };
    let batch = kept_with(&model(&[profile]), request);
    (*batch.rows[0].series).clone()
}

fn all(series: &Series) -> Vec<(&str, &str)> {
    series.labels().collect()
}

const NOBODY: [(&str, &str); 4] = [
    ("deployment", "unlabelled"),
    ("instance", "unlabelled"),
    ("service", "unlabelled"),
    ("version", "unlabelled"),
];

#[test]
fn what_nobody_said_or_cannot_be_seen_reads_unlabelled() {
    for given in ["", " \n", "\u{0}\u{200b}"] {
        assert_eq!(all(&one(&[("service.name", given)], &[], &[])), NOBODY);
    }
    assert_eq!(all(&one(&[], &[], &[])), NOBODY);
}

#[test]
fn the_conventions_of_opentelemetry_become_short_names() {
    let series = one(
        &[
            ("service.name", "checkout"),
            ("service.version", "2.4"),
            ("deployment.environment.name", "prod"),
            ("service.instance.id", "checkout-1"),
            ("host.name", "node-7"),
            ("container.id", "c0ffee"),
            ("k8s.cluster.name", "eu"),
            ("k8s.namespace.name", "shop"),
            ("k8s.pod.name", "checkout-1-x"),
            ("k8s.node.name", "node-7"),
            ("k8s.deployment.name", "checkout"),
        ],
        &[],
        &[],
    );
    let expected = [
        ("cluster", "eu"),
        ("container", "c0ffee"),
        ("deployment", "prod"),
        ("host", "node-7"),
        ("instance", "checkout-1"),
        ("k8s.deployment.name", "checkout"),
        ("namespace", "shop"),
        ("node", "node-7"),
        ("pod", "checkout-1-x"),
        ("service", "checkout"),
        ("version", "2.4"),
    ];
    assert_eq!(all(&series), expected);
    let columns = (series.service(), series.version(), series.deployment());
    assert_eq!(columns, ("checkout", "2.4", "prod"));
}

#[test]
fn what_is_more_specific_wins() {
    let profile = |levels: usize| {
        let level = |number: usize, value: &str| {
            let given = labels(&[("service.name", value), ("zone", value)]);
            if number < levels {
                given
            } else {
                Labels::new()
            }
        };
        PlainProfile {
            resource: level(0, "resource"),
            scope: level(1, "scope"),
            attributes: level(2, "profile"),
            samples: vec![PlainSample {
                labels: level(3, "sample"),
                ..sample(&[], &[1, 10])
            }],
            ..PlainProfile::default()
        }
    };
    let request = [("service", "request"), ("zone", "request")];
    let names = ["resource", "scope", "profile", "sample", "request"];
    for (number, name) in names.iter().enumerate() {
        let request = if number == 4 { &request[..] } else { &[] };
        let batch = kept_with(&model(&[profile(number + 1)]), request);
        let series = &batch.rows[0].series;
        assert_eq!(
            (series.service(), series.label("zone")),
            (*name, Some(*name))
        );
    }
}

#[test]
fn profiles_of_one_resource_have_labels_of_their_scopes() {
    let mut builder = Builder::default();
    let text = |builder: &mut Builder<'static>, key: &'static str, value: &'static str| {
        let (key, value) = (builder.string(key), Value::Text(builder.string(value)));
        let unit = StringId::EMPTY;
        let id = builder.attribute(Attribute { key, value, unit });
        builder.attribute_list(&[id])
    };
    let name = builder.string("wall");
    let value_types = vec![ValueType {
        name,
        ..ValueType::default()
    }];
    let resource = text(&mut builder, "service.name", "checkout");
    for zone in ["a", "b", "a"] {
        let mut profile = Profile {
            value_types: value_types.clone(),
            resource,
            ..Profile::default()
        };
        profile.origin.attributes = text(&mut builder, "zone", zone);
        builder.profile(profile);
        builder.sample(NewSample {
            values: &[1],
            ..NewSample::default()
        });
    }
    let batch = kept_with(&builder.finish(), &[]);
    let series = batch.rows.iter().map(|row| &row.series);
    let found: Vec<_> = series.map(|of| (of.service(), of.label("zone"))).collect();
    assert_eq!(
        found,
        [Some("a"), Some("b"), Some("a")].map(|zone| ("checkout", zone))
    );
}

#[test]
fn the_new_name_of_an_attribute_wins_and_the_old_one_stays_free() {
    let series = one(
        &[
            ("deployment.environment", "old"),
            ("deployment.environment.name", "new"),
        ],
        &[],
        &[],
    );
    assert_eq!(series.deployment(), "new");
    assert_eq!(series.label("deployment.environment"), Some("old"));
    assert_eq!(
        one(&[("deployment.environment", "old")], &[], &[]).deployment(),
        "old"
    );
}

#[test]
fn a_label_of_a_program_is_not_mistaken_for_a_known_one() {
    let series = one(&[("service.version", "2.4")], &[("version", "v1")], &[]);
    assert_eq!(series.version(), "2.4");
    assert_eq!(series.label("exported_version"), Some("v1"));
}

#[test]
fn numbers_of_resources_are_labels_and_those_of_samples_are_not() {
    let mut builder = Builder::default();
    let name = builder.string("wall");
    let attribute = |builder: &mut Builder<'_>, key: &'static str, value| {
        let key = builder.string(key);
        builder.attribute(Attribute {
            key,
            value,
            unit: StringId::EMPTY,
        })
    };
    let pid = attribute(&mut builder, "process.pid", Value::Integer(42));
    let is_spot = attribute(&mut builder, "spot", Value::Bool(true));
    let share = attribute(&mut builder, "share", Value::Double(0.5));
    let thread = attribute(&mut builder, "thread.id", Value::Integer(7));
    let resource = builder.attribute_list(&[pid, is_spot, share]);
    let value_types = vec![ValueType {
        name,
        ..ValueType::default()
    }];
    builder.profile(Profile {
        value_types,
        resource,
        ..Profile::default()
    });
    builder.sample(NewSample {
        values: &[1],
        attributes: &[thread],
        ..NewSample::default()
    });
    let batch = kept_with(&builder.finish(), &[]);
    let series = &batch.rows[0].series;
    let of = ["process.pid", "spot", "share", "thread.id"].map(|name| series.label(name));
    assert_eq!(of, [Some("42"), Some("true"), Some("0.5"), None]);
    assert_eq!(batch.rows[0].profile_type.as_ref(), "wall:");
}

#[test]
fn labels_beyond_the_bounds_go_and_are_counted_and_the_sample_stays() {
    let names: Vec<String> = (0..FREE_LABELS_MAX + 5)
        .map(|number| format!("n{number:03}"))
        .collect();
    let mut resource: Labels = names
        .iter()
        .map(|name| (name.clone(), "x".to_owned()))
        .collect();
    resource.push(("service.name".to_owned(), "s".repeat(500)));
    resource.push(("k".repeat(65), "x".to_owned()));
    let of = PlainProfile {
        resource,
        samples: vec![sample(&[], &[1, 10])],
        ..PlainProfile::default()
    };
    for batch in [
        kept(std::slice::from_ref(&of)),
        kept_with(&reversed(&[of]), &[]),
    ] {
        let series = &batch.rows[0].series;
        assert_eq!(series.service().len(), LABEL_VALUE_BYTES_MAX);
        let free: Vec<&str> = series
            .labels()
            .map(|(name, _)| name)
            .filter(|name| name.starts_with('n'))
            .collect();
        assert_eq!(free, &names[..FREE_LABELS_MAX]);
        let left_out = (
            batch.left_out.labels,
            batch.left_out.values_cut,
            batch.left_out.samples,
        );
        assert_eq!(left_out, (6, 1, 0));
        assert_eq!(batch.rows.len(), 1);
    }
}

#[test]
fn labels_of_the_request_are_bounded_and_cleaned_like_all_others() {
    let (long, name) = ("v".repeat(200), "k".repeat(65));
    let series = one(
        &[],
        &[],
        &[
            ("service", "a\u{202e}b"),
            ("team", &long),
            (&name, "x"),
            ("host", ""),
        ],
    );
    assert_eq!(series.service(), "ab");
    assert_eq!(
        series.label("team").map(str::len),
        Some(LABEL_VALUE_BYTES_MAX)
    );
    assert_eq!((series.label(&name), series.label("host")), (None, None));
}

proptest! {
    #[test]
    fn any_text_gives_bounded_labels_that_no_order_changes(
        resource in vec((".{0,6}", ".{0,6}"), 0..50),
        own in vec(("(service.name|zone|\\PC{0,4})", ".{0,300}"), 0..50),
    ) {
        let of = PlainProfile {
            resource,
            samples: vec![PlainSample { labels: own, ..sample(&[], &[1, 10]) }],
            ..PlainProfile::default()
        };
        let batch = kept(std::slice::from_ref(&of));
        let series = &batch.rows[0].series;
        let other = kept_with(&reversed(&[of]), &[]);
        prop_assert_eq!(series, &other.rows[0].series);
        prop_assert!(series.labels().count() <= FREE_LABELS_MAX + 10);
        for (name, value) in series.labels() {
            prop_assert!(!value.is_empty() && value.len() <= LABEL_VALUE_BYTES_MAX, "{name} {value}");
            prop_assert!(!value.chars().chain(name.chars()).any(char::is_control), "{name} {value}");
        }
    }
}
