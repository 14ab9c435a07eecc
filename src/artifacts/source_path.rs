//! The one form in which paths of source files are compared: by whoever bundles them and by whoever
//! asks for one, so that both mean the same file.

/// The form in which source paths are compared: RFC 3986 §5.2.4, where several `/` count as one, so
/// that `..` takes the folder before them. `None` when the path is not absolute or has a NUL.
pub fn canonical_source_path(path: &str) -> Option<String> {
    let relative = path.strip_prefix('/')?;
    if relative.contains('\0') {
        return None;
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in relative.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let names_folder = matches!(relative.rsplit('/').next(), Some("" | "." | ".."));
    let mut canonical = String::with_capacity(path.len());
    for part in &parts {
        canonical.push('/');
        canonical.push_str(part);
    }
    if names_folder || parts.is_empty() {
        canonical.push('/');
    }
    Some(canonical)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn paths_are_canonicalised_as_debuginfod_does() {
        for (path, canonical) in [
            ("/a//b", "/a/b"),
            ("//p", "/p"),
            ("/a/./b", "/a/b"),
            ("/a/x/../b", "/a/b"),
            ("/../../b", "/b"),
            ("/a//../b", "/b"),
            ("/a/foobar///./../b", "/a/b"),
            ("/a/b/..", "/a/"),
            ("/a/", "/a/"),
            ("/", "/"),
        ] {
            assert_eq!(
                canonical_source_path(path).as_deref(),
                Some(canonical),
                "{path}"
            );
        }
        assert_eq!(canonical_source_path("a/b"), None);
        assert_eq!(canonical_source_path("/a\0b"), None);
    }

    proptest! {
        #[test]
        fn a_canonical_path_is_its_own_canonical_form(path in "/[a./ü]{0,24}") {
            let canonical = canonical_source_path(&path).unwrap();
            let again = canonical_source_path(&canonical);
            prop_assert_eq!(again.as_deref(), Some(canonical.as_str()));
            let mut parts = canonical.split('/').skip(1);
            prop_assert!(parts.all(|part| part != "." && part != ".."), "{}", canonical);
            prop_assert!(!canonical.contains("//"), "{}", canonical);
        }
    }
}
