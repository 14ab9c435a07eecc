//! Debug files that lie in folders of this machine, or in packages there, served from where they lie.
//!
//! What is there and what is away ([`away`]) is told apart, and what could not be seen ([`sight`]) is
//! never said to be absent. A round ([`pass`]) looks at what is new or changed: [`look`] reads headers and notes ([`headers`]),
//! or goes through an archive ([`packages`]); the [`catalogue`] has the result in memory, [`kept`] on
//! disk. A question finds its candidates in the catalogue, and [`open`] opens one only if it still is
//! what it was. Members of archives are unpacked into a bounded folder ([`members`]); symbol indexes
//! are made when they are asked for, by the same converter as the store's ([`indexes`]); [`sources`]
//! serves what a binary names. [`crate::artifacts::InPlace`] is the seam.

mod away;
mod catalogue;
mod entry;
mod folder;
mod headers;
mod in_place;
mod indexes;
mod kept;
mod look;
mod members;
mod names;
mod open;
mod packages;
mod pass;
mod roots;
mod sight;
mod sources;

pub use names::NamedFile;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::away::Roots;
use self::catalogue::Catalogue;
use self::folder::Place;
use self::indexes::Indexes;
use self::look::Looking;
use self::members::Members;
use self::packages::PackageLimits;
use self::pass::Round;
use self::sight::Sight;
use self::sources::SourceNames;
use crate::archive::ArchiveLimits;
use crate::artifacts::single_flight::SingleFlight;
use crate::artifacts::{Clock, LocateError};
use crate::config::ScanConfig;
use crate::conversion::Convert;
use crate::limits::Limits;
use crate::metrics::{Cache, Metrics, ScanMeter, ScanRole};

/// The folder of this room in the data folder.
const FOLDER: &str = "scan";
/// The file in it that says what is known.
const KEPT: &str = "files.zst";

/// The pause after a scan that could not read everything; it doubles from one to the next. A path
/// that was away and is back is scanned as soon as somebody asks for anything.
const RETRY_PAUSE_FIRST: Duration = Duration::from_secs(10);
/// The longest pause after a scan that could not read everything: the usual one between two scans.
const RETRY_PAUSE_MAX: Duration = Duration::from_mins(5);

/// The scanned folders of a server. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Scan {
    inner: Arc<Inner>,
}

/// What a [`Scan`] is made of.
#[derive(Debug)]
pub struct ScanParts<'a> {
    /// What is scanned.
    pub config: ScanConfig,
    /// The data folder of the server, on its own disk.
    pub data: &'a Path,
    /// Where files lie on their way, on the same disk; emptied by each start.
    pub staging: &'a Path,
    /// What makes symbol indexes.
    pub converter: Arc<dyn Convert>,
    /// Bounds on archives, caches and sources.
    pub limits: &'a Limits,
    /// What time it is.
    pub clock: Clock,
    /// Where it is counted.
    pub metrics: &'a Metrics,
    /// Counts what goes on behind requests; a stop waits for it.
    pub tasks: TaskTracker,
    /// Cancelled at a stop.
    pub stopping: CancellationToken,
}

#[derive(Debug)]
struct Inner {
    looking: Looking,
    catalogue: Catalogue,
    sight: parking_lot::RwLock<Arc<Sight>>,
    root_looks: SingleFlight<(), Result<Arc<Roots>, LocateError>>,
    /// The data folder.
    own: PathBuf,
    rounds: AtomicU32,
    /// The round that somebody who looked something up has asked for.
    asked_for: AtomicU32,
    /// The version that was saved, and whether everything was seen then.
    saved: parking_lot::Mutex<(u64, bool)>,
    members: Members,
    indexes: Indexes,
    source_names: SourceNames,
    source_bytes_max: u64,
    clock: Clock,
    meter: ScanMeter,
    tasks: TaskTracker,
    stopping: CancellationToken,
    rescan: Notify,
    groom: Notify,
}

impl Scan {
    /// What earlier servers found in these folders; [`Self::run`] goes on from there.
    ///
    /// # Errors
    /// If the data folder cannot be used.
    pub fn open(parts: ScanParts<'_>) -> io::Result<Self> {
        std::fs::create_dir_all(parts.data.join(FOLDER))?;
        let own = std::fs::canonicalize(parts.data)?;
        let (config, limits) = (parts.config, parts.limits);
        let kept::Kept {
            catalogue,
            is_complete,
        } = known_before(&own, &config);
        let place = |name, bytes_max, cache| Place {
            folder: own.join(FOLDER).join(name),
            staging: parts.staging,
            bytes_max,
            free_bytes_min: limits.free_disk_bytes_min,
            meter: parts.metrics.cache(cache),
        };
        let packages = PackageLimits {
            archive: ArchiveLimits {
                member_bytes_max: limits.scan_member_bytes_max,
                ..ArchiveLimits::default()
            },
            staging: parts.staging.to_owned(),
            stopping: parts.stopping.clone(),
        };
        let meter = parts.metrics.scan();
        meter.holds(catalogue.counts());
        let sight = Sight::before_scans(&config.paths, is_complete);
        let inner = Inner {
            sight: parking_lot::RwLock::new(Arc::new(sight)),
            root_looks: SingleFlight::new(parts.tasks.clone()),
            saved: parking_lot::Mutex::new((catalogue.version(), is_complete)),
            catalogue,
            rounds: AtomicU32::new(0),
            asked_for: AtomicU32::new(0),
            members: Members::open(
                place(
                    "members",
                    limits.scan_members_bytes_max,
                    Cache::ScannedMembers,
                ),
                packages.clone(),
                parts.tasks.clone(),
            )?,
            indexes: Indexes::open(
                place(
                    "indexes",
                    limits.scan_indexes_bytes_max,
                    Cache::ScannedIndexes,
                ),
                parts.converter,
                parts.tasks.clone(),
            )?,
            source_names: SourceNames::default(),
            source_bytes_max: limits.sources_file_bytes_max,
            looking: Looking {
                config,
                limits: packages,
            },
            own,
            clock: parts.clock,
            meter,
            tasks: parts.tasks,
            stopping: parts.stopping,
            rescan: Notify::new(),
            groom: Notify::new(),
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// Scans and grooms until the stop, at their intervals and when it is told to.
    pub fn run(&self) {
        let inner = Arc::clone(&self.inner);
        self.inner.tasks.spawn(async move { inner.run().await });
    }

    /// Scans as soon as what runs is over.
    pub fn rescan(&self) {
        self.inner.rescan.notify_one();
    }

    /// Forgets what is gone as soon as what runs is over.
    pub fn groom(&self) {
        self.inner.groom.notify_one();
    }

    /// Counts an answer to a debuginfod client.
    pub fn answered(&self, status: u16, artifact_type: &'static str) {
        self.inner.meter.answered(status, artifact_type);
    }
}

/// What earlier servers found.
fn known_before(own: &Path, config: &ScanConfig) -> kept::Kept {
    match kept::load(&own.join(FOLDER).join(KEPT), config) {
        Ok(kept) => kept.unwrap_or_default(),
        Err(error) => {
            tracing::warn!(%error, "what earlier scans found cannot be read, all is scanned anew: {error}");
            kept::Kept::default()
        }
    }
}

impl Inner {
    async fn run(self: Arc<Self>) {
        let config = self.looking.config.clone();
        let mut retry_pause = RETRY_PAUSE_FIRST;
        let mut scan_at = self.scan(&mut retry_pause).await;
        if !config.groom_every.is_zero() {
            self.clone().blocking(Self::groom_once).await;
        }
        let mut groom_at = after(config.groom_every);
        while !self.stopping.is_cancelled() {
            tokio::select! {
                () = self.stopping.cancelled() => {}
                () = self.rescan.notified() => scan_at = self.scan(&mut retry_pause).await,
                () = self.groom.notified() => self.clone().blocking(Self::groom_once).await,
                () = until(scan_at) => scan_at = self.scan(&mut retry_pause).await,
                () = until(groom_at) => {
                    self.clone().blocking(Self::groom_once).await;
                    groom_at = after(config.groom_every);
                }
            }
        }
    }

    /// Scans, and answers when to do it again.
    async fn scan(self: &Arc<Self>, retry_pause: &mut Duration) -> Option<tokio::time::Instant> {
        self.clone().blocking(Self::scan_once).await;
        let every = self.looking.config.every;
        if self.sight().is_clear() {
            *retry_pause = RETRY_PAUSE_FIRST;
            return after(every);
        }
        let pause = *retry_pause;
        *retry_pause = pause.saturating_mul(2).min(RETRY_PAUSE_MAX);
        after(if every.is_zero() {
            pause
        } else {
            pause.min(every)
        })
    }

    async fn blocking(self: Arc<Self>, work: impl FnOnce(&Self) + Send + 'static) {
        if let Err(error) = tokio::task::spawn_blocking(move || work(&self)).await {
            tracing::error!(%error, "a scan has failed: {error}");
        }
    }

    /// Scans as soon as what runs is over, once for all who find out meanwhile that it is needed.
    fn rescan_soon(&self) {
        let next = self.rounds.load(Ordering::Relaxed).wrapping_add(1);
        if self.asked_for.swap(next, Ordering::Relaxed) != next {
            self.rescan.notify_one();
        }
    }

    fn scan_once(&self) {
        let number = self.rounds.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let sight = self.sight();
        let rounded = Round {
            roots: &sight.roots,
            looking: &self.looking,
            catalogue: &self.catalogue,
            meter: &self.meter,
            clock: &self.clock,
            stopping: &self.stopping,
            own: &self.own,
            number,
        }
        .run();
        if rounded.is_complete {
            self.meter.unread(rounded.unread.len());
            *self.sight.write() = Arc::new(Sight {
                is_complete: true,
                roots: rounded.roots,
                unread: rounded.unread,
                was_away: rounded.was_away,
            });
            self.meter.done(ScanRole::Traverse);
        }
        let counts = self.catalogue.counts();
        self.meter.holds(counts);
        tracing::info!(
            files = counts.files,
            build_ids = counts.build_ids,
            forgotten = rounded.forgotten,
            failures = rounded.failures,
            "scanned: {} files have something to serve of {} build IDs",
            counts.files,
            counts.build_ids
        );
        if let (true, Err(error)) = (rounded.is_complete, self.sight().check()) {
            tracing::warn!(%error, "no build ID counts as absent until the next scan: {error}");
        }
        self.save();
    }

    fn groom_once(&self) {
        let _busy = self.meter.busy(ScanRole::Groom);
        let groomed = pass::groom(&self.catalogue, &self.sight().roots, &self.stopping);
        if groomed.changed > 0 {
            self.rescan_soon();
        }
        let (stale, fresh) = (groomed.gone.saturating_add(groomed.changed), groomed.fresh);
        self.meter.groomed(stale, fresh);
        self.meter.holds(self.catalogue.counts());
        self.save();
        self.meter.done(ScanRole::Groom);
        tracing::info!(stale, fresh, "groomed: {stale} files are gone or changed");
    }

    fn save(&self) {
        let version = self.catalogue.version();
        let path = self.own.join(FOLDER).join(KEPT);
        // The next server sees no more than this one until it has scanned.
        let is_complete = self.sight().is_clear();
        if *self.saved.lock() == (version, is_complete) && path.exists() {
            return;
        }
        match kept::save(&path, &self.looking.config, (&self.catalogue, is_complete)) {
            Ok(()) => *self.saved.lock() = (version, is_complete),
            Err(error) => {
                tracing::warn!(%error, "what scans found is not kept over a restart: {error}");
            }
        }
    }
}

/// The end of a pause; none when it has none.
fn after(pause: Duration) -> Option<tokio::time::Instant> {
    let now = tokio::time::Instant::now();
    (!pause.is_zero()).then(|| now.checked_add(pause)).flatten()
}

async fn until(end: Option<tokio::time::Instant>) {
    match end {
        Some(end) => tokio::time::sleep_until(end).await,
        None => std::future::pending().await,
    }
}
