//! How scanning is counted, some of it under the names of the reference server, for whoever watches
//! that one now.
//!
//! These series are there only when something is scanned.

use prometheus::{IntCounterVec, IntGaugeVec};

use super::{Metrics, Running};

/// The parts of scanning that work at times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanRole {
    /// Goes through folders.
    Traverse,
    /// Looks at files.
    Scan,
    /// Forgets what is gone.
    Groom,
}

impl ScanRole {
    const ALL: [Self; 3] = [Self::Traverse, Self::Scan, Self::Groom];

    fn as_str(self) -> &'static str {
        match self {
            Self::Traverse => "traverse",
            Self::Scan => "scan",
            Self::Groom => "groom",
        }
    }
}

/// How much is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanCounts {
    /// Files with something to serve.
    pub files: usize,
    /// Files with nothing to serve.
    pub dull: usize,
    /// Build IDs.
    pub build_ids: usize,
    /// ELF files that are served as they lie.
    pub elf_files: usize,
    /// ELF files in archives.
    pub members: usize,
}

/// Counts what scanning does; cheap to clone and to use.
#[derive(Clone, Debug)]
pub struct ScanMeter {
    scanned: IntCounterVec,
    scanned_bytes: IntCounterVec,
    executables: IntCounterVec,
    debuginfos: IntCounterVec,
    sourcerefs: IntCounterVec,
    errors: IntCounterVec,
    unread: IntGaugeVec,
    work: IntCounterVec,
    pending: IntGaugeVec,
    busy: IntGaugeVec,
    groomed: IntCounterVec,
    groom: IntGaugeVec,
    responses: IntGaugeVec,
    files: IntGaugeVec,
    build_ids: IntGaugeVec,
    ready: IntGaugeVec,
}

impl ScanMeter {
    /// A file was looked at; `ending` is that of an archive, from a closed set.
    pub fn scanned(&self, ending: Option<&str>, size_bytes: u64) {
        let source = ending.map_or_else(|| "file".to_owned(), archive);
        self.scanned.with_label_values(&[&source]).inc();
        self.scanned_bytes
            .with_label_values(&[&source])
            .inc_by(size_bytes);
    }

    /// So many executables and debug files were found in it.
    pub fn found(&self, ending: Option<&str>, executables: u64, debuginfos: u64) {
        let source = ending.map_or_else(|| "files".to_owned(), archive);
        self.executables
            .with_label_values(&[&source])
            .inc_by(executables);
        self.debuginfos
            .with_label_values(&[&source])
            .inc_by(debuginfos);
    }

    /// A binary was converted, and names so many sources.
    pub fn found_sources(&self, ending: Option<&str>, sources: u64) {
        let source = ending.map_or_else(|| "files".to_owned(), archive);
        self.sourcerefs
            .with_label_values(&[&source])
            .inc_by(sources);
    }

    /// Something could not be read.
    pub fn failed(&self) {
        self.errors.with_label_values::<&str>(&[]).inc();
    }

    /// The last scan could not read so many files and folders.
    pub fn unread(&self, count: usize) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.unread.with_label_values::<&str>(&[]).set(count);
    }

    /// Somebody works as long as the answer lives.
    pub fn busy(&self, role: ScanRole) -> Running {
        Running::start(self.busy.with_label_values(&[role.as_str()]))
    }

    /// A piece of work is done.
    pub fn done(&self, role: ScanRole) {
        self.work.with_label_values(&[role.as_str()]).inc();
    }

    /// One more file waits to be looked at.
    pub fn queued(&self) {
        let scan = ScanRole::Scan.as_str();
        self.pending.with_label_values(&[scan]).inc();
    }

    /// One less.
    pub fn unqueued(&self) {
        let scan = ScanRole::Scan.as_str();
        self.pending.with_label_values(&[scan]).dec();
    }

    /// Files that were forgotten since they are gone or changed, and those that are still as they were.
    pub fn groomed(&self, stale: u64, fresh: u64) {
        self.groomed.with_label_values(&["stale"]).inc_by(stale);
        self.groomed.with_label_values(&["fresh"]).inc_by(fresh);
    }

    /// So much is known now.
    pub fn holds(&self, counts: ScanCounts) {
        let number = |count| i64::try_from(count).unwrap_or(i64::MAX);
        let files = |kind, count| self.files.with_label_values(&[kind]).set(number(count));
        files("served", counts.files);
        files("passed_over", counts.dull);
        let build_ids = number(counts.build_ids);
        self.build_ids.with_label_values::<&str>(&[]).set(build_ids);
        self.groom.with_label_values(&["buildids"]).set(build_ids);
        for (statistic, count) in [
            (
                "files scanned (#)",
                counts.files.saturating_add(counts.dull),
            ),
            ("file d/e", counts.elf_files),
            ("archive d/e", counts.members),
        ] {
            let labels = &[statistic];
            self.groom.with_label_values(labels).set(number(count));
        }
    }

    /// Counts a debuginfod answer by its status.
    pub fn answered(&self, status: u16, artifact_type: &'static str) {
        self.responses
            .with_label_values(&[status.to_string().as_str(), artifact_type])
            .inc();
    }
}

/// The label of an archive.
fn archive(ending: &str) -> String {
    format!("{ending} archive")
}

impl Metrics {
    /// The meter of scanning; from now on its series are there.
    pub fn scan(&self) -> ScanMeter {
        let families = &self.families;
        let meter = ScanMeter {
            scanned: families.scanned_files.clone(),
            scanned_bytes: families.scanned_bytes.clone(),
            executables: families.found_executables.clone(),
            debuginfos: families.found_debuginfos.clone(),
            sourcerefs: families.found_sourcerefs.clone(),
            errors: families.scan_errors.clone(),
            unread: families.scan_unread.clone(),
            work: families.thread_work.clone(),
            pending: families.thread_pending.clone(),
            busy: families.thread_busy.clone(),
            groomed: families.groomed.clone(),
            groom: families.groom.clone(),
            responses: families.debuginfod_responses.clone(),
            files: families.scan_files.clone(),
            build_ids: families.scan_build_ids.clone(),
            ready: families.scan_ready.clone(),
        };
        for role in ScanRole::ALL.map(ScanRole::as_str) {
            meter.work.with_label_values(&[role]).inc_by(0);
            meter.pending.with_label_values(&[role]).set(0);
            meter.busy.with_label_values(&[role]).set(0);
        }
        for role in ["http-buildid", "http-metrics"] {
            meter.busy.with_label_values(&[role]).set(0);
        }
        meter.errors.with_label_values::<&str>(&[]).inc_by(0);
        meter.unread(0);
        meter.groomed(0, 0);
        meter.holds(ScanCounts::default());
        meter.ready.with_label_values::<&str>(&[]).set(1);
        meter
    }
}
