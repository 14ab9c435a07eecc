//! Which folders are scanned for debug files that are served from where they lie.
//!
//! The flags are those of the reference server under longer names, so that whoever replaces it finds
//! each again.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;
use regex::Regex;
use serde::Deserialize;

use crate::limits::{Count, Seconds};

/// Threads that look at files, unless more are asked for: disks serve a few at once, and each may
/// unpack an archive.
const THREADS: usize = 4;

/// What can be set of scanning.
#[derive(Clone, Debug)]
pub struct ScanConfig {
    /// Files and folders; none means that nothing is scanned.
    pub paths: Vec<PathBuf>,
    /// What is looked at there.
    pub kinds: Vec<ScanKind>,
    /// Endings of further archives, with their dot.
    pub archives: Vec<String>,
    /// Paths that match, anywhere, are looked at; all without it.
    pub include: Option<Pattern>,
    /// Paths that match, anywhere, are not.
    pub exclude: Option<Pattern>,
    /// Whether links are followed, also out of the paths.
    pub follow_links: bool,
    /// The pause between two scans; zero means that there is one, at the start.
    pub every: Duration,
    /// The pause between two groomings; zero means that there is none but on demand.
    pub groom_every: Duration,
    /// Threads that look at files.
    pub threads: usize,
}

impl Default for ScanConfig {
    fn default() -> Self {
        Self {
            paths: Vec::new(),
            kinds: ScanKind::ALL.to_vec(),
            archives: Vec::new(),
            include: None,
            exclude: None,
            follow_links: false,
            every: Duration::from_mins(5),
            groom_every: Duration::from_hours(24),
            threads: std::thread::available_parallelism()
                .map_or(1, |cores| cores.get().min(THREADS)),
        }
    }
}

/// A kind of file that is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScanKind {
    /// ELF files: programs, libraries, debug files, kernels.
    Elf,
    /// Debian packages: `.deb`, `.ddeb`, `.udeb`.
    Deb,
    /// RPM packages.
    Rpm,
    /// Tar archives, compressed or not.
    Tar,
}

impl ScanKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Elf, Self::Deb, Self::Rpm, Self::Tar];
}

/// A regular expression that is looked for anywhere in a path.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub struct Pattern(Regex);

/// A text that is no [`Pattern`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no regular expression: {0}")]
pub struct ParsePatternError(String);

impl Pattern {
    /// Whether it is in `path`.
    pub fn is_in(&self, path: &str) -> bool {
        self.0.is_match(path)
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl FromStr for Pattern {
    type Err = ParsePatternError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let regex = Regex::new(text);
        regex
            .map(Self)
            .map_err(|error| ParsePatternError(error.to_string()))
    }
}

impl TryFrom<String> for Pattern {
    type Error = ParsePatternError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

/// The flags, variables and settings of the file; there under `[scan]`, without `scan_`.
#[derive(Clone, Debug, Default, clap::Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[command(next_help_heading = "Scanned folders")]
pub struct ScanSettings {
    /// A folder whose debug files, programs and packages are served from where they lie; may be given
    /// several times. In the file `paths` under `[scan]`.
    ///
    /// Nothing is copied into the store. Source files that a binary there names are served, too, if they
    /// lie in one of these folders or in an archive there. SIGUSR1 scans at once, SIGUSR2 grooms.
    #[arg(long = "scan", env = "UNHEX_SCAN", value_name = "PATH")]
    #[serde(rename = "paths")]
    pub scan_paths: Option<Vec<PathBuf>>,
    /// What is looked at [default: elf,deb,rpm,tar].
    #[arg(
        long,
        env = "UNHEX_SCAN_KINDS",
        value_name = "KIND",
        value_delimiter = ','
    )]
    #[serde(rename = "kinds")]
    pub scan_kinds: Option<Vec<ScanKind>>,
    /// Another ending of archives, such as `.tar.xz.backup`; the first bytes tell what they are.
    #[arg(
        long = "scan-archive",
        env = "UNHEX_SCAN_ARCHIVES",
        value_name = "ENDING",
        value_delimiter = ',',
        hide_short_help = true
    )]
    #[serde(rename = "archives")]
    pub scan_archives: Option<Vec<String>>,
    /// Only files whose whole path has a match of this regular expression are looked at.
    #[arg(long, env = "UNHEX_SCAN_INCLUDE", value_name = "REGEX")]
    #[serde(rename = "include")]
    pub scan_include: Option<Pattern>,
    /// Files whose whole path has a match of this regular expression are not looked at.
    #[arg(long, env = "UNHEX_SCAN_EXCLUDE", value_name = "REGEX")]
    #[serde(rename = "exclude")]
    pub scan_exclude: Option<Pattern>,
    /// Follows symbolic links, also those that lead out of the scanned folders.
    #[arg(long, env = "UNHEX_SCAN_FOLLOW_LINKS", num_args = 0..=1,
          default_missing_value = "true", require_equals = true, value_name = "true|false")]
    #[serde(rename = "follow_links")]
    pub scan_follow_links: Option<bool>,
    /// The pause between two scans; 0 scans once, at the start [default: 5 m].
    #[arg(long, env = "UNHEX_SCAN_INTERVAL", value_name = "TIME")]
    #[serde(rename = "interval")]
    pub scan_interval: Option<Seconds>,
    /// The pause between two groomings, which forget what is gone; 0 for none [default: 24 h].
    #[arg(long, env = "UNHEX_SCAN_GROOM_INTERVAL", value_name = "TIME")]
    #[serde(rename = "groom_interval")]
    pub scan_groom_interval: Option<Seconds>,
    /// Threads that look at files [default: as many as processors, at most 4].
    #[arg(
        long,
        env = "UNHEX_SCAN_THREADS",
        value_name = "N",
        hide_short_help = true
    )]
    #[serde(rename = "threads")]
    pub scan_threads: Option<Count>,
}

impl ScanSettings {
    /// These settings, and those of `under` where these have none.
    pub(super) fn over(self, under: Self) -> Self {
        Self {
            scan_paths: self.scan_paths.or(under.scan_paths),
            scan_kinds: self.scan_kinds.or(under.scan_kinds),
            scan_archives: self.scan_archives.or(under.scan_archives),
            scan_include: self.scan_include.or(under.scan_include),
            scan_exclude: self.scan_exclude.or(under.scan_exclude),
            scan_follow_links: self.scan_follow_links.or(under.scan_follow_links),
            scan_interval: self.scan_interval.or(under.scan_interval),
            scan_groom_interval: self.scan_groom_interval.or(under.scan_groom_interval),
            scan_threads: self.scan_threads.or(under.scan_threads),
        }
    }

    /// With defaults for what nobody said.
    pub(super) fn resolve(self) -> ScanConfig {
        let defaults = ScanConfig::default();
        let time = |set: Option<Seconds>, usual| set.map_or(usual, Seconds::duration);
        ScanConfig {
            paths: self.scan_paths.unwrap_or(defaults.paths),
            kinds: self.scan_kinds.unwrap_or(defaults.kinds),
            archives: self.scan_archives.unwrap_or(defaults.archives),
            include: self.scan_include,
            exclude: self.scan_exclude,
            follow_links: self.scan_follow_links.unwrap_or(defaults.follow_links),
            every: time(self.scan_interval, defaults.every),
            groom_every: time(self.scan_groom_interval, defaults.groom_every),
            threads: self
                .scan_threads
                .map_or(defaults.threads, Count::number)
                .max(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_looked_for_anywhere_in_a_path() {
        let pattern: Pattern = r"/usr/lib/debug|\.ko$".parse().unwrap();
        assert!(pattern.is_in("/mnt/usr/lib/debug/x") && pattern.is_in("/m/a.ko"));
        assert!(!pattern.is_in("/m/a.ko.xz"));
        assert!("(".parse::<Pattern>().is_err());
    }

    #[test]
    fn the_file_has_the_names_without_the_word_scan() {
        let settings: ScanSettings = toml::from_str(
            "paths = ['/a', '/b']\nkinds = ['deb']\ninterval = '10m'\nexclude = 'x'\nthreads = 0",
        )
        .unwrap();
        let config = settings.resolve();
        assert_eq!(config.paths.len(), 2);
        assert_eq!(config.kinds, [ScanKind::Deb]);
        assert_eq!((config.every.as_secs(), config.threads), (600, 1));
        assert!(
            config
                .exclude
                .is_some_and(|exclude| exclude.as_str() == "x")
        );
        assert!(toml::from_str::<ScanSettings>("path = ['/a']").is_err());
    }
}
