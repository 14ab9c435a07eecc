//! `unhex symbolize`: addresses to functions, files and lines, as addr2line and llvm-symbolizer print them, from the server's symbols.

mod answers;
mod input;

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use unhex_api::symbolize::{
    AddressKind, Adjust, Demangle, Module, ModuleAnswer, ModuleStatus, SymbolizeRequest,
};
use unhex_build_id::BuildId;

use self::answers::{Layout, Style, merge, write_answers};
use self::input::{HexAddress, InputLimits, addresses_from, binary_module};
use super::connection::{ConnectionArgs, finish};

const EXAMPLES: &str = "\
Examples:
  unhex symbolize --binary target/release/checkout 0x1139 0x11a4
      The build ID is read from the file; the names come from the server.
  unhex symbolize --build-id 9a0f2c... --adjust call_site < return-addresses.txt
      One hex address a line, from standard input; return addresses are looked up at their call.
  unhex symbolize --build-id 9a0f2c... --address-kind file_offset --json 0x2139
      An offset into the file, as perf script shows it, and the whole answer as JSON.

Output: for each address its frames, innermost first, and an empty line. Addresses without a function
print ??, why is said on standard error. Exit status: 0 when the build ID has symbols, 1 when not,
2 when the server could not be asked.";

/// Addresses in one request: the server takes a million, answers of a few megabytes come sooner.
const ADDRESSES_PER_REQUEST: usize = 50_000;

/// Turn addresses into functions, files and lines.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(group(clap::ArgGroup::new("module").required(true).args(["build_id", "binary"])))]
pub(super) struct Args {
    /// The build ID of the binary that the addresses are in.
    #[arg(long, value_name = "ID")]
    build_id: Option<BuildId>,

    /// The binary, for its build ID and program headers; its own symbols are not read.
    #[arg(long, short = 'e', value_name = "FILE")]
    binary: Option<PathBuf>,

    /// Addresses, in hex with or without 0x. Without any, one a line from standard input.
    #[arg(value_name = "ADDRESS")]
    addresses: Vec<HexAddress>,

    /// What the addresses count from: `link` is as linked, what addr2line takes.
    #[arg(long, value_enum, default_value = "link", value_name = "KIND")]
    address_kind: KindArg,

    /// `call_site` for return addresses, which lie behind the call that is meant.
    #[arg(long, value_enum, default_value = "none", value_name = "HOW")]
    adjust: AdjustArg,

    /// How much of C++ and Rust names is printed.
    #[arg(long, value_enum, default_value = "full", value_name = "HOW")]
    demangle: DemangleArg,

    /// Only the function that was really called, not those inlined into it.
    #[arg(long)]
    no_inlines: bool,

    /// `llvm` prints `file:line:column`, `gnu` `file:line`.
    #[arg(long, value_enum, default_value = "llvm", value_name = "STYLE")]
    style: Style,

    /// Print each address before its frames.
    #[arg(long, short = 'a')]
    addresses_too: bool,

    /// Print the server's answer as JSON.
    #[arg(long)]
    json: bool,

    /// How long the server may wait for symbols that it is converting, in seconds.
    #[arg(long, default_value_t = 20, value_name = "SECONDS")]
    wait: u32,

    #[command(flatten)]
    connection: ConnectionArgs,
}

/// What addresses count from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
enum KindArg {
    /// As linked.
    Link,
    /// Offsets into the file.
    FileOffset,
    /// Offsets from the image base.
    Relative,
}

/// What an address needs before it is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
enum AdjustArg {
    /// Nothing.
    None,
    /// One byte back, into the call.
    CallSite,
}

/// How much of a name is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum DemangleArg {
    /// Everything.
    Full,
    /// Without parameters.
    Templates,
    /// Without parameters and template arguments.
    Simple,
    /// As the linker knows it.
    None,
}

/// Runs the look-up; success means that the build ID has symbols.
pub(super) fn run(args: Args) -> ExitCode {
    finish("symbolize", symbolize(args))
}

async fn symbolize(args: Args) -> anyhow::Result<ExitCode> {
    let client = args.connection.client()?;
    let module = args.module()?;
    let addresses = if args.addresses.is_empty() {
        // In a thread, so that a signal still ends the wait for input.
        let reading = tokio::task::spawn_blocking(|| {
            addresses_from(io::stdin().lock(), InputLimits::default())
        });
        reading.await?.context("standard input")?
    } else {
        args.addresses.clone()
    };
    let mut whole: Option<ModuleAnswer> = None;
    for part in addresses.chunks(ADDRESSES_PER_REQUEST) {
        let answer = client.symbolize(&args.request(&module, part)).await?;
        let answer = answer.modules.into_iter().next();
        let answer = answer.context("the server answered without the module that was asked for")?;
        whole = Some(match whole {
            None => answer,
            Some(before) => merge(before, answer),
        });
    }
    let Some(answer) = whole else {
        return Ok(ExitCode::SUCCESS);
    };
    print(&args, &addresses, &answer)?;
    Ok(if answer.status == ModuleStatus::Found {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

#[expect(
    clippy::print_stderr,
    reason = "reasons must not stand among the frames"
)]
fn print(args: &Args, addresses: &[HexAddress], answer: &ModuleAnswer) -> anyhow::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(answer)?)?;
    } else {
        let layout = Layout {
            style: args.style,
            count: addresses.len(),
            addresses: args.addresses_too.then_some(addresses),
        };
        write_answers(&mut out, answer, layout)?;
    }
    out.flush()?;
    for words in answers::reasons(answer) {
        eprintln!("unhex symbolize: {words}");
    }
    Ok(())
}

impl Args {
    /// The module without its addresses.
    fn module(&self) -> anyhow::Result<Module> {
        let module = match (&self.build_id, &self.binary) {
            (_, Some(path)) => binary_module(path)?,
            (Some(build_id), None) => Module {
                build_id: build_id.to_string(),
                ..Module::default()
            },
            (None, None) => anyhow::bail!("give --build-id or --binary"),
        };
        Ok(Module {
            address_kind: self.address_kind.into(),
            adjust: self.adjust.into(),
            ..module
        })
    }

    fn request(&self, module: &Module, addresses: &[HexAddress]) -> SymbolizeRequest {
        SymbolizeRequest {
            observe: false,
            modules: vec![Module {
                addresses: addresses.iter().map(|address| address.0.into()).collect(),
                ..module.clone()
            }],
            demangle: self.demangle.into(),
            inlines: !self.no_inlines,
            wait_seconds: self.wait,
            ..SymbolizeRequest::default()
        }
    }
}

impl From<KindArg> for AddressKind {
    fn from(kind: KindArg) -> Self {
        match kind {
            KindArg::Link => Self::Link,
            KindArg::FileOffset => Self::FileOffset,
            KindArg::Relative => Self::Relative,
        }
    }
}

impl From<AdjustArg> for Adjust {
    fn from(adjust: AdjustArg) -> Self {
        match adjust {
            AdjustArg::None => Self::None,
            AdjustArg::CallSite => Self::CallSite,
        }
    }
}

impl From<DemangleArg> for Demangle {
    fn from(demangle: DemangleArg) -> Self {
        match demangle {
            DemangleArg::Full => Self::Full,
            DemangleArg::Templates => Self::Templates,
            DemangleArg::Simple => Self::Simple,
            DemangleArg::None => Self::None,
        }
    }
}
