//! The lines of the log, written many at once by a thread of their own.
//!
//! A request that writes its own line waits for whoever takes it, and for the lock of standard error
//! beside all other requests. So lines gather here and go out together, a few milliseconds later at
//! the most. Whoever is slow to take them is waited for; when nobody takes any, lines are lost and
//! counted, since a server does not stop answering for its log. A process that is killed loses what it
//! has gathered, and one whose standard error was closed has nowhere to write.

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tracing_subscriber::fmt::MakeWriter;

/// How long lines gather before they are written.
const GATHERING: Duration = Duration::from_millis(2);

/// How much may wait to be written: some 4,000 lines.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// How long somebody with a line waits for room, before lines are lost until there is some.
const ROOM_PATIENCE: Duration = Duration::from_secs(1);

/// How long the end waits for somebody to take the last lines.
const END_PATIENCE: Duration = Duration::from_secs(2);

/// What makes writers for lines.
#[derive(Clone)]
pub(super) struct LogLines(Arc<Shared>);

/// Writes what is left and ends the thread when it is dropped.
#[derive(Debug)]
pub(super) struct LogEnd {
    lines: LogLines,
}

struct Shared {
    waiting: Mutex<Waiting>,
    /// There is a first line, or the end.
    begun: Condvar,
    /// There is room again, or nobody writes any more.
    taken: Condvar,
}

#[derive(Default)]
struct Waiting {
    text: Vec<u8>,
    /// Nobody took anything for so long that nobody waits for it any more.
    stalled: bool,
    /// Lines that were lost since the last ones were taken.
    lost: u64,
    /// No more lines are taken in.
    ended: bool,
    /// The thread is gone, with all lines written or not.
    gone: bool,
}

/// Says that the thread is gone, even when it panics.
struct Gone<'a>(&'a Shared);

impl LogLines {
    /// Lines that go to `out`, until the end is dropped. Those that come later go nowhere.
    ///
    /// # Errors
    /// If the system has no thread.
    pub(super) fn to(out: impl Write + Send + 'static) -> io::Result<(Self, LogEnd)> {
        let lines = Self(Arc::new(Shared {
            waiting: Mutex::default(),
            begun: Condvar::new(),
            taken: Condvar::new(),
        }));
        let shared = Arc::clone(&lines.0);
        let writer = thread::Builder::new().name("log".to_owned());
        writer.spawn(move || shared.write_to(out))?;
        let end = LogEnd {
            lines: lines.clone(),
        };
        Ok((lines, end))
    }
}

impl Shared {
    fn add(&self, line: &[u8]) {
        let mut waiting = self.waiting.lock();
        let deadline = Instant::now() + ROOM_PATIENCE;
        while waiting.is_full() && !waiting.stalled && !waiting.ended {
            let elapsed = self.taken.wait_until(&mut waiting, deadline).timed_out();
            waiting.stalled |= elapsed && waiting.is_full();
        }
        if waiting.is_full() || waiting.ended {
            waiting.lost = waiting.lost.saturating_add(1);
            return;
        }
        let is_first = waiting.text.is_empty();
        waiting.text.extend_from_slice(line);
        drop(waiting);
        if is_first {
            self.begun.notify_one();
        }
    }

    fn write_to(&self, mut out: impl Write) {
        let _gone = Gone(self);
        let mut text = Vec::new();
        loop {
            let mut waiting = self.waiting.lock();
            while waiting.text.is_empty() && !waiting.ended {
                self.begun.wait(&mut waiting);
            }
            if !waiting.ended {
                drop(waiting);
                thread::sleep(GATHERING);
                waiting = self.waiting.lock();
            }
            std::mem::swap(&mut text, &mut waiting.text);
            let is_last = waiting.ended;
            waiting.stalled = false;
            let lost = std::mem::take(&mut waiting.lost);
            drop(waiting);
            self.taken.notify_all();
            // There is no other place to say that nobody takes them.
            let _nobody_takes_them = out.write_all(&text).and_then(|()| out.flush());
            if lost > 0 {
                tracing::warn!(
                    lost,
                    "{lost} lines of the log are lost, since nobody took them"
                );
            }
            if is_last {
                return;
            }
            text.clear();
        }
    }
}

impl Waiting {
    fn is_full(&self) -> bool {
        self.text.len() >= WAITING_BYTES_MAX
    }
}

impl fmt::Debug for LogLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogLines").finish_non_exhaustive()
    }
}

impl Write for &LogLines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.add(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogLines {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> &'a Self {
        self
    }
}

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        let mut waiting = self.0.waiting.lock();
        waiting.ended = true;
        waiting.gone = true;
        drop(waiting);
        self.0.taken.notify_all();
    }
}

impl Drop for LogEnd {
    fn drop(&mut self) {
        let shared = &self.lines.0;
        let mut waiting = shared.waiting.lock();
        waiting.ended = true;
        shared.begun.notify_one();
        shared.taken.notify_all();
        let deadline = Instant::now() + END_PATIENCE;
        while !waiting.gone && !shared.taken.wait_until(&mut waiting, deadline).timed_out() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps what is written, once it is allowed to.
    #[derive(Clone, Default)]
    struct Kept(Arc<(Mutex<Vec<u8>>, Mutex<()>)>);

    impl Write for Kept {
        fn write(&mut self, text: &[u8]) -> io::Result<usize> {
            let _allowed = self.0.1.lock();
            self.0.0.lock().extend_from_slice(text);
            Ok(text.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_of_many_threads_come_whole_and_all_of_them() {
        let kept = Kept::default();
        let (lines, end) = LogLines::to(kept.clone()).unwrap();
        thread::scope(|scope| {
            for name in 0..4 {
                let lines = &lines;
                scope.spawn(move || {
                    for number in 0..1_000 {
                        let line = format!("{name} {number}\n");
                        lines.make_writer().write_all(line.as_bytes()).unwrap();
                    }
                });
            }
        });
        drop(end);
        let text = String::from_utf8(kept.0.0.lock().clone()).unwrap();
        for name in 0..4 {
            let of_one = text.lines().filter_map(|line| {
                let (from, number) = line.split_once(' ').expect("a whole line");
                (from == name.to_string()).then(|| number.parse::<u32>().unwrap())
            });
            assert!(of_one.eq(0..1_000), "the lines of {name}");
        }
    }

    #[test]
    fn lines_that_nobody_takes_are_lost_and_hold_up_nobody() {
        let kept = Kept::default();
        let (lines, end) = LogLines::to(kept.clone()).unwrap();
        let nobody_reads = kept.0.1.lock();
        let line = vec![b'x'; WAITING_BYTES_MAX];
        while lines.0.waiting.lock().lost < 100 {
            lines.make_writer().write_all(&line).unwrap();
        }
        drop(nobody_reads);
        drop(end);
        let written = kept.0.0.lock().len();
        assert!(
            (line.len()..=2 * line.len()).contains(&written),
            "{written}"
        );
    }

    #[test]
    fn whoever_has_a_line_waits_for_one_that_is_slow() {
        let kept = Kept::default();
        let (lines, end) = LogLines::to(kept.clone()).unwrap();
        let nobody_reads = kept.0.1.lock();
        let line = vec![b'x'; WAITING_BYTES_MAX / 2];
        thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for _ in 0..8 {
                    lines.make_writer().write_all(&line).unwrap();
                }
            });
            // What is being written, and what waits; the rest is still to come.
            while lines.0.waiting.lock().text.len() < WAITING_BYTES_MAX {
                thread::yield_now();
            }
            drop(nobody_reads);
            writer.join().unwrap();
        });
        drop(end);
        assert_eq!(kept.0.0.lock().len(), 8 * line.len());
        lines.make_writer().write_all(b"too late").unwrap();
        assert_eq!(kept.0.0.lock().len(), 8 * line.len());
    }

    #[test]
    fn nobody_waits_for_a_thread_that_is_gone() {
        struct Trap;
        impl Write for Trap {
            fn write(&mut self, _text: &[u8]) -> io::Result<usize> {
                panic!("as told");
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (lines, end) = LogLines::to(Trap).unwrap();
        let line = vec![b'x'; WAITING_BYTES_MAX];
        for _ in 0..4 {
            lines.make_writer().write_all(&line).unwrap();
        }
        drop(end);
    }
}
