//! Answers as tables for people.

use crate::answers::{
    Amount, FilesOfHour, LabelNamesAnswer, LabelValuesAnswer, Lacking, SegmentsAnswer,
    SeriesAnswer, TopAnswer,
};
use crate::cli::amounts::{and_more, percent, shown};
use crate::cli::table::Table;

pub(super) fn label_names(answer: &LabelNamesAnswer) -> String {
    let mut table = Table::new(&["LABEL", ">VALUES"]);
    for label in &answer.labels {
        table.row(vec![label.name.clone(), label.values.to_string()]);
    }
    let types = answer.types.join(", ");
    format!("{} series; types: {types}\n\n{table}", answer.series)
}

pub(super) fn label_values(answer: &LabelValuesAnswer) -> String {
    let mut lines: String = answer
        .values
        .iter()
        .map(|value| {
            if value.is_empty() {
                "\"\"\n".to_owned()
            } else {
                format!("{value}\n")
            }
        })
        .collect();
    lines.push_str(&and_more(answer.left_out, ""));
    lines
}

pub(super) fn series(answer: &SeriesAnswer) -> String {
    let unit = format!(">{}", answer.unit.to_uppercase());
    let mut headings = vec!["TIME"];
    let names: Vec<String> = answer
        .group_by
        .iter()
        .map(|name| name.to_uppercase())
        .collect();
    headings.extend(names.iter().map(String::as_str));
    headings.push(&unit);
    let mut table = Table::new(&headings);
    for line in &answer.lines {
        for (time, value) in &line.points {
            let moment = jiff::Timestamp::from_second(*time);
            let mut row = vec![moment.map_or_else(|_| time.to_string(), |of| of.to_string())];
            let label = |name| line.labels.get(name).cloned().unwrap_or_default();
            row.extend(answer.group_by.iter().map(label));
            row.push(format!("{value:.3}"));
            table.row(row);
        }
    }
    let mut text = table.to_string();
    text.push_str(&and_more(answer.left_out, " lines"));
    with_lacking(text, answer.names_lacking.as_ref())
}

pub(super) fn top(answer: &TopAnswer) -> String {
    let of = |amount: Amount| percent(amount.value, answer.total.value);
    let mut table = Table::new(&[">SELF", ">", ">TOTAL", ">", "FUNCTION", "BINARY", "FILE"]);
    for function in &answer.functions {
        table.row(vec![
            shown(function.own.value, &answer.unit),
            of(function.own),
            shown(function.total.value, &answer.unit),
            of(function.total),
            function.function.clone(),
            function.binary.clone(),
            function.file.clone(),
        ]);
    }
    let total = shown(answer.total.value, &answer.unit);
    let mut text = format!("{total} in {} samples\n\n{table}", answer.total.count);
    text.push_str(&and_more(answer.left_out, ""));
    with_lacking(text, answer.names_lacking.as_ref())
}

fn with_lacking(text: String, lacking: Option<&Lacking>) -> String {
    match lacking {
        Some(Lacking { frames, detail }) => {
            format!("{text}{frames} frames have no names now: {detail}\n")
        }
        None => text,
    }
}

pub(super) fn segments(answer: &SegmentsAnswer) -> String {
    let mut table = Table::new(&[
        "HOUR",
        ">FRESH",
        ">ROWS",
        ">BYTES",
        ">SAMPLES",
        ">ROWS",
        ">BYTES",
        ">TOTALS",
        ">ROWS",
        ">BYTES",
        ">DICTIONARY",
        ">BYTES",
        ">DELETIONS",
        "PROBLEM",
    ]);
    for hour in &answer.hours {
        let mut row = vec![hour.hour.clone()];
        for FilesOfHour { files, rows, bytes } in [hour.fresh, hour.samples, hour.totals] {
            row.extend([files, rows, bytes].map(|number| number.to_string()));
        }
        row.extend([
            hour.dictionary.files.to_string(),
            hour.dictionary.bytes.to_string(),
            hour.deletions.to_string(),
            hour.problem.clone().unwrap_or_default(),
        ]);
        table.row(row);
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::{LabelName, SegmentHour, SeriesLine, TopFunction};

    #[test]
    fn the_top_functions_are_a_table_with_shares() {
        let amount = |value| Amount { count: 1, value };
        let function = |name: &str, own, total| TopFunction {
            function: name.to_owned(),
            binary: "checkout".to_owned(),
            own: amount(own),
            total: amount(total),
            ..TopFunction::default()
        };
        let answer = TopAnswer {
            unit: "nanoseconds".to_owned(),
            total: Amount {
                count: 20,
                value: 2_000_000_000,
            },
            functions: vec![
                function("hash", 1_500_000_000, 1_500_000_000),
                function("main", 0, 2_000_000_000),
            ],
            left_out: 3,
            ..TopAnswer::default()
        };
        assert_eq!(
            top(&answer),
            "2.000 s in 20 samples\n\n\
             \x20  SELF            TOTAL           FUNCTION  BINARY    FILE\n\
             1.500 s  75.0 %  1.500 s   75.0 %  hash      checkout\n\
             0.000 s   0.0 %  2.000 s  100.0 %  main      checkout\n\
             and 3 more\n"
        );
    }

    #[test]
    fn labels_lines_and_hours_are_tables() {
        let names = LabelNamesAnswer {
            types: vec!["cpu".to_owned()],
            series: 2,
            labels: vec![LabelName {
                name: "service".to_owned(),
                values: 2,
            }],
            ..LabelNamesAnswer::default()
        };
        let expected = "2 series; types: cpu\n\nLABEL    VALUES\nservice       2\n";
        assert_eq!(label_names(&names), expected);
        let values = LabelValuesAnswer {
            values: vec![String::new(), "a".to_owned()],
            left_out: 1,
            ..LabelValuesAnswer::default()
        };
        assert_eq!(label_values(&values), "\"\"\na\nand 1 more\n");
        let lines = SeriesAnswer {
            unit: "seconds".to_owned(),
            group_by: vec!["service".to_owned()],
            lines: vec![SeriesLine {
                labels: [("service".to_owned(), "a".to_owned())].into(),
                total: 1.5,
                points: vec![(60, 1.5)],
            }],
            ..SeriesAnswer::default()
        };
        assert_eq!(
            series(&lines),
            "TIME                  SERVICE  SECONDS\n1970-01-01T00:01:00Z  a          1.500\n"
        );
        let hours = SegmentsAnswer {
            hours: vec![SegmentHour {
                hour: "2026-12-01/13".to_owned(),
                fresh: FilesOfHour {
                    files: 2,
                    rows: 30,
                    bytes: 400,
                },
                ..SegmentHour::default()
            }],
            ..SegmentsAnswer::default()
        };
        let text = segments(&hours);
        let row: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(row[..4], ["2026-12-01/13", "2", "30", "400"]);
    }
}
