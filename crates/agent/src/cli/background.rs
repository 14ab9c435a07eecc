//! The thread beside the sampling one: deliveries, metrics, pods and signals, on one runtime.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot};

use crate::export::{Exporter, Queue};
use crate::kubelet::Kubelet;
use crate::labels::Pods;
use crate::metrics::MetricsListener;
use crate::upload::{Sampled, Uploader};

/// How long the last batches may take at a stop: less than what orchestrators wait.
const LAST_DELIVERIES: Duration = Duration::from_secs(5);

/// What the sampling thread is told.
#[derive(Debug)]
pub(super) enum Event {
    /// It is to end.
    Stop,
    /// The pods of this node.
    Pods(Pods),
}

/// What is done in the background.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    /// Deliveries, and the queue that they come from.
    pub(super) exporter: Option<(Exporter, Queue)>,
    /// Answers to whoever asks for metrics.
    pub(super) listener: Option<MetricsListener>,
    /// Questions for pods.
    pub(super) kubelet: Option<Kubelet>,
    /// What a symbol server lacks, and where sampled binaries come from.
    pub(super) uploader: Option<(Uploader, mpsc::Receiver<Vec<Sampled>>)>,
}

/// The running thread.
#[derive(Debug)]
pub(super) struct Background {
    /// What it says.
    pub(super) events: Receiver<Event>,
    /// Where metrics are asked for.
    pub(super) metrics_address: Option<SocketAddr>,
    ending: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Background {
    /// Starts the thread. `make` is called on its runtime.
    ///
    /// # Errors
    /// If a task cannot begin, as when a port is taken.
    pub(super) fn start<F>(make: impl FnOnce() -> F + Send + 'static) -> anyhow::Result<Self>
    where
        F: Future<Output = anyhow::Result<Tasks>>,
    {
        let (sender, events) = channel();
        let (ending, ended) = oneshot::channel();
        let (started_sender, started) = channel();
        let thread = std::thread::Builder::new().name("background".to_owned());
        let thread = thread.spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            let runtime = match runtime.context("no runtime") {
                Ok(runtime) => runtime,
                Err(error) => return drop(started_sender.send(Err(error))),
            };
            runtime.block_on(async {
                let begun = begin(make, &sender).await;
                let (tasks, address) = match begun {
                    Ok((tasks, address)) => (tasks, address),
                    Err(error) => return drop(started_sender.send(Err(error))),
                };
                drop(started_sender.send(Ok(address)));
                work(tasks, sender, ended).await;
            });
        })?;
        let metrics_address = started.recv().context("the background thread is gone")??;
        Ok(Self {
            events,
            metrics_address,
            ending,
            thread,
        })
    }

    /// Waits for the last deliveries, for some seconds at most.
    pub(super) fn end(self) {
        drop(self.ending);
        if self.thread.join().is_err() {
            tracing::error!("the background thread panicked");
        }
    }
}

/// Takes the port and the signals before anything else happens.
async fn begin<F>(
    make: impl FnOnce() -> F,
    sender: &Sender<Event>,
) -> anyhow::Result<(Tasks, Option<SocketAddr>)>
where
    F: Future<Output = anyhow::Result<Tasks>>,
{
    for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
        let mut signals = signal(kind).context("signals cannot be had")?;
        let sender = sender.clone();
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                // It ends already if nobody listens.
                let _ended = sender.send(Event::Stop);
            }
        });
    }
    let tasks = make().await?;
    let address = tasks.listener.as_ref().map(MetricsListener::address);
    let address = address.transpose().context("the port of the metrics")?;
    Ok((tasks, address))
}

async fn work(tasks: Tasks, sender: Sender<Event>, ended: oneshot::Receiver<()>) {
    let Tasks {
        exporter,
        listener,
        kubelet,
        uploader,
    } = tasks;
    if let Some(listener) = listener {
        tokio::spawn(listener.serve());
    }
    if let Some(kubelet) = kubelet {
        tokio::spawn(kubelet.run(move |pods| {
            let _ended = sender.send(Event::Pods(pods));
        }));
    }
    if let Some((uploader, sampled)) = uploader {
        tokio::spawn(uploader.run(sampled));
    }
    let deliveries = exporter.map(|(exporter, queue)| (tokio::spawn(exporter.run()), queue));
    // Sent or dropped: the end.
    let _end = ended.await;
    if let Some((delivering, queue)) = deliveries {
        queue.end();
        if tokio::time::timeout(LAST_DELIVERIES, delivering)
            .await
            .is_err()
        {
            tracing::warn!("batches are lost, since they could not be delivered in time");
            queue.abandon();
        }
    }
}
