//! What to do about each row of the coverage.

use crate::answers::{CoverageAnswer, CoverageRow, Outcome};
use crate::cli::amounts::{and_more, seconds, share_in_percent};
use crate::cli::table::Table;

/// Which rows are listed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Listed {
    /// The least share, 0 to 1.
    pub(super) share_min: f64,
    /// Rows that nothing is to be done about, too.
    pub(super) is_all: bool,
}

/// The answer for people: how much is whole, and a table of what to do.
pub(super) fn text(answer: &CoverageAnswer, listed: Listed) -> String {
    if answer.total_seconds <= 0.0 {
        return "no CPU time in this window\n".to_owned();
    }
    let whole = share_in_percent(answer.whole_seconds / answer.total_seconds);
    let total = seconds(answer.total_seconds);
    let mut text = format!("{whole} of {total} CPU time have all their names\n");
    let mut rows: Vec<&CoverageRow> = answer.rows.iter().collect();
    rows.retain(|row| {
        let is_listed = listed.is_all || !row.outcome.is_whole();
        is_listed && row.share >= listed.share_min
    });
    rows.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    if rows.is_empty() {
        return text;
    }
    let mut table = Table::new(&[
        ">SHARE",
        ">CPU TIME",
        "WHY",
        "SERVICE",
        "VERSION",
        "DEPLOYMENT",
        "WHERE",
        "WHAT TO DO",
    ]);
    for row in rows {
        table.row(vec![
            share_in_percent(row.share),
            seconds(row.seconds),
            why(row.outcome).to_owned(),
            row.service.clone(),
            row.version.clone(),
            row.deployment.clone(),
            place(row),
            what_to_do(row),
        ]);
    }
    text.push('\n');
    text.push_str(&table.to_string());
    text.push_str(&and_more(answer.left_out, " rows"));
    text
}

fn why(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Symbolized => "has its names",
        Outcome::Named => "came with names",
        Outcome::UnknownBuildId => "unknown build ID",
        Outcome::NoDebugInfo => "no debug info",
        Outcome::NoFunction => "no function",
        Outcome::Unusable => "unusable debug file",
        Outcome::Pending => "being converted",
        Outcome::Unavailable => "no answer",
        Outcome::NoIdentity => "no build ID",
        Outcome::MissingUnwinder => "missing unwinder",
        Outcome::Truncated => "truncated",
        Outcome::Kernel => "kernel",
        Outcome::Vdso => "vdso",
        Outcome::Unplaced => "no file",
    }
}

/// The binary with the beginning of its build ID, or the runtime or reason.
fn place(row: &CoverageRow) -> String {
    match row.outcome {
        Outcome::MissingUnwinder | Outcome::Truncated => row.detail.clone(),
        Outcome::Symbolized => {
            let quality = row
                .quality
                .map(|quality| format!(" ({})", quality.as_str()));
            format!("{}{}", binary(row), quality.unwrap_or_default())
        }
        _ => binary(row),
    }
}

/// Digits of a build ID in the table; the whole is in what to do.
const ID_DIGITS: usize = 8;

fn binary(row: &CoverageRow) -> String {
    let name = row.binary.rsplit('/').next().unwrap_or_default();
    match &row.build_id {
        Some(id) if id.chars().count() > ID_DIGITS => {
            let start: String = id.chars().take(ID_DIGITS).collect();
            format!("{name} {start}…").trim_start().to_owned()
        }
        Some(id) => format!("{name} {id}").trim_start().to_owned(),
        None => name.to_owned(),
    }
}

fn what_to_do(row: &CoverageRow) -> String {
    let id = match &row.build_id {
        Some(id) => format!(" (build ID {id})"),
        None => String::new(),
    };
    let status = match &row.build_id {
        Some(id) => format!("unhex status {id}"),
        None => "unhex status".to_owned(),
    };
    let because = |text: &str| {
        if row.detail.is_empty() {
            text.to_owned()
        } else {
            format!("{}: {text}", row.detail)
        }
    };
    match row.outcome {
        Outcome::UnknownBuildId => format!("upload its debug file: unhex upload FILE{id}"),
        Outcome::NoDebugInfo => format!("upload the unstripped file: unhex upload FILE{id}"),
        Outcome::NoFunction => format!("see whether its debug file is complete: {status}"),
        Outcome::Unusable => because(&format!("upload a sound debug file: unhex upload FILE{id}")),
        Outcome::Pending => "wait a moment".to_owned(),
        Outcome::Unavailable => because("see whether the symbol server is well: unhex status"),
        Outcome::NoIdentity => "build it with -Wl,--build-id".to_owned(),
        Outcome::MissingUnwinder => unwinder(&row.detail),
        Outcome::Truncated => truncated(&row.detail),
        Outcome::Symbolized
        | Outcome::Named
        | Outcome::Kernel
        | Outcome::Vdso
        | Outcome::Unplaced => "nothing".to_owned(),
    }
}

/// The words by which the OpenTelemetry eBPF profiler (`-tracers`) calls its unwinders, by the names that runtimes have in profiles.
const TRACERS: [(&[&str], &str); 8] = [
    (&["python", "cpython"], "python"),
    (&["java", "jvm"], "hotspot"),
    (&["ruby"], "ruby"),
    (&["node", "nodejs", "v8js"], "v8"),
    (&["php"], "php"),
    (&["perl"], "perl"),
    (&["dotnet"], "dotnet"),
    (&["beam", "erlang"], "beam"),
];

fn unwinder(runtime: &str) -> String {
    let found = TRACERS.iter().find(|(names, _)| names.contains(&runtime));
    match found {
        Some((_, tracer)) => format!(
            "turn on the profiler's unwinder (OpenTelemetry's eBPF profiler: -tracers=...,{tracer})"
        ),
        None => format!("use a profiler that can unwind {runtime}"),
    }
}

fn truncated(reason: &str) -> String {
    let reason = reason.to_lowercase();
    let has = |word: &str| reason.contains(word);
    if has("depth") || has("too long") || has("too many") {
        return "raise the profiler's limit on the depth of stacks".to_owned();
    }
    "build with frame pointers or keep .eh_frame, so that the profiler can unwind".to_owned()
}

#[cfg(test)]
mod tests {
    use unhex_api::quality::Quality;

    use super::*;

    fn row(outcome: Outcome, share: f64) -> CoverageRow {
        CoverageRow {
            service: "checkout".to_owned(),
            version: "2.4".to_owned(),
            deployment: "prod".to_owned(),
            time: None,
            binary: String::new(),
            build_id: None,
            id_kind: None,
            outcome,
            quality: None,
            detail: String::new(),
            seconds: share * 100.0,
            self_seconds: 0.0,
            share,
        }
    }

    fn of_binary(outcome: Outcome, share: f64) -> CoverageRow {
        CoverageRow {
            binary: "/usr/lib/libfoo.so".to_owned(),
            build_id: Some("9a0f12345678".to_owned()),
            ..row(outcome, share)
        }
    }

    fn answer(rows: Vec<CoverageRow>) -> CoverageAnswer {
        CoverageAnswer {
            total_seconds: 100.0,
            whole_seconds: 61.5,
            rows,
            ..CoverageAnswer::default()
        }
    }

    #[test]
    fn the_table_says_what_to_do_by_cpu_share() {
        let python = CoverageRow {
            detail: "python".to_owned(),
            ..row(Outcome::MissingUnwinder, 0.2)
        };
        let deep = CoverageRow {
            detail: "[truncated: max depth]".to_owned(),
            ..row(Outcome::Truncated, 0.05)
        };
        let rows = vec![
            of_binary(Outcome::UnknownBuildId, 0.123),
            python,
            deep,
            of_binary(Outcome::Symbolized, 0.9),
            row(Outcome::Vdso, 0.3),
            row(Outcome::Unplaced, 0.3),
            row(Outcome::Kernel, 0.3),
            of_binary(Outcome::NoFunction, 0.000_5),
        ];
        let listed = Listed {
            share_min: 0.001,
            is_all: false,
        };
        let text = text(&answer(rows), listed);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "61.5 % of 100.000 s CPU time have all their names"
        );
        assert_eq!(lines.len(), 6, "{text}");
        assert!(
            lines[3].contains("missing unwinder") && lines[3].ends_with("-tracers=...,python)")
        );
        assert!(
            lines[4].starts_with("12.3 %  12.300 s  unknown build ID  checkout  2.4"),
            "{text}"
        );
        assert!(lines[4].contains("libfoo.so 9a0f1234…"), "{text}");
        let upload = "upload its debug file: unhex upload FILE (build ID 9a0f12345678)";
        assert!(lines[4].ends_with(upload), "{text}");
        assert!(lines[5].contains("raise the profiler's limit"), "{text}");
    }

    #[test]
    fn every_outcome_has_its_words() {
        let listed = Listed {
            share_min: 0.0,
            is_all: true,
        };
        for (outcome, expected) in [
            (Outcome::NoDebugInfo, "upload the unstripped file"),
            (Outcome::NoFunction, "unhex status 9a0f12345678"),
            (Outcome::Unusable, "damaged: upload a sound debug file"),
            (Outcome::Pending, "wait"),
            (
                Outcome::Unavailable,
                "damaged: see whether the symbol server is well",
            ),
            (Outcome::NoIdentity, "--build-id"),
            (
                Outcome::MissingUnwinder,
                "use a profiler that can unwind damaged",
            ),
            (Outcome::Truncated, "frame pointers"),
            (Outcome::Kernel, "nothing"),
        ] {
            let row = CoverageRow {
                detail: "damaged".to_owned(),
                ..of_binary(outcome, 0.5)
            };
            let text = text(&answer(vec![row]), listed);
            assert!(text.contains(expected), "{outcome:?}: {text}");
        }
        let symbolized = CoverageRow {
            quality: Some(Quality::DwarfLines),
            ..of_binary(Outcome::Symbolized, 0.5)
        };
        assert!(text(&answer(vec![symbolized]), listed).contains("(dwarf_lines)"));
        let none = CoverageAnswer::default();
        assert_eq!(text(&none, listed), "no CPU time in this window\n");
    }
}
