//! What `unhex upload` prints: a line per file as it is done, a bar on a terminal, the counts at the end; or one JSON document.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::Arc;

use indicatif::{HumanBytes, MultiProgress, ProgressBar, ProgressStyle};
use serde::Serialize;
use unhex_api::artifacts::IndexState;
use unhex_api::client::{BodyProgress, ProgressFn};

use super::outcome::{Item, Status, Summary};

/// What is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputMode {
    /// Lines for people.
    Lines,
    /// Only what went wrong.
    Quiet,
    /// One JSON document at the end.
    Json,
}

/// Prints as it goes, and keeps all items for the end.
#[derive(Debug)]
pub(super) struct Report {
    mode: OutputMode,
    bars: Option<MultiProgress>,
    items: Vec<Item>,
    summary: Summary,
}

/// Makes progress bars, away from the report, in the tasks that send.
#[derive(Clone, Debug)]
pub(super) struct Bars(Option<MultiProgress>);

/// One file on its way; the bar goes away with it.
#[derive(Debug)]
pub(super) struct Transfer(Option<(MultiProgress, ProgressBar)>);

#[derive(Serialize)]
struct Document<'a> {
    files: &'a [Item],
    summary: Summary,
}

impl Report {
    /// A report; bars are drawn only where stderr is a terminal.
    pub(super) fn new(mode: OutputMode) -> Self {
        let has_bars = mode == OutputMode::Lines && io::stderr().is_terminal();
        Self {
            mode,
            bars: has_bars.then(MultiProgress::new),
            items: Vec::new(),
            summary: Summary::default(),
        }
    }

    /// The maker of bars.
    pub(super) fn bars(&self) -> Bars {
        Bars(self.bars.clone())
    }

    /// Prints what became of a file.
    ///
    /// # Errors
    /// If stdout is closed.
    pub(super) fn item(&mut self, item: Item) -> io::Result<()> {
        self.summary.add(&item);
        let is_shown = match self.mode {
            OutputMode::Lines => item.status != Status::Skipped,
            OutputMode::Quiet => item.status.is_failure(),
            OutputMode::Json => false,
        };
        if is_shown {
            self.line(&line(&item))?;
        }
        self.items.push(item);
        Ok(())
    }

    /// The items so far, for what is learnt of them later.
    pub(super) fn items_mut(&mut self) -> &mut [Item] {
        &mut self.items
    }

    /// Prints what is learnt after the line of a file was printed.
    ///
    /// # Errors
    /// If stdout is closed.
    pub(super) fn warnings(&self) -> io::Result<()> {
        if self.mode == OutputMode::Json {
            return Ok(());
        }
        for item in &self.items {
            if let (Some(warning), Some(build_id)) = (&item.warning, &item.build_id) {
                self.line(&format!("warning: {build_id} {}: {warning}", item.path))?;
            }
        }
        Ok(())
    }

    /// Prints the counts, or the JSON document, and says whether all is in the store.
    ///
    /// # Errors
    /// If stdout is closed.
    pub(super) fn finish(self) -> io::Result<bool> {
        match self.mode {
            OutputMode::Lines => self.line(&self.summary_line())?,
            OutputMode::Quiet => {}
            OutputMode::Json => {
                let document = Document {
                    files: &self.items,
                    summary: self.summary,
                };
                self.line(&serde_json::to_string_pretty(&document)?)?;
            }
        }
        Ok(self.summary.is_success())
    }

    /// Clears the terminal of bars, before an error ends the command.
    ///
    /// # Errors
    /// If stderr is closed.
    pub(super) fn abandon(&self) -> io::Result<()> {
        self.bars.as_ref().map_or(Ok(()), MultiProgress::clear)
    }

    fn summary_line(&self) -> String {
        let summary = &self.summary;
        let mut parts = Vec::new();
        if summary.would_upload > 0 {
            parts.push(format!("{} would be uploaded", summary.would_upload));
        } else {
            let sent = HumanBytes(summary.sent_bytes);
            parts.push(format!("{} uploaded ({sent} sent)", summary.uploaded));
            parts.push(format!("{} already there", summary.already_there));
        }
        let failures = [
            (summary.refused, "refused"),
            (summary.failed, "failed"),
            (summary.no_build_id, "without build ID"),
            (summary.skipped, "skipped"),
        ];
        for (count, word) in failures {
            if count > 0 {
                parts.push(format!("{count} {word}"));
            }
        }
        parts.join(", ")
    }

    fn line(&self, text: &str) -> io::Result<()> {
        let print = || writeln!(io::stdout().lock(), "{text}");
        match &self.bars {
            Some(bars) => bars.suspend(print),
            None => print(),
        }
    }
}

/// One line on one file: what became of it, its build ID, its name, and why.
fn line(item: &Item) -> String {
    let mut parts = vec![format!("{:<13}", item.status.word())];
    parts.extend(item.build_id.clone());
    if !item.kinds.is_empty() {
        parts.push(item.kinds.join("+"));
    }
    parts.push(item.path.to_string());
    let mut notes = Vec::new();
    if item.sent_bytes > 0 {
        notes.push(HumanBytes(item.sent_bytes).to_string());
    }
    if let Some(quality) = item.quality {
        notes.push(quality.as_str().to_owned());
    }
    if item.index == Some(IndexState::Converting) {
        notes.push("being converted".to_owned());
    }
    if !notes.is_empty() {
        parts.push(format!("({})", notes.join(", ")));
    }
    let line = parts.join("  ");
    match &item.detail {
        Some(detail) => format!("{line}: {detail}"),
        None => line,
    }
}

impl Bars {
    /// A bar for one file of so many bytes.
    pub(super) fn transfer(&self, name: &str, size_bytes: u64) -> Transfer {
        let Some(bars) = &self.0 else {
            return Transfer(None);
        };
        let template = "{bar:24} {percent:>3} %  {decimal_bytes_per_sec:>12}  {wide_msg}";
        let style = ProgressStyle::with_template(template)
            .unwrap_or_else(|_fixed| ProgressStyle::default_bar());
        let bar = bars.add(ProgressBar::new(size_bytes).with_style(style));
        bar.set_message(name.to_owned());
        Transfer(Some((bars.clone(), bar)))
    }
}

impl Transfer {
    /// What the client tells of the progress.
    pub(super) fn progress(&self) -> ProgressFn {
        let bar = self.0.as_ref().map(|(_, bar)| bar.clone());
        Arc::new(move |progress| {
            if let Some(bar) = &bar {
                match progress {
                    BodyProgress::Started => bar.set_position(0),
                    BodyProgress::Taken(bytes) => bar.inc(bytes),
                }
            }
        })
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        if let Some((bars, bar)) = &self.0 {
            bar.finish_and_clear();
            bars.remove(bar);
        }
    }
}
