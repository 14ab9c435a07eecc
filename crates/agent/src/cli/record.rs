//! `unhex-agent record`: sample for a while, ask for names, write a file.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::TryRecvError;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use unhex_api::client::{Client, ClientOptions};
use unhex_pprof::{Profiles, packed, pprof};

use super::background::{Background, Event, Tasks};
use super::log;
use super::run::{POLL_EVERY, collector};
use crate::clock::Moment;
use crate::collect::Collector;
use crate::config::{self, Config, ConfigArgs};
use crate::naming::Names;
use crate::profile::FileNames;
use crate::sample::Stop;

/// Binaries without symbols that are named; the rest is counted.
const LACKING_SHOWN: usize = 10;

/// How long the agent may take to get to know what runs before it begins.
const WARM_UP_MAX: Duration = Duration::from_secs(15);
/// It knows it when for so long no table came and none was lacking.
const WARM_UP_STEP: Duration = Duration::from_secs(1);

/// The flags of `record`.
#[derive(Debug, Default, clap::Args)]
pub(super) struct Args {
    /// How long, as `10s` or `2m`.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
    duration: Duration,
    /// The file, in pprof's format, packed by gzip.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// A symbol server, which is asked for names at the end; without one the file has addresses.
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    #[command(flatten)]
    config: ConfigArgs,
}

pub(super) fn run(arguments: Args) -> anyhow::Result<()> {
    let (config, log_config) = config::load(arguments.config)?;
    log::start(&log_config)?;
    let server = arguments.server.map(|server| {
        Client::new(ClientOptions {
            server,
            user_agent: concat!("unhex-agent/", env!("CARGO_PKG_VERSION")).to_owned(),
            ..ClientOptions::default()
        })
    });
    let server = server.transpose()?;
    let profiles = sampled(&config, Some(arguments.duration))?;
    write(&profiles, server.as_ref(), &arguments.out)
}

/// Samples until somebody stops it, and writes a file without names of native code.
pub(super) fn until_stopped(config: &Config, out: &Path) -> anyhow::Result<()> {
    let profiles = sampled(config, None)?;
    write(&profiles, None, out)
}

/// All samples of a while, or until somebody stops it.
fn sampled(config: &Config, duration: Option<Duration>) -> anyhow::Result<Profiles<'static>> {
    let background = Background::start(|| async { Ok(Tasks::default()) })?;
    let mut collector = collector(config, FileNames::Path)?;
    let name = collector.engine_name();
    let rate = config.samples_per_second;
    tracing::info!(
        engine = name,
        "{rate} samples a second of each processor by {name}"
    );
    if duration.is_some() {
        warm_up(&mut collector, &background)?;
    }
    let end = duration.map(|duration| Instant::now() + duration);
    loop {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        let wait = left.map_or(POLL_EVERY, |left| left.min(POLL_EVERY));
        collector.wait(wait)?;
        let is_stopped = match background.events.try_recv() {
            Err(TryRecvError::Empty) | Ok(Event::Pods(_)) => false,
            Ok(Event::Stop) | Err(TryRecvError::Disconnected) => true,
        };
        collector.poll(Moment::now())?;
        if collector.is_full() {
            tracing::warn!("it ends early: a file can take no more samples");
        }
        if is_stopped || collector.is_full() || left.is_some_and(|left| left.is_zero()) {
            break;
        }
    }
    let (batch, period) = collector.take(Moment::now(), Duration::ZERO);
    background.end();
    if batch.is_empty() {
        bail!("nothing ran: no sample was taken");
    }
    let (samples, counters) = (batch.len(), collector.counters());
    tracing::info!("{samples} samples, {} lost", counters.lost);
    Ok(batch.into_one_profile(period))
}

/// Throws samples away until the tables of what runs have been read: before that stacks end early.
fn warm_up(collector: &mut Collector, background: &Background) -> anyhow::Result<()> {
    let end = Instant::now() + WARM_UP_MAX;
    let (mut known, mut since) = (None, Instant::now());
    while Instant::now() < end && since.elapsed() < WARM_UP_STEP {
        collector.wait(POLL_EVERY)?;
        match background.events.try_recv() {
            Err(TryRecvError::Empty) | Ok(Event::Pods(_)) => {}
            Ok(Event::Stop) | Err(TryRecvError::Disconnected) => bail!("stopped"),
        }
        collector.poll(Moment::now())?;
        let counters = collector.counters();
        let state = Some((counters.binaries, counters.of(Stop::NoUnwindInfo)));
        if state != known {
            (known, since) = (state, Instant::now());
        }
    }
    drop(collector.take(Moment::now(), Duration::ZERO));
    Ok(())
}

/// Asks for names, if there is somebody to ask, and writes the file.
fn write(profiles: &Profiles<'_>, server: Option<&Client>, out: &Path) -> anyhow::Result<()> {
    let names = server.map(|client| names(client, profiles)).transpose()?;
    let names = names.unwrap_or_default();
    let profile = profiles.profiles().first().context("no profile")?;
    let message = pprof::encode_named(profiles, profile, &mut |frame, lines| {
        names.of(frame, lines);
    })?;
    write_whole(out, &packed(&message))
        .with_context(|| format!("{} cannot be written", out.display()))?;
    say(&format!("{} is written", out.display()));
    Ok(())
}

/// The file as a whole, or as it was, and nothing beside it. What is written first is new: others may have put a link into the folder.
fn write_whole(out: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut part = out.as_os_str().to_owned();
    part.push(format!(".{}.part", std::process::id()));
    let mut file = File::create_new(&part)?;
    let written = file
        .write_all(bytes)
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&part, out));
    if written.is_err() {
        // The first failure says more than one of this.
        let _it_stays = fs::remove_file(&part);
    }
    written
}

fn names(client: &Client, profiles: &Profiles<'_>) -> anyhow::Result<Names> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let names = runtime.block_on(Names::ask(client, profiles))?;
    for (file, why) in names.lacking.iter().take(LACKING_SHOWN) {
        say(&format!("{file} has no names: {why}"));
    }
    let more = names.lacking.len().saturating_sub(LACKING_SHOWN);
    if more > 0 {
        say(&format!("and {more} more have none"));
    }
    Ok(names)
}

fn say(line: &str) {
    // There is no other place to say it.
    let _nobody_reads = writeln!(io::stderr(), "{line}");
}

/// A time as `10s`, `500ms` or `2m`; a number alone is seconds.
fn duration(text: &str) -> Result<Duration, String> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u32 = number
        .parse()
        .map_err(|_no_number| format!("{text:?} is no time; write it like 10s"))?;
    let unit = match unit {
        "ms" => Duration::from_millis(1),
        "" | "s" => Duration::from_secs(1),
        "m" => Duration::from_mins(1),
        _ => return Err(format!("{unit:?} is no unit: known are ms, s and m")),
    };
    let duration = unit.checked_mul(number).filter(|time| !time.is_zero());
    duration.ok_or_else(|| "no time at all".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_written_leaves_nothing_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("x.pb.gz");
        write_whole(&out, b"first").unwrap();
        write_whole(&out, b"second").unwrap();
        assert_eq!(fs::read(&out).unwrap(), b"second");
        // A folder takes no file's place.
        let taken = folder.path().join("taken");
        fs::create_dir(&taken).unwrap();
        write_whole(&taken, b"third").unwrap_err();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn times_have_units() {
        assert_eq!(duration("10"), Ok(Duration::from_secs(10)));
        assert_eq!(duration("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("2m"), Ok(Duration::from_mins(2)));
        for text in ["", "s", "0s", "1h", "-1s", "99999999999s"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
