//! `unhex-store query`: questions to a store, answered as tables and files.

mod tables;
mod window;

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::{Subcommand, ValueEnum};
use jiff::Timestamp;
use serde::Serialize;

use super::store::{Store, StoreArgs, finish};
use crate::answers::questions::{
    LabelsQuestion, ProfileQuestion, SegmentsQuestion, SeriesQuestion, TopQuestion,
};
use crate::answers::{
    LabelNamesAnswer, LabelValuesAnswer, SegmentsAnswer, SeriesAnswer, TopAnswer,
};
pub(super) use window::{Asked, WindowArgs};

const EXAMPLES: &str = "\
Examples:
  unhex-store query labels
      Which labels and types of profile there are; --label version lists the values of one.
  unhex-store query top '{service=\"checkout\",version=~\"2.*\"}' --since 24h
      The functions with the most CPU time.
  unhex-store query profile '{service=\"checkout\"}' --format svg --output checkout.svg
      A flame graph; other formats are pprof, folded, speedscope and json.
  unhex-store query profile --format pprof --output checkout.pb.gz && go tool pprof checkout.pb.gz
  unhex-store query series --group-by service,version --step 5m --since 6h
      CPU seconds over time.";

/// Ask a store for labels, series, profiles and functions.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(subcommand)]
    question: Question,
}

#[derive(Debug, Subcommand)]
enum Question {
    /// The names of labels, or the values of one.
    Labels(LabelsArgs),
    /// How much was counted over time, by labels.
    Series(SeriesArgs),
    /// A merged profile as a file.
    Profile(ProfileArgs),
    /// The functions with the most.
    Top(TopArgs),
    /// What lies in the store, by hour.
    Segments(SegmentsArgs),
}

/// What the answer is printed as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Form {
    /// A table.
    #[default]
    Table,
    /// The JSON of the store.
    Json,
}

#[derive(Debug, clap::Args)]
struct LabelsArgs {
    #[command(flatten)]
    window: WindowArgs,
    /// List the values of this label.
    #[arg(long, value_name = "NAME")]
    label: Option<String>,
    /// How many values at most.
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
    /// What is printed.
    #[arg(long, value_enum, default_value_t)]
    format: Form,
    #[command(flatten)]
    store: StoreArgs,
}

#[derive(Debug, clap::Args)]
struct SeriesArgs {
    #[command(flatten)]
    window: WindowArgs,
    /// What is counted: cpu, or a type that `query labels` lists [default: cpu].
    #[arg(long = "type", value_name = "TYPE")]
    profile_type: Option<String>,
    /// The labels that lines are made by, with commas.
    #[arg(long, value_name = "LABELS")]
    group_by: Option<String>,
    /// From one point to the next [default: by the length of the window].
    #[arg(long, value_name = "TIME")]
    step: Option<crate::limits::Seconds>,
    #[command(flatten)]
    stacks: StackArgs,
    /// How many lines at most.
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
    /// What is printed.
    #[arg(long, value_enum, default_value_t)]
    format: Form,
    #[command(flatten)]
    store: StoreArgs,
}

/// Which stacks are of interest.
#[derive(Debug, clap::Args)]
struct StackArgs {
    /// Only stacks with this function; behind ~ a regular expression that is found anywhere in a name.
    #[arg(long, value_name = "NAME")]
    function: Option<String>,
    /// Only stacks with a frame in this binary, by file name or build ID; ~ as above.
    #[arg(long, value_name = "NAME")]
    binary: Option<String>,
}

#[derive(Debug, clap::Args)]
struct ProfileArgs {
    #[command(flatten)]
    window: WindowArgs,
    /// What is counted: cpu, or a type that `query labels` lists [default: cpu].
    #[arg(long = "type", value_name = "TYPE")]
    profile_type: Option<String>,
    /// What is written.
    #[arg(long, value_enum, default_value_t)]
    format: ProfileForm,
    /// The file [default: standard output].
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Nodes of a flame graph at most; what is cut keeps the totals.
    #[arg(long, value_name = "N")]
    max_nodes: Option<u32>,
    #[command(flatten)]
    stacks: StackArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// The formats of profiles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum ProfileForm {
    /// A line for each stack.
    #[default]
    Folded,
    /// For `go tool pprof`.
    Pprof,
    /// A flame graph for browsers.
    Svg,
    /// For speedscope.app.
    Speedscope,
    /// A flame graph in columns.
    Json,
}

#[derive(Debug, clap::Args)]
struct TopArgs {
    #[command(flatten)]
    window: WindowArgs,
    /// What is counted: cpu, or a type that `query labels` lists [default: cpu].
    #[arg(long = "type", value_name = "TYPE")]
    profile_type: Option<String>,
    /// What is listed.
    #[arg(long, value_enum, default_value_t)]
    by: By,
    /// By what it is in order.
    #[arg(long, value_enum, default_value_t)]
    order: Order,
    /// How many at most.
    #[arg(long, value_name = "N", default_value_t = 30)]
    limit: u32,
    #[command(flatten)]
    stacks: StackArgs,
    /// What is printed.
    #[arg(long, value_enum, default_value_t)]
    format: Form,
    #[command(flatten)]
    store: StoreArgs,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum By {
    #[default]
    Function,
    File,
    Binary,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Order {
    #[default]
    #[value(name = "self")]
    Own,
    Total,
}

#[derive(Debug, clap::Args)]
struct SegmentsArgs {
    #[command(flatten)]
    window: WindowArgs,
    /// What is printed.
    #[arg(long, value_enum, default_value_t)]
    format: Form,
    #[command(flatten)]
    store: StoreArgs,
}

/// Asks; success means that there was an answer.
pub(super) fn run(arguments: Args) -> ExitCode {
    finish("query", async {
        let now = Timestamp::now();
        match arguments.question {
            Question::Labels(arguments) => labels(arguments, now).await?,
            Question::Series(arguments) => series(arguments, now).await?,
            Question::Profile(arguments) => profile(arguments, now).await?,
            Question::Top(arguments) => top(arguments, now).await?,
            Question::Segments(arguments) => segments(arguments, now).await?,
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Prints an answer: the store's own JSON, or a table of it.
pub(super) async fn print<T: serde::de::DeserializeOwned>(
    store: &Store,
    (path, question): (&str, &impl Serialize),
    form: Form,
    table: impl Fn(&T) -> String,
) -> anyhow::Result<()> {
    let text = match form {
        Form::Json => store.bytes(path, question).await?,
        Form::Table => table(&store.answer(path, question).await?).into_bytes(),
    };
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(&text)?;
    if !text.ends_with(b"\n") {
        stdout.write_all(b"\n")?;
    }
    Ok(stdout.flush()?)
}

async fn labels(arguments: LabelsArgs, now: Timestamp) -> anyhow::Result<()> {
    let Asked { query, from, to } = arguments.window.asked(now)?;
    let question = LabelsQuestion {
        query: Some(query),
        from: Some(from.to_string()),
        to: Some(to.to_string()),
        limit: arguments.limit.map(|limit| limit.to_string()),
        label: arguments.label,
    };
    let store = arguments.store.store()?;
    let asked = ("query/labels", &question);
    if question.label.is_some() {
        let table = |answer: &LabelValuesAnswer| tables::label_values(answer);
        return print(&store, asked, arguments.format, table).await;
    }
    let table = |answer: &LabelNamesAnswer| tables::label_names(answer);
    print(&store, asked, arguments.format, table).await
}

async fn series(arguments: SeriesArgs, now: Timestamp) -> anyhow::Result<()> {
    let Asked { query, from, to } = arguments.window.asked(now)?;
    let step = arguments.step.map(|step| step.duration().as_secs());
    let question = SeriesQuestion {
        query: Some(query),
        from: Some(from.to_string()),
        to: Some(to.to_string()),
        profile_type: arguments.profile_type,
        group_by: arguments.group_by,
        step: step.map(|step| step.to_string()),
        function: arguments.stacks.function,
        binary: arguments.stacks.binary,
        limit: arguments.limit.map(|limit| limit.to_string()),
    };
    let table = |answer: &SeriesAnswer| tables::series(answer);
    let store = arguments.store.store()?;
    print(&store, ("query/series", &question), arguments.format, table).await
}

async fn profile(arguments: ProfileArgs, now: Timestamp) -> anyhow::Result<()> {
    let Asked { query, from, to } = arguments.window.asked(now)?;
    let is_packed = arguments.format == ProfileForm::Pprof;
    if is_packed && arguments.output.is_none() && std::io::stdout().is_terminal() {
        bail!("a pprof file is not for a terminal: give --output FILE");
    }
    let question = ProfileQuestion {
        query: Some(query),
        from: Some(from.to_string()),
        to: Some(to.to_string()),
        profile_type: arguments.profile_type,
        format: Some(word(&arguments.format)),
        max_nodes: arguments.max_nodes.map(|max| max.to_string()),
        function: arguments.stacks.function,
        binary: arguments.stacks.binary,
    };
    let store = arguments.store.store()?;
    let file = store.bytes("query/profile", &question).await?;
    if let Some(path) = &arguments.output {
        return write(path, &file).with_context(|| path.display().to_string());
    }
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(&file)?;
    Ok(stdout.flush()?)
}

/// The file is there as a whole or not at all.
fn write(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let mut file = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
    file.write_all(content)?;
    file.persist(path)?;
    Ok(())
}

async fn top(arguments: TopArgs, now: Timestamp) -> anyhow::Result<()> {
    let Asked { query, from, to } = arguments.window.asked(now)?;
    let question = TopQuestion {
        query: Some(query),
        from: Some(from.to_string()),
        to: Some(to.to_string()),
        profile_type: arguments.profile_type,
        by: Some(word(&arguments.by)),
        order: Some(word(&arguments.order)),
        limit: Some(arguments.limit.to_string()),
        function: arguments.stacks.function,
        binary: arguments.stacks.binary,
    };
    let table = |answer: &TopAnswer| tables::top(answer);
    let store = arguments.store.store()?;
    print(&store, ("query/top", &question), arguments.format, table).await
}

async fn segments(arguments: SegmentsArgs, now: Timestamp) -> anyhow::Result<()> {
    let Asked { query, from, to } = arguments.window.asked(now)?;
    let question = SegmentsQuestion {
        query: Some(query),
        from: Some(from.to_string()),
        to: Some(to.to_string()),
    };
    let table = |answer: &SegmentsAnswer| tables::segments(answer);
    let store = arguments.store.store()?;
    print(
        &store,
        ("query/segments", &question),
        arguments.format,
        table,
    )
    .await
}

/// The word of an argument's value, which is that of the interface.
fn word(value: &impl ValueEnum) -> String {
    let value = value.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}
