//! Builds by the file names of their uploads.

use crate::stored::{PROGRAM, with_program};

#[tokio::test(flavor = "multi_thread")]
async fn builds_are_found_by_the_names_that_their_uploaders_gave() {
    let server = with_program().await;
    let id = PROGRAM.build_id();
    let ask = async |query: &str| server.get_raw(&format!("/metadata?{query}")).await;
    let found = ask("key=file&value=%2Fhome%2Fci%2Fprog.executable").await;
    assert_eq!(found.header("content-type"), Some("application/json"));
    let expected = format!(
        r#"{{"results":[{{"type":"executable","buildid":"{id}","file":"/home/ci/prog.executable"}}],"complete":true}}"#
    );
    assert_eq!(found.text(), expected);
    let both = ask("value=/home/*/prog.*&key=glob").await;
    assert_eq!(
        both.text().matches(id.as_str()).count(),
        2,
        "{}",
        both.text()
    );
    for none in [
        "key=glob&value=/home/*",
        "key=file&value=prog",
        "key=glob&value=",
    ] {
        let nothing = ask(none).await;
        assert_eq!(
            nothing.text(),
            r#"{"results":[],"complete":true}"#,
            "{none}"
        );
    }
    for wrong in [
        "",
        "key=file",
        "key=x&value=y",
        "value=y",
        "key=file&value=%ff",
    ] {
        let refused = ask(wrong).await;
        assert_eq!(
            (refused.status, refused.header("content-type")),
            (400, Some("text/plain"))
        );
    }
}
