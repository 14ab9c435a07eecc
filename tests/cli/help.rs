//! What `--help` teaches; a change shows in review.

use unhex_testkit::run::finish;

use crate::command::{Workplace, code};

#[test]
fn each_command_explains_itself_with_an_example() {
    let workplace = Workplace::alone();
    for command in ["upload", "check", "symbolize", "status"] {
        let finished = finish(
            workplace
                .command(&[command, "--help"])
                .env_remove("UNHEX_SERVER"),
        );
        assert_eq!(code(&finished), 0);
        assert!(
            finished.text().contains("Examples:\n  unhex"),
            "{}",
            finished.text()
        );
        insta::assert_snapshot!(command, finished.text());
    }
}

#[test]
fn wrong_arguments_end_with_2_and_a_hint() {
    let workplace = Workplace::alone();
    for arguments in [
        &["upload"][..],
        &["symbolize", "0x1"],
        &["check", "--min-quality", "good", "x"],
    ] {
        let finished = workplace.unhex(arguments);
        assert_eq!(code(&finished), 2, "{}", finished.all());
        assert!(finished.stderr.contains("--help"), "{}", finished.stderr);
    }
}
