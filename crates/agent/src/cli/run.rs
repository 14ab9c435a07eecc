//! `unhex-agent run`: sample, and send until somebody stops it.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::TryRecvError;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::sync::mpsc;

use super::background::{Background, Event, Tasks};
use super::{engines, log, record};
use crate::clock::Moment;
use crate::collect::{Collector, Parts};
use crate::config::{self, Config, ConfigArgs};
use crate::export::{Exporter, Message, Queue};
use crate::kubelet::Kubelet;
use crate::labels::{LabelCache, ProcFolder, Surroundings};
use crate::metrics::{Metrics, MetricsListener};
use crate::profile::FileNames;
use crate::restraint::{self, Change, Restraint};
use crate::upload::{Sampled, Uploader};

/// How often samples are taken from the kernel's buffers at least.
pub(super) const POLL_EVERY: Duration = Duration::from_millis(200);
/// How often the agent looks at itself.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Batches whose binaries wait for the uploads.
const BATCHES_AT_ONCE: usize = 1;
/// Where processes are.
const PROC: &str = "/proc";

/// The flags of `run`.
#[derive(Debug, Default, clap::Args)]
pub(super) struct Args {
    /// Writes a pprof file when it is stopped, and sends nothing.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigArgs,
}

pub(super) fn run(arguments: Args) -> anyhow::Result<()> {
    let (config, log_config) = config::load(arguments.config)?;
    log::start(&log_config)?;
    if let Some(out) = arguments.out {
        return record::until_stopped(&config, &out);
    }
    let metrics = Arc::new(Metrics::new());
    let queue = Queue::new(config.queue_bytes_max, Arc::clone(&metrics));
    let (uploads, sampled) = mpsc::channel(BATCHES_AT_ONCE);
    let background = Background::start({
        let (config, metrics, queue) = (config.clone(), Arc::clone(&metrics), queue.clone());
        move || tasks(config, metrics, (queue, sampled))
    })?;
    let collector = collector(&config, FileNames::Base)?;
    let name = collector.engine_name();
    let rate = config.samples_per_second;
    let store = &config.exporter.server;
    tracing::info!(
        engine = name,
        "{rate} samples a second of each processor by {name}, to {store}"
    );
    if !collector.knows_kernel() {
        tracing::warn!(
            "the kernel's functions have no names: it hides their addresses (kernel.kptr_restrict, CAP_SYSLOG)"
        );
    }
    if let Some(address) = background.metrics_address {
        // Whoever started it may read the port from here; if nobody does it runs all the same.
        let _nobody_reads = writeln!(std::io::stdout(), "listening on http://{address}");
    }
    let sampling = Sampling {
        restraint: Restraint::new(rate, config.cpu_share_max, processors()),
        collector,
        config,
        metrics,
        queue,
        uploads,
    };
    let done = sampling.run(&background);
    background.end();
    done
}

async fn tasks(
    config: Config,
    metrics: Arc<Metrics>,
    (queue, sampled): (Queue, mpsc::Receiver<Vec<Sampled>>),
) -> anyhow::Result<Tasks> {
    let exporter = Exporter::new(config.exporter, queue.clone(), Arc::clone(&metrics))?;
    let listener = match config.listen {
        Some(address) => {
            let listener = MetricsListener::bind(address, Arc::clone(&metrics)).await;
            Some(listener.with_context(|| format!("{address} cannot be listened on"))?)
        }
        None => None,
    };
    let kubelet = config
        .kubelet
        .map(|options| Kubelet::new(options, Arc::clone(&metrics)))
        .transpose()?;
    let uploader = config
        .upload
        .map(|options| Uploader::new(options, metrics))
        .transpose()?;
    Ok(Tasks {
        exporter: Some((exporter, queue)),
        listener,
        kubelet,
        uploader: uploader.map(|uploader| (uploader, sampled)),
    })
}

/// A collector as it is configured, with the best engine that there is.
pub(super) fn collector(config: &Config, file_names: FileNames) -> anyhow::Result<Collector> {
    let surroundings = Surroundings {
        rules: config.rules.clone(),
        host: config.host_labels.clone(),
        ..Surroundings::default()
    };
    let (engine, processes) = engines::open(config.engine, config.samples_per_second)?;
    let folder = ProcFolder::new(PROC, config.environment.clone());
    let parts = Parts {
        processes,
        labels: LabelCache::new(folder, surroundings),
        proc: PathBuf::from(PROC),
        samples_per_second: config.samples_per_second,
        file_names,
    };
    Ok(Collector::new(engine, parts, Moment::now()))
}

/// Processors of this host, at least one.
fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

struct Sampling {
    collector: Collector,
    restraint: Restraint,
    config: Config,
    metrics: Arc<Metrics>,
    queue: Queue,
    uploads: mpsc::Sender<Vec<Sampled>>,
}

impl Sampling {
    fn run(mut self, background: &Background) -> anyhow::Result<()> {
        let mut looked_at: Option<Instant> = None;
        loop {
            self.collector.wait(POLL_EVERY)?;
            match background.events.try_recv() {
                Ok(Event::Pods(pods)) => self.collector.set_pods(pods),
                Err(TryRecvError::Empty) => {}
                Ok(Event::Stop) | Err(TryRecvError::Disconnected) => break,
            }
            let now = Moment::now();
            self.collector.poll(now)?;
            if self.collector.is_due(now) {
                self.send(now);
            }
            if looked_at.is_none_or(|last| now.instant.duration_since(last) >= LOOK_EVERY) {
                looked_at = Some(now.instant);
                self.look(now.instant)?;
            }
        }
        let now = Moment::now();
        self.collector.poll(now)?;
        self.send(now);
        Ok(())
    }

    /// Packs the batch and leaves it to the exporter.
    fn send(&mut self, now: Moment) {
        let least = self.config.batch / 2;
        let length = least + least.mul_f64(rand::random_range(0.0..=1.0));
        let (batch, period) = self.collector.take(now, length);
        if batch.is_empty() {
            return;
        }
        if self.config.upload.is_some() {
            // While it is busy it learns of nothing: what is sampled again comes again.
            let _busy = self.uploads.try_send(batch.binaries().to_vec());
        }
        let samples = batch.len();
        let profiles = batch.into_profiles(period);
        match Message::pack(&profiles, samples, self.config.compression) {
            Ok(message) => self.queue.push(message),
            Err(error) => {
                tracing::error!(%error, "a batch is lost, since it cannot be packed: {error}");
            }
        }
    }

    /// Counts, and lowers the rate if the agent takes too much.
    fn look(&mut self, now: Instant) -> anyhow::Result<()> {
        let usage = restraint::usage();
        self.metrics.usage(usage);
        self.metrics.engine(&self.collector.counters());
        self.metrics.processes(self.collector.processes());
        if let Some(change) = self.restraint.observe(now, usage.cpu) {
            self.collector.set_rate(self.restraint.rate())?;
            match change {
                Change::Slower(rate, share) => {
                    self.metrics.slowed();
                    let (percent, most) = (share * 100.0, self.config.cpu_share_max * 100.0);
                    tracing::warn!(
                        rate,
                        "{rate} samples a second from now on, since the agent takes {percent:.2} % of the host and may take {most} %"
                    );
                }
                Change::Faster(rate) => {
                    tracing::info!(rate, "{rate} samples a second again");
                }
            }
        }
        let name = self.collector.engine_name();
        self.metrics.sampling(name, self.restraint.rate());
        Ok(())
    }
}
