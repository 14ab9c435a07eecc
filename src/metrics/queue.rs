//! How queues and held clients are counted.

use std::time::Duration;

use super::Metrics;

/// The classes of work that have a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueClass {
    /// Files that are fetched from upstream servers for debuginfod clients.
    Debuginfod,
    /// Memory of `/symbolize` requests.
    Symbolize,
    /// Uploads that are received and published.
    Upload,
    /// Memory of conversion children.
    Conversion,
}

impl QueueClass {
    fn as_str(self) -> &'static str {
        match self {
            Self::Debuginfod => "debuginfod",
            Self::Symbolize => "symbolize",
            Self::Upload => "upload",
            Self::Conversion => "conversion",
        }
    }
}

/// How somebody fared in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueOutcome {
    /// Something was free.
    AtOnce,
    /// It waited and was served.
    Served,
    /// It was not its turn in time.
    TooLong,
    /// Too many waited already.
    Full,
    /// It left.
    Left,
}

impl QueueOutcome {
    const ALL: [Self; 5] = [
        Self::AtOnce,
        Self::Served,
        Self::TooLong,
        Self::Full,
        Self::Left,
    ];

    fn as_str(self) -> &'static str {
        match self {
            Self::AtOnce => "at_once",
            Self::Served => "served",
            Self::TooLong => "too_long",
            Self::Full => "full",
            Self::Left => "left",
        }
    }
}

/// How a debuginfod client fared that could not be answered at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldOutcome {
    /// A later attempt had an answer.
    Answered,
    /// Its connection was reset.
    Reset,
    /// It got 503, behind a proxy or over HTTP/2.
    Unavailable,
}

impl HoldOutcome {
    fn as_str(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Reset => "reset",
            Self::Unavailable => "unavailable",
        }
    }
}

/// Counts what happens in one queue; cheap to clone and to use.
#[derive(Clone, Debug)]
pub struct QueueMeter {
    outcomes: [prometheus::IntCounter; 5],
    seconds: prometheus::Histogram,
    waiting: prometheus::IntGauge,
    used: prometheus::Gauge,
}

impl QueueMeter {
    /// Somebody is served, or is not in the queue any more.
    pub fn ended(&self, outcome: QueueOutcome) {
        let counters = QueueOutcome::ALL.iter().zip(&self.outcomes);
        for (_, counter) in counters.filter(|(one, _)| **one == outcome) {
            counter.inc();
        }
    }

    /// Somebody waited for so long.
    pub fn waited(&self, duration: Duration) {
        self.seconds.observe(duration.as_secs_f64());
    }

    /// So many wait now.
    pub fn waiting(&self, number: usize) {
        self.waiting.set(i64::try_from(number).unwrap_or(i64::MAX));
    }

    /// So much is free of what there is.
    #[expect(
        clippy::cast_precision_loss,
        reason = "a share of two numbers, for people to look at"
    )]
    pub fn held(&self, total: u64, free: u64) {
        self.used
            .set(total.saturating_sub(free) as f64 / total.max(1) as f64);
    }
}

impl Metrics {
    /// The meter of the queue of a class.
    pub fn queue(&self, class: QueueClass) -> QueueMeter {
        let families = &self.families;
        let class = class.as_str();
        QueueMeter {
            outcomes: QueueOutcome::ALL.map(|outcome| {
                families
                    .queue_requests
                    .with_label_values(&[class, outcome.as_str()])
            }),
            seconds: families.queue_seconds.with_label_values(&[class]),
            waiting: families.queue_waiting.with_label_values(&[class]),
            used: families.queue_used.with_label_values(&[class]),
        }
    }

    /// Counts a debuginfod client that could not be answered at once.
    pub fn held(&self, outcome: HoldOutcome) {
        self.families
            .debuginfod_held
            .with_label_values(&[outcome.as_str()])
            .inc();
    }
}
