//! How questions to upstream servers are counted: by host of the configuration, and by a closed set
//! of results.

use std::time::Duration;

use super::Metrics;

/// How a question to an upstream server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UpstreamResult {
    /// It has the file, and sent it whole.
    Found,
    /// It does not exist there, definitely.
    Absent,
    /// It was silent for too long.
    Timeout,
    /// The connection could not be made, or broke.
    Connection,
    /// A status that says nothing.
    Status,
    /// A redirect that is not followed.
    Redirect,
    /// It sent something else than was asked for.
    Lie,
    /// The file could not be stored here.
    NotStored,
    /// It was not asked, since it failed too often.
    Resting,
}

impl UpstreamResult {
    fn as_str(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::Absent => "absent",
            Self::Timeout => "timeout",
            Self::Connection => "connection",
            Self::Status => "status",
            Self::Redirect => "redirect",
            Self::Lie => "lie",
            Self::NotStored => "not_stored",
            Self::Resting => "resting",
        }
    }
}

/// Counts what one upstream server does; cheap to clone and to use.
#[derive(Clone, Debug)]
pub struct UpstreamMeter {
    name: String,
    requests: prometheus::IntCounterVec,
    seconds: prometheus::Histogram,
    received_bytes: prometheus::IntCounter,
    resting: prometheus::IntGauge,
}

impl UpstreamMeter {
    /// It has said its last word to a question, after so long; `None` when it was not asked.
    pub fn answered(&self, result: UpstreamResult, duration: Option<Duration>) {
        self.requests
            .with_label_values(&[self.name.as_str(), result.as_str()])
            .inc();
        if let Some(duration) = duration {
            self.seconds.observe(duration.as_secs_f64());
        }
    }

    /// So much of a body has come.
    pub fn received(&self, size_bytes: u64) {
        self.received_bytes.inc_by(size_bytes);
    }

    /// Whether it is left alone from now on.
    pub fn resting(&self, is_left_alone: bool) {
        self.resting.set(i64::from(is_left_alone));
    }
}

impl Metrics {
    /// The meter of the upstream server of that name, a host of the configuration.
    pub fn upstream(&self, name: &str) -> UpstreamMeter {
        let families = &self.families;
        UpstreamMeter {
            name: name.to_owned(),
            requests: families.upstream_requests.clone(),
            seconds: families.upstream_seconds.with_label_values(&[name]),
            received_bytes: families.upstream_received_bytes.with_label_values(&[name]),
            resting: families.upstream_resting.with_label_values(&[name]),
        }
    }
}
