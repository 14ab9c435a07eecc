//! Questions to the table: sums are those of all rows, however far hours are compacted; names are those of now.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use unhex_api::quality::Quality;
use unhex_profile_store::answers::{Asked as Told, Outcome};
use unhex_profile_store::query::{CoverageBy, Line, LinesBy, QueryError};
use unhex_profile_store::reading::HourRange;
use unhex_profile_store::rows::Series;
use unhex_profile_store::table::names::{FileKind, Hour};
use unhex_profile_store::table::record::RowSelector;
use unhex_profile_store::view::{
    FilterTexts, FoldedLines, Heading, Merged, StackFilter, TopOptions, Tree, flame_graph, pprof,
    top,
};

use crate::asked::{Asked, BUILD_ID, question};
use crate::fleet::{at_once, replica};
use crate::ingested::{Row, hour, minute, row};
use crate::symbol_server::Known;

fn later(hours: i64) -> Hour {
    Hour::of(hour().start() + SignedDuration::from_hours(hours)).unwrap()
}

/// What a profile says, by the text of each stack.
fn told(merged: &Merged) -> BTreeMap<String, (i128, i128)> {
    let mut told: BTreeMap<String, (i128, i128)> = BTreeMap::new();
    for stack in merged.stacks() {
        let leaf = merged.frames()[stack.frames[0].index()].address;
        let sum = told.entry(format!("{leaf:?}")).or_default();
        *sum = (sum.0 + stack.weight.count, sum.1 + stack.weight.value);
    }
    told
}

/// The same from all rows.
fn naive(rows: &[Row], selects: impl Fn(&Row) -> bool) -> BTreeMap<String, (i128, i128)> {
    let mut told: BTreeMap<String, (i128, i128)> = BTreeMap::new();
    for row in rows.iter().filter(|row| selects(row)) {
        let leaf = Some(unhex_pprof::CodeAddress::Link(row.stack));
        let sum = told.entry(format!("{leaf:?}")).or_default();
        let (count, period) = (i128::from(row.count), i128::from(row.period));
        *sum = (sum.0 + count, sum.1 + count * period);
    }
    told
}

fn is_within(row: &Row, from: Timestamp, to: Timestamp) -> bool {
    (from.as_microsecond()..to.as_microsecond()).contains(&row.micros)
}

/// Rows of three hours: (hour, minute, stack, service, version, count).
type Words = (i64, i64, u64, bool, bool, i64);

fn row_of((after, minute, stack, is_other, is_new, count): Words) -> Row {
    let service = if is_other { "payment" } else { "checkout" };
    Row {
        version: if is_new { "2.4" } else { "2.3" }.to_owned(),
        count,
        // Not on the minute, which compaction rounds down to.
        ..row(service, stack, (later(after), minute * 60 + 17))
    }
}

/// Puts the rows as segments of their hours.
async fn appended(asked: &Asked, segments: &[Vec<Words>]) -> Vec<Row> {
    let mut all = Vec::new();
    for (number, words) in (0_u8..).zip(segments) {
        let rows: Vec<Row> = words.iter().map(|words| row_of(*words)).collect();
        for after in 0..3_u8 {
            let [start, end] = [after, after + 1].map(|after| later(after.into()).start());
            let of_hour = rows.iter().filter(|row| is_within(row, start, end));
            let of_hour: Vec<Row> = of_hour.cloned().collect();
            if !of_hour.is_empty() {
                asked.append(number * 3 + after, &of_hour).await;
            }
        }
        all.extend(rows);
    }
    all
}

async fn answers_of_a_naive_fold(
    segments: &[Vec<Words>],
    (start, length): (i64, i64),
    (compacted, selector): (Vec<i64>, usize),
) -> Result<(), TestCaseError> {
    let asked = Asked::at(minute(600)).await;
    let all = appended(&asked, segments).await;
    let (from, to) = (minute(start), minute(start + length));
    let selectors = [
        "{}",
        r#"{service="checkout"}"#,
        r#"{version=~".*4",service!="x"}"#,
    ];
    let expected = naive(&all, |row| {
        let is_meant = match selector {
            1 => row.service == "checkout",
            2 => row.version == "2.4",
            _ => true,
        };
        is_meant && is_within(row, from, to)
    });
    let question = question(selectors[selector], from, to);
    let (maintenance, _spill) = replica(&asked.objects, &asked.now, at_once());
    let ask = async || {
        let everything = StackFilter::default();
        told(&asked.queries.profile(&question, &everything).await.unwrap())
    };
    prop_assert_eq!(ask().await, expected.clone());
    // Questions while hours are compacted, and again when they are.
    let compacting = tokio::spawn(async move {
        for after in compacted {
            maintenance.compact(later(after)).await.unwrap();
        }
    });
    while !compacting.is_finished() {
        prop_assert_eq!(ask().await, expected.clone());
    }
    compacting.await.unwrap();
    prop_assert_eq!(ask().await, expected);
    Ok(())
}

#[test]
fn totals_and_samples_together_are_a_naive_fold_also_in_the_midst_of_compaction() {
    let words = (
        0_i64..3,
        0_i64..60,
        0_u64..6,
        any::<bool>(),
        any::<bool>(),
        1_i64..9,
    );
    let segments = prop::collection::vec(prop::collection::vec(words, 1..20), 1..8);
    let window = (0_i64..180, 1_i64..180);
    let how = (prop::collection::vec(0_i64..3, 0..3), 0_usize..3);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut runner = TestRunner::new(ProptestConfig::with_cases(24));
    let outcome = runner.run(&(segments, window, how), |(segments, window, how)| {
        runtime.block_on(answers_of_a_naive_fold(&segments, window, how))
    });
    outcome.unwrap();
}

async fn a_day() -> (Asked, Vec<Row>) {
    let asked = Asked::at(minute(600)).await;
    let mut all = Vec::new();
    for after in 0..3 {
        let rows: Vec<Row> = (0..60)
            .map(|n| {
                row_of((
                    after,
                    n,
                    n.unsigned_abs() % 10,
                    n % 2 == 0,
                    n % 3 == 0,
                    n + 1,
                ))
            })
            .collect();
        asked.append(u8::try_from(after).unwrap(), &rows).await;
        all.extend(rows);
    }
    (asked, all)
}

fn sum<'r>(rows: impl IntoIterator<Item = &'r Row>) -> i128 {
    let values = rows.into_iter();
    values
        .map(|row| i128::from(row.count) * i128::from(row.period))
        .sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_format_has_the_total_that_went_in() {
    let (asked, all) = a_day().await;
    let total = sum(&all);
    asked.server.know(
        BUILD_ID,
        Known::found("1", Quality::Symtab, &[(1, &["one"])]),
    );
    let question = question("{}", minute(0), minute(180));
    let merged = asked
        .queries
        .profile(&question, &StackFilter::default())
        .await
        .unwrap();
    assert_eq!(merged.total().value, total);
    for tree in [Tree::whole(&merged), Tree::whole(&merged).cut_to(4)] {
        let graph = flame_graph(&tree, Told::default());
        assert_eq!(graph.total.value, total);
        assert_eq!(graph.nodes.own.iter().sum::<i128>(), total);
        let folded = FoldedLines::of(tree).map(|line| {
            let (_, value) = line.trim_end().rsplit_once(' ').unwrap();
            value.parse::<i128>().unwrap()
        });
        assert_eq!(folded.sum::<i128>(), total);
    }
    let listed = top(
        &merged,
        TopOptions {
            limit: 1_000,
            ..TopOptions::default()
        },
        Told::default(),
    );
    let own = listed.functions.iter().map(|function| function.own.value);
    assert_eq!((listed.total.value, own.sum::<i128>()), (total, total));
    let packed = pprof(&merged, &Heading::default()).unwrap();
    let unpacked = unhex_pprof::unpacked(&packed, &unhex_pprof::Limits::default()).unwrap();
    let model = unhex_pprof::pprof::decode(&unpacked, &unhex_pprof::Limits::default()).unwrap();
    let totals = model.totals(&model.profiles()[0]);
    assert!(totals.contains(&total), "{totals:?} {total}");
}

#[tokio::test(flavor = "multi_thread")]
async fn late_symbols_name_what_was_stored_before_and_better_ones_name_it_better() {
    let (asked, _) = a_day().await;
    let question = question(r#"{service="checkout"}"#, minute(0), minute(180));
    let names = async || {
        let merged = asked
            .queries
            .profile(&question, &StackFilter::default())
            .await
            .unwrap();
        let mut names: Vec<String> = merged
            .functions()
            .iter()
            .map(|f| f.name.to_string())
            .collect();
        names.sort();
        (names, merged.total())
    };
    let (before, total) = names().await;
    assert!(before.contains(&"checkout+0x1".to_owned()), "{before:?}");
    asked.server.know(
        BUILD_ID,
        Known::found("1", Quality::Symtab, &[(1, &["one"]), (3, &["three"])]),
    );
    let (named, same) = names().await;
    assert!(named.contains(&"one".to_owned()) && !named.contains(&"checkout+0x1".to_owned()));
    assert!(named.contains(&"checkout+0x5".to_owned()), "{named:?}");
    let better: &[(u64, &[&str])] = &[(1, &["inlined", "one"]), (3, &["three"]), (5, &["five"])];
    asked
        .server
        .know(BUILD_ID, Known::found("2", Quality::DwarfInlines, better));
    let (better, same_again) = names().await;
    assert!(better.contains(&"inlined".to_owned()) && better.contains(&"five".to_owned()));
    assert_eq!((same, same_again), (total, total));
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_nobody_could_give_are_said_to_be_lacking() {
    let (mut asked, all) = a_day().await;
    asked.server.go_away().await;
    let question = question("{}", minute(0), minute(180));
    let merged = asked
        .queries
        .profile(&question, &StackFilter::default())
        .await
        .unwrap();
    assert_eq!(merged.total().value, sum(&all));
    assert!(merged.names_lacking().is_some());
    asked.server.come_back().await;
    let merged = asked
        .queries
        .profile(&question, &StackFilter::default())
        .await
        .unwrap();
    assert_eq!(merged.names_lacking(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_are_of_labels_steps_and_functions() {
    let (asked, all) = a_day().await;
    asked.server.know(
        BUILD_ID,
        Known::found("1", Quality::Symtab, &[(4, &["four"])]),
    );
    let question = question("{}", minute(0), minute(180));
    for step_seconds in [60, 3_600, 7_200] {
        let by = LinesBy {
            labels: vec!["service".to_owned(), "version".to_owned()],
            step_seconds,
        };
        let lines = asked
            .queries
            .series(&question, &StackFilter::default(), &by)
            .await
            .unwrap();
        let total: i128 = lines.lines.iter().map(Line::total).sum();
        assert_eq!((lines.lines.len(), total), (4, sum(&all)), "{step_seconds}");
        let steps = lines.lines.iter().flat_map(|line| line.points.keys());
        assert!(
            steps
                .into_iter()
                .all(|second| second % i64::from(step_seconds) == 0)
        );
    }
    let filter = FilterTexts {
        function: Some("^four$"),
        ..FilterTexts::default()
    };
    let filter = StackFilter::new(filter).unwrap();
    let by = LinesBy {
        labels: Vec::new(),
        step_seconds: 3_600,
    };
    let lines = asked.queries.series(&question, &filter, &by).await.unwrap();
    let expected = sum(all.iter().filter(|row| row.stack == 4));
    assert_eq!(lines.lines.len(), 1);
    assert_eq!(lines.lines[0].total(), expected);
    assert_eq!(lines.lines[0].points.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_is_counted_also_in_stacks_that_the_newest_hour_has_not() {
    let asked = Asked::at(minute(600)).await;
    let names: &[(u64, &[&str])] = &[(2, &["two"]), (4, &["four"]), (5, &["four"])];
    asked
        .server
        .know(BUILD_ID, Known::found("1", Quality::Symtab, names));
    let row = |hours: i64, stack, count| Row {
        micros: minute(hours * 60 + 5).as_microsecond(),
        stack,
        ..row_of((0, 5, 1, false, false, count))
    };
    let old = [row(0, 2, 1), row(0, 4, 10), row(0, 5, 100)];
    let new = [row(3, 2, 1_000), row(3, 4, 10_000)];
    asked.append(1, &old).await;
    asked.append(2, &new).await;
    let question = question("{}", minute(0), minute(240));
    let by = LinesBy {
        labels: Vec::new(),
        step_seconds: 3_600,
    };
    for (function, counted) in [("^four$", 10_110), ("^two$", 1_001), ("^five$", 0)] {
        let filter = FilterTexts {
            function: Some(function),
            ..FilterTexts::default()
        };
        let filter = StackFilter::new(filter).unwrap();
        let lines = asked.queries.series(&question, &filter, &by).await.unwrap();
        let total: i128 = lines.lines.iter().map(Line::total).sum();
        assert_eq!(total, counted * i128::from(old[0].period), "{function}");
        assert_eq!(lines.names_lacking, None);
    }
}

fn labelled(host: &str) -> Arc<Series> {
    let labels = [
        ("deployment", "prod"),
        ("host", host),
        ("service", "checkout"),
        ("version", "2.3"),
    ];
    let labels = labels.map(|(name, value)| (name.into(), value.into()));
    Arc::new(Series::of_labels(labels.to_vec()).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn free_labels_select_and_group_by_the_dictionary_of_series() {
    let asked = Asked::at(minute(600)).await;
    let hosts = ["host-a", "host-b"].map(labelled);
    asked.series(hour(), &hosts).await;
    let of = |host: usize, count| Row {
        series: hosts[host].id().0,
        ..row_of((0, 5, 1, false, false, count))
    };
    let rows = [of(0, 3), of(1, 4), of(0, 5)];
    asked.append(1, &rows).await;
    let all = (minute(0), minute(60));
    let on_a = question(r#"{host="host-a"}"#, all.0, all.1);
    let merged = asked
        .queries
        .profile(&on_a, &StackFilter::default())
        .await
        .unwrap();
    assert_eq!(merged.total().count, 8);
    let by = LinesBy {
        labels: vec!["host".to_owned()],
        step_seconds: 3_600,
    };
    let of_both = question("{}", all.0, all.1);
    let everything = StackFilter::default();
    let lines = asked.queries.series(&of_both, &everything, &by);
    let lines = lines.await.unwrap().lines;
    let totals: Vec<_> = lines
        .iter()
        .map(|line| (line.labels[0].to_string(), line.total()))
        .collect();
    let period = i128::from(rows[0].period);
    assert_eq!(
        totals,
        [
            ("host-a".to_owned(), 8 * period),
            ("host-b".to_owned(), 4 * period)
        ]
    );
    let labels = asked.queries.labels(&on_a).await.unwrap();
    assert_eq!(labels.series, 1);
    assert_eq!(labels.values["host"].iter().collect::<Vec<_>>(), ["host-a"]);
    assert_eq!(asked.queries.types(&on_a).await.unwrap(), ["cpu"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_label_set_that_came_after_the_listing_is_found_and_one_that_is_nowhere_is_said() {
    let asked = Asked::at(minute(600)).await;
    let hosts = ["host-a", "host-b", "host-c"].map(labelled);
    let of = |host: usize, count| Row {
        series: hosts[host].id().0,
        ..row_of((0, 5, 1, false, false, count))
    };
    let by = LinesBy {
        labels: vec!["host".to_owned()],
        step_seconds: 3_600,
    };
    let everything = StackFilter::default();
    let all = question("{}", minute(0), minute(60));
    let told = async || {
        let lines = asked.queries.series(&all, &everything, &by).await;
        let lines = lines.unwrap().lines;
        let labels = lines.iter().map(|line| line.labels[0].to_string());
        labels.collect::<BTreeSet<String>>()
    };
    asked.series(hour(), &hosts[..1]).await;
    asked.append(1, &[of(0, 3)]).await;
    assert_eq!(told().await, ["host-a".to_owned()].into());
    asked.series(hour(), &hosts[1..2]).await;
    asked.append(2, &[of(1, 4), of(2, 5)]).await;
    // Which files the hour has is listed anew; which label sets it has was listed a moment ago.
    asked.now.pass(1);
    let expected = ["host-a", "host-b", "[label set not found]"];
    assert_eq!(told().await, expected.map(str::to_owned).into());
}

#[tokio::test(flavor = "multi_thread")]
async fn coverage_adds_up_and_says_what_is_missing_of_which_binary() {
    let (asked, all) = a_day().await;
    asked.server.know(
        BUILD_ID,
        Known::found("1", Quality::DwarfLines, &[(1, &["one"])]),
    );
    let by = CoverageBy {
        labels: [true, false, false],
        binary: true,
    };
    let question = question("{}", minute(0), minute(180));
    let coverage = asked
        .queries
        .coverage(&question, by, Some(3_600))
        .await
        .unwrap();
    let own: i128 = coverage.rows.iter().map(|row| row.own.value).sum();
    assert_eq!((own, coverage.total.value), (sum(&all), sum(&all)));
    let of = |outcome| {
        let rows = coverage
            .rows
            .iter()
            .filter(|row| row.class.outcome == outcome);
        rows.map(|row| row.weight.value).sum::<i128>()
    };
    let stacks = |stack: u64| sum(all.iter().filter(|row| row.stack == stack));
    assert_eq!(of(Outcome::MissingUnwinder), stacks(7));
    assert_eq!(of(Outcome::Truncated), stacks(8));
    let named = coverage
        .rows
        .iter()
        .filter(|row| row.class.outcome == Outcome::Symbolized);
    let named: Vec<_> = named.collect();
    assert!(
        named
            .iter()
            .all(|row| row.class.quality == Some(Quality::DwarfLines))
    );
    assert_eq!(
        named.iter().map(|row| row.own.value).sum::<i128>(),
        stacks(1)
    );
    let steps: Vec<_> = coverage.rows.iter().filter_map(|row| row.step).collect();
    assert!(
        steps.contains(&hour().start().as_microsecond()),
        "{steps:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn of_hours_whose_samples_have_expired_whole_hours_are_answered_and_parts_refused() {
    let (asked, all) = a_day().await;
    let (maintenance, _spill) = replica(&asked.objects, &asked.now, at_once());
    maintenance.compact(hour()).await.unwrap();
    let kinds = BTreeSet::from([FileKind::Samples]);
    let only = HourRange::new(hour(), hour()).unwrap();
    maintenance
        .delete(only, &kinds, &RowSelector::Everything)
        .await
        .unwrap();
    let whole = question("{}", minute(0), minute(180));
    let merged = asked
        .queries
        .profile(&whole, &StackFilter::default())
        .await
        .unwrap();
    assert_eq!(merged.total().value, sum(&all));
    let part = question("{}", minute(30), minute(180));
    let refused = asked.queries.profile(&part, &StackFilter::default()).await;
    assert!(
        matches!(refused, Err(QueryError::Expired { .. })),
        "{refused:?}"
    );
}
