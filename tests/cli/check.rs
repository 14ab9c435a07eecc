//! `unhex check` and `unhex status`: before and after the upload.

use unhex_testkit::fixture::Program;

use crate::command::{BUILD_ID, Workplace, code, program};

#[test]
fn a_deployment_without_symbols_fails_until_they_are_uploaded() {
    let workplace = Workplace::with_server();
    workplace.put("app", program().stripped());
    let finished = workplace.unhex(&["check", "app"]);
    insta::assert_snapshot!(finished.text(), @r"
    STATUS   BUILD ID                                  QUALITY  FILE
    unknown  c11c11c11c11c11c11c11c11c11c11c11c11c11c  -        app
    app: the store knows nothing of this build; unhex upload it, with its debug file
    1 of 1 cannot be symbolized.
    ");
    assert_eq!(code(&finished), 1);

    assert_eq!(code(&workplace.unhex(&["upload", "app"])), 0);
    let (status, answer) = workplace.json(&["check", "app"]);
    assert_eq!(status, 1, "{answer:#}");
    assert_eq!(answer["files"][0]["status"], "no_debug_info", "{answer:#}");

    workplace.put("app.debug", program().debug_only());
    assert_eq!(code(&workplace.unhex(&["upload", "app.debug"])), 0);
    let finished = workplace.unhex(&["check", "--min-quality", "dwarf_inlines", "app"]);
    insta::assert_snapshot!(finished.text(), @r"
    STATUS  BUILD ID                                  QUALITY        FILE
    found   c11c11c11c11c11c11c11c11c11c11c11c11c11c  dwarf_inlines  app
    All 1 can be symbolized.
    ");
    assert_eq!(code(&finished), 0);
}

#[test]
fn names_without_lines_are_enough_unless_lines_are_demanded() {
    let workplace = Workplace::with_server();
    let program = Program::c("int main(void) { return 0; }")
        .flags(&["-g0"])
        .build_id(BUILD_ID)
        .build();
    workplace.put("app", program.path());
    assert_eq!(code(&workplace.unhex(&["upload", "app"])), 0);
    assert_eq!(code(&workplace.unhex(&["check", "app"])), 0);
    let (status, answer) = workplace.json(&["check", "--min-quality", "dwarf_lines", "app"]);
    assert_eq!(status, 1, "{answer:#}");
    assert_eq!(answer["files"][0]["status"], "below_minimum", "{answer:#}");
    assert_eq!(answer["ok"], false);
}

#[test]
fn what_cannot_be_asked_for_fails_the_check() {
    let workplace = Workplace::with_server();
    let program = Program::c("int main(void) { return 0; }")
        .without_build_id()
        .build();
    workplace.put("app", program.path());
    let (status, answer) = workplace.json(&["check", "app", "missing"]);
    assert_eq!(status, 1, "{answer:#}");
    assert_eq!(answer["files"][0]["status"], "no_build_id", "{answer:#}");
    assert_eq!(answer["files"][1]["status"], "unreadable", "{answer:#}");
}

#[test]
fn status_tells_of_the_server_and_of_a_build_id() {
    let workplace = Workplace::with_server();
    let finished = workplace.unhex(&["status"]);
    let url = workplace.server().url("");
    assert_eq!(
        (finished.text(), code(&finished)),
        (format!("{url} is ready\n"), 0)
    );
    let finished = workplace.unhex(&["status", BUILD_ID]);
    assert_eq!(code(&finished), 1);
    assert!(
        finished.text().contains("is unknown to"),
        "{}",
        finished.all()
    );

    let app = workplace.put("app", program().path());
    assert_eq!(code(&workplace.unhex(&["upload", "app"])), 0);
    let finished = workplace.unhex(&["status", app.to_str().unwrap()]);
    assert_eq!(code(&finished), 0, "{}", finished.all());
    let text = finished.text();
    let has = |line: &str| text.lines().any(|found| found.starts_with(line));
    assert!(
        has("quality    dwarf_inlines") && has("index      ready, "),
        "{text}"
    );
    assert!(has("executable+debuginfo  dwarf_inlines"), "{text}");
    let finished = workplace.unhex(&["status", "nothing-of-this-name"]);
    assert_eq!(code(&finished), 2);
    assert!(
        finished.stderr.contains("neither a build ID nor a file"),
        "{}",
        finished.stderr
    );
}
