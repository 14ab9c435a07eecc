//! The files of the repository that rules apply to.

use std::path::Path;

use unhex_testkit::repository::root;
use walkdir::WalkDir;

/// A text file and its path from the root.
#[derive(Clone, Debug)]
pub(crate) struct TextFile {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl TextFile {
    /// Whether the name ends so, after the dot.
    pub(crate) fn has_extension(&self, extension: &str) -> bool {
        Path::new(&self.path)
            .extension()
            .is_some_and(|own| own == extension)
    }
}

/// Every Rust source of the workspace.
pub(crate) fn rust_files() -> Vec<TextFile> {
    let mut files = text_files();
    files.retain(|file| file.has_extension("rs"));
    files
}

/// Every text that people write here: sources, documents, manifests, scripts.
pub(crate) fn text_files() -> Vec<TextFile> {
    let mut files = Vec::new();
    let entries = WalkDir::new(root()).sort_by_file_name().into_iter();
    for entry in entries.filter_entry(|entry| !is_made_by_tools(entry.path())) {
        let entry = entry.expect("the repository can be read");
        if entry.file_type().is_file() && is_text(entry.path()) {
            let path = entry.path().strip_prefix(root()).expect("below the root");
            let text = std::fs::read_to_string(entry.path()).expect("UTF-8");
            files.push(TextFile {
                path: path.to_string_lossy().into_owned(),
                text,
            });
        }
    }
    assert!(
        files.len() > 20,
        "only {} files below {}",
        files.len(),
        root().display()
    );
    files
}

fn is_made_by_tools(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let below_root = path != root();
    below_root && matches!(name.as_ref(), "target" | ".git" | "unhex-data")
}

fn is_text(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    let known = matches!(
        extension,
        Some("rs" | "md" | "toml" | "yaml" | "yml" | "sh" | "py")
    );
    known || path.ends_with(".ci/run")
}
