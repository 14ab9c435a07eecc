//! Selectors as Prometheus reads them, the canonical form, and errors that say where.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn parsed(text: &str) -> Selector {
    text.parse()
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn error(text: &str) -> String {
    text.parse::<Selector>().unwrap_err().to_string()
}

fn matches(text: &str, labels: &[(&str, &str)]) -> bool {
    let labels: BTreeMap<&str, &str> = labels.iter().copied().collect();
    parsed(text).matches(|name| labels.get(name).copied().unwrap_or_default())
}

#[test]
fn what_values_say_wholly_is_left_to_them() {
    for (text, left) in [
        ("{}", "{}"),
        (r#"{service="a"}"#, "{}"),
        (r#"{service=~"a|b"}"#, "{}"),
        (r#"{service=~"a.*"}"#, r#"{service=~"a.*"}"#),
        (r#"{service!="a"}"#, r#"{service!="a"}"#),
        (r#"{service="a",version!="2.4"}"#, r#"{version!="2.4"}"#),
        // Of other labels nothing is asked.
        (r#"{host=~"a.*",version="2.4"}"#, "{}"),
    ] {
        let selector = parsed(text);
        let beyond = selector.beyond_values(&["service", "version"]);
        assert_eq!(beyond.to_string(), left, "{text}");
        // Both together are the selector of these labels.
        for service in ["", "a", "ab", "b", "c"] {
            for version in ["", "2.4", "2.5"] {
                let label = |name: &str| match name {
                    "service" => service,
                    "version" => version,
                    _ => "a",
                };
                let one_of = |name: &str| {
                    let values = selector.values_of(name);
                    values.is_none_or(|values| values.contains(label(name)))
                };
                let both = one_of("service") && one_of("version") && beyond.matches(label);
                assert_eq!(
                    both,
                    selector.matches(label),
                    "{text} {service:?} {version:?}"
                );
            }
        }
    }
}

#[test]
fn operators_mean_what_they_mean_in_prometheus() {
    let labels = [
        ("service", "checkout"),
        ("version", "2.4"),
        ("host", "a\nb"),
    ];
    for (text, expected) in [
        ("{}", true),
        (r#"{service="checkout"}"#, true),
        (r#"{service="check"}"#, false),
        (r#"{service!="check"}"#, true),
        (r#"{version=~"2.*"}"#, true),
        // A pattern is for the whole value.
        (r#"{version=~"2"}"#, false),
        (r#"{version!~"2"}"#, true),
        (r#"{version!~"2\\..+"}"#, false),
        (r#"{service=~"a|checkout"}"#, true),
        (r#"{service=~"check|a"}"#, false),
        (r#"{service=~"(?i)CHECKOUT"}"#, true),
        // A dot matches a line break, and the end is the end.
        (r#"{host=~"a.b"}"#, true),
        (r#"{host=~"a"}"#, false),
        (r#"{host="a\nb"}"#, true),
        // A label that is not there is empty.
        (r#"{pod=""}"#, true),
        (r#"{pod!=""}"#, false),
        (r#"{pod=~".*"}"#, true),
        (r#"{pod=~".+"}"#, false),
        (r#"{pod!~"x.*"}"#, true),
        (r#"{service="checkout",version="2.5"}"#, false),
        (r#"{service="checkout",service!="payment",}"#, true),
    ] {
        assert_eq!(matches(text, &labels), expected, "{text}");
    }
}

#[test]
fn names_with_dots_are_quoted() {
    let labels = [("k8s.pod.name", "x"), ("größe", "1")];
    assert!(matches(r#"{"k8s.pod.name"="x"}"#, &labels));
    assert!(matches(
        r#"{'k8s.pod.name'=~`[a-x]`, "größe"="1"}"#,
        &labels
    ));
    let canonical = parsed(r#"{"service"="a","k8s.pod.name"!="x"}"#).to_string();
    assert_eq!(canonical, r#"{"k8s.pod.name"!="x",service="a"}"#);
}

#[test]
fn strings_have_the_escapes_of_go() {
    let value = |text: &str| match &parsed(text).matchers()[0].operation() {
        Operation::Equal(value) => value.to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        value(r#"{a="\a\b\f\n\r\t\v\\\""}"#),
        "\u{7}\u{8}\u{c}\n\r\t\u{b}\\\""
    );
    assert_eq!(value(r"{a='it\'s'}"), "it's");
    assert_eq!(value(r"{a=`\n`}"), r"\n");
    assert_eq!(value(r#"{a="\x41\101\u00fc\U0001f600\xc3\xbc"}"#), "AAü😀ü");
}

const ERRORS: &[(&str, &str)] = &[
    (
        "",
        "selector, character 1: expected `{`, as in {service=\"checkout\"}, found the end",
    ),
    (
        "service",
        "selector, character 1: expected `{`, as in {service=\"checkout\"}, found `s`",
    ),
    (
        "{service}",
        "selector, character 9: expected `=`, `!=`, `=~` or `!~`, found `}`",
    ),
    (
        "{service!\"a\"}",
        "selector, character 10: expected `=`, `!=`, `=~` or `!~`, found `\"`",
    ),
    (
        "{a!=~\"a\"}",
        "selector, character 5: expected the value, in quotes, found `~`",
    ),
    (
        "{a=b}",
        "selector, character 4: expected the value, in quotes, found `b`",
    ),
    (
        "{a=\"b\" c=\"d\"}",
        "selector, character 8: expected `,` or `}`, found `c`",
    ),
    (
        "{a=\"b\"",
        "selector, character 7: expected `,` or `}`, found the end",
    ),
    (
        "{,}",
        "selector, character 2: expected the name of a label, in quotes if it has a dot, found `,`",
    ),
    (
        "{k8s.pod=\"b\"}",
        "selector, character 5: expected `=`, `!=`, `=~` or `!~`, found `.`",
    ),
    (
        "{\"\"=\"b\"}",
        "selector, character 2: expected the name of a label, found an empty one",
    ),
    (
        "{a=\"b}",
        "selector, character 7: expected the quote that ends the string, found the end",
    ),
    (
        "{a=\"\\d\"}",
        "selector, character 5: there is no such escape; \\ itself is written \\\\",
    ),
    (
        "{a=\"\\'\"}",
        "selector, character 5: there is no such escape; \\ itself is written \\\\",
    ),
    (
        "{a=\"\\x4\"}",
        "selector, character 5: \\x takes two hex digits",
    ),
    (
        "{a=\"\\400\"}",
        "selector, character 5: an octal escape is at most \\377",
    ),
    (
        "{a=\"\\ud800\"}",
        "selector, character 5: the escape is no Unicode character",
    ),
    (
        "{a=\"\\xff\"}",
        "selector, character 5: the bytes of the string's escapes are no UTF-8",
    ),
    (
        "{a=\"b\"} c",
        "selector, character 9: expected the end behind `}`, found `c`",
    ),
    (
        "{a=~\"(\"}",
        "selector, character 5: pattern `(`: unclosed group",
    ),
    (
        "{a=~\"x)|(y\"}",
        "selector, character 5: pattern `x)|(y`: unopened group",
    ),
];

#[test]
fn errors_say_where_and_what() {
    for (text, expected) in ERRORS {
        assert_eq!(error(text), *expected, "{text}");
    }
}

#[test]
fn what_could_cost_much_is_refused_with_its_limit() {
    let long = format!("{{a=\"{}\"}}", "x".repeat(SELECTOR_BYTES_MAX));
    assert_eq!(error(&long), "selector of 8198 bytes, at most 8192");
    let many = format!("{{{}}}", "a=\"b\",".repeat(MATCHERS_MAX + 1));
    assert_eq!(error(&many), "selector of more than 32 matchers");
    let large = error(r#"{a=~"((((x{100}){100}){100}){100})"}"#);
    assert!(large.contains("exceeds size limit of 1048576"), "{large}");
    let deep = format!("{{a=~\"{}{}\"}}", "(".repeat(40), ")".repeat(40));
    assert!(error(&deep).contains("nest"), "{}", error(&deep));
}

#[test]
fn readers_learn_which_values_are_possible() {
    let values = |text: &str, name: &str| {
        let selector = parsed(text);
        let values = selector.values_of(name);
        values.map(|values| values.into_iter().map(str::to_owned).collect::<Vec<_>>())
    };
    let some = |values: &[&str]| Some(values.iter().map(|&of| of.to_owned()).collect::<Vec<_>>());
    assert_eq!(values(r#"{service="a"}"#, "service"), some(&["a"]));
    assert_eq!(values(r#"{service="a"}"#, "version"), None);
    assert_eq!(values(r#"{service=~"b|a"}"#, "service"), some(&["a", "b"]));
    assert_eq!(
        values(r#"{service=~"b|a",service!="b"}"#, "service"),
        some(&["a"])
    );
    assert_eq!(
        values(r#"{service=~"b|a",service="c"}"#, "service"),
        some(&[])
    );
    assert_eq!(values(r#"{service=~"a.*"}"#, "service"), None);
    assert_eq!(values(r#"{service!="a"}"#, "service"), None);
    assert_eq!(
        values(r"{version=~`2\.3|2\.4`}", "version"),
        some(&["2.3", "2.4"])
    );
    assert_eq!(values(r"{version=~`2\d`}", "version"), None);
    assert_eq!(values(r"{version=~`\<2`}", "version"), None);
    let selector = parsed(r#"{service="a",host="b"}"#);
    assert!(selector.is_about(&["service", "host"]));
    assert!(!selector.is_about(&["service", "version"]));
    assert!(selector.may_match("host", "b") && !selector.may_match("host", "c"));
}

fn a_matcher() -> impl Strategy<Value = Matcher> {
    let name = prop_oneof!["[a-z_][a-z0-9_]{0,5}", "\\PC{1,6}", any::<String>()];
    let name = name.prop_filter("a name", |name| !name.is_empty());
    let plain = prop_oneof!["[a-z0-9.]{0,6}", any::<String>()];
    let pattern = prop_oneof![
        "[a-z|]{0,8}",
        "[a-z]{1,3}[.][*+]",
        "([a-c|]|\\\\[.|]){0,4}",
        "\\PC{0,6}"
    ];
    (name, plain, pattern, 0..4).prop_map(|(name, plain, pattern, kind)| {
        let pattern = Pattern::new(&pattern);
        let operation = match (kind, pattern) {
            (0, Ok(pattern)) => Operation::Matching(pattern),
            (1, Ok(pattern)) => Operation::NotMatching(pattern),
            (2, _) => Operation::NotEqual(plain.into()),
            _ => Operation::Equal(plain.into()),
        };
        Matcher::new(&name, operation)
    })
}

proptest! {
    #[test]
    fn the_canonical_form_is_read_as_what_it_was_written_of(
        matchers in prop::collection::vec(a_matcher(), 0..6),
    ) {
        let selector = Selector::new(matchers);
        let text = selector.to_string();
        let again: Selector = text.parse().unwrap();
        prop_assert_eq!(&again, &selector);
        prop_assert_eq!(again.to_string(), text);
    }

    #[test]
    fn any_text_is_a_selector_or_an_error(text in "[{}=!~\"'`a-c,.\\\\ (|x0-9]{0,40}") {
        if let Ok(selector) = text.parse::<Selector>() {
            prop_assert_eq!(selector.to_string().parse::<Selector>().unwrap(), selector);
        }
    }

    #[test]
    fn a_value_that_matches_is_among_the_possible_ones(
        matchers in prop::collection::vec(a_matcher(), 0..4), value in "[a-z|.]{0,3}",
    ) {
        let selector = Selector::new(matchers);
        for matcher in selector.matchers() {
            let possible = selector.values_of(matcher.name());
            if selector.may_match(matcher.name(), &value) {
                prop_assert!(possible.is_none_or(|values| values.contains(&*value)));
            }
        }
    }
}
