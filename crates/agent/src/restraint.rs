//! How much of the host the agent takes, and what it does when that is too much: fewer samples.
//!
//! Its own processor time is compared with the budget over 30 s at a time. Over it, the rate is halved; when the double would fit for
//! five minutes, it is doubled again, up to what was asked for. What the kernel does for each sample, in the interrupt of whoever
//! runs, is nobody's time and not in it; it falls with the rate, too.

use std::fs;
use std::time::{Duration, Instant};

use crate::metrics::Usage;

/// How long the agent's time is added up before it is judged: reading the tables of one large binary takes a second.
const WINDOW: Duration = Duration::from_secs(30);
/// How long nothing is judged after the start, when everything that runs is read.
const GRACE: Duration = Duration::from_mins(1);
/// Windows in a row in which the double rate would have fitted, before it is tried.
const CALM_WINDOWS: u32 = 10;

/// A budget, and the rate that keeps it.
#[derive(Clone, Debug)]
pub struct Restraint {
    wanted: u32,
    rate: u32,
    /// Of all processors' time, from 0 to 1.
    share_max: f64,
    processors: f64,
    window: Option<(Instant, Duration)>,
    graced_until: Option<Instant>,
    calm: u32,
}

/// What is to be changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// Fewer samples a second from now on, since the agent took this share of the host.
    Slower(u32, f64),
    /// More again.
    Faster(u32),
}

impl Restraint {
    /// A rate that is wanted, and the share of so many processors' time that may be used for it, from 0 to 1.
    pub fn new(samples_per_second: u32, share_max: f64, processors: usize) -> Self {
        let processors = u32::try_from(processors.max(1)).unwrap_or(u32::MAX);
        Self {
            wanted: samples_per_second,
            rate: samples_per_second,
            share_max,
            processors: f64::from(processors),
            window: None,
            graced_until: None,
            calm: 0,
        }
    }

    /// The rate of now.
    pub fn rate(&self) -> u32 {
        self.rate
    }

    /// Looks at what the agent has used so far.
    pub fn observe(&mut self, now: Instant, used: Duration) -> Option<Change> {
        let graced_until = *self.graced_until.get_or_insert(now + GRACE);
        let (since, before) = *self.window.get_or_insert((now, used));
        let took = now.saturating_duration_since(since);
        if took < WINDOW {
            return None;
        }
        self.window = Some((now, used));
        if now < graced_until {
            return None;
        }
        let share = used.saturating_sub(before).div_duration_f64(took) / self.processors;
        if share > self.share_max {
            self.calm = 0;
            let slower = (self.rate / 2).max(1);
            if slower == self.rate {
                return None;
            }
            self.rate = slower;
            return Some(Change::Slower(slower, share));
        }
        let fits_double = share * 2.0 < self.share_max;
        self.calm = if fits_double { self.calm + 1 } else { 0 };
        if self.rate == self.wanted || self.calm < CALM_WINDOWS {
            return None;
        }
        self.calm = 0;
        self.rate = self.rate.saturating_mul(2).min(self.wanted);
        Some(Change::Faster(self.rate))
    }
}

/// Blocks from so many bytes on are given back to the system when they are free: tables of large binaries take tens of megabytes while they are
/// made, which would stay with the process otherwise.
#[cfg(target_env = "gnu")]
const KEPT_BLOCK_BYTES: libc::c_int = 256 << 10;

/// Has the allocator give back what is free, for as long as the process lives. To be called before there are other threads.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "glibc's settings have no other interface")]
pub fn keep_memory_small() {
    // SAFETY: mallopt takes two numbers, and no other thread allocates meanwhile.
    unsafe {
        // One arena: few threads allocate, and each arena keeps what it once had.
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_MMAP_THRESHOLD, KEPT_BLOCK_BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_BLOCK_BYTES);
    }
}

/// Other allocators are left as they are.
#[cfg(not(target_env = "gnu"))]
pub fn keep_memory_small() {}

/// What the agent has used so far, as the kernel counts; nothing where it does not say.
pub fn usage() -> Usage {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_ascii_whitespace().nth(1);
    let pages: u64 = pages.and_then(|pages| pages.parse().ok()).unwrap_or(0);
    let page_bytes = u64::try_from(rustix::param::page_size()).unwrap_or(u64::MAX);
    Usage {
        cpu: cpu_time(&stat).unwrap_or_default(),
        resident_bytes: pages.saturating_mul(page_bytes),
    }
}

/// User and system time of `/proc/self/stat`: the 14th and 15th word, counted by proc(5), where the second is the program's name in
/// parentheses and may have spaces.
fn cpu_time(stat: &str) -> Option<Duration> {
    let (_, words) = stat.rsplit_once(") ")?;
    let mut words = words.split_whitespace().skip(11);
    let mut ticks = || words.next()?.parse::<u32>().ok();
    let ticks = f64::from(ticks()?) + f64::from(ticks()?);
    let per_second = u32::try_from(rustix::param::clock_ticks_per_second()).ok()?;
    Some(Duration::from_secs_f64(ticks / f64::from(per_second)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One percent of two processors: 600 ms in 30 s.
    struct Host {
        restraint: Restraint,
        now: Instant,
        used: Duration,
    }

    impl Host {
        fn new() -> Self {
            let mut host = Self {
                restraint: Restraint::new(19, 0.01, 2),
                now: Instant::now(),
                used: Duration::from_secs(9),
            };
            // The start and the grace: it reads everything.
            assert_eq!(host.restraint.observe(host.now, host.used), None);
            assert_eq!(host.window(20_000), None);
            host
        }

        /// A window in which so much was used.
        fn window(&mut self, millis: u64) -> Option<Change> {
            self.now += WINDOW;
            self.used += Duration::from_millis(millis);
            self.restraint.observe(self.now, self.used)
        }
    }

    #[test]
    fn over_the_budget_the_rate_is_halved_down_to_one() {
        let mut host = Host::new();
        assert_eq!(host.window(599), None);
        assert_eq!(host.window(1200), Some(Change::Slower(9, 0.02)));
        for expected in [4, 2, 1] {
            assert_eq!(host.window(1200), Some(Change::Slower(expected, 0.02)));
        }
        assert_eq!(host.window(1200), None);
        assert_eq!(host.restraint.rate(), 1);
    }

    #[test]
    fn the_rate_comes_back_when_the_double_would_fit_for_long() {
        let mut host = Host::new();
        assert!(matches!(host.window(700), Some(Change::Slower(9, _))));
        for _ in 1..CALM_WINDOWS {
            assert_eq!(host.window(299), None);
        }
        // It would not have fitted here.
        assert_eq!(host.window(301), None);
        for _ in 1..CALM_WINDOWS {
            assert_eq!(host.window(299), None);
        }
        assert_eq!(host.window(299), Some(Change::Faster(18)));
        for _ in 1..CALM_WINDOWS {
            assert_eq!(host.window(1), None);
        }
        assert_eq!(host.window(1), Some(Change::Faster(19)));
        for _ in 0..2 * CALM_WINDOWS {
            assert_eq!(host.window(1), None);
        }
    }

    #[test]
    fn parts_of_a_window_are_not_judged() {
        let mut host = Host::new();
        host.now += Duration::from_secs(1);
        host.used += Duration::from_secs(1);
        assert_eq!(host.restraint.observe(host.now, host.used), None);
    }

    #[test]
    fn the_kernel_says_what_this_process_uses() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 0 0 0 0 0 250 50 0 0 20 0";
        let ticks = rustix::param::clock_ticks_per_second();
        assert_eq!(ticks, 100);
        assert_eq!(cpu_time(stat), Some(Duration::from_secs(3)));
        assert!(usage().resident_bytes > 1 << 20);
    }
}
