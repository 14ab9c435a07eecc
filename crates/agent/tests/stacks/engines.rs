//! The same programs for each engine: one list, so that no engine is let off.

use std::sync::{Mutex, MutexGuard, PoisonError};

use unhex_agent::engine::Engine;
use unhex_agent::engine::ebpf::{Ebpf, EbpfSettings};
use unhex_agent::engine::perf_copy::{PerfCopy, PerfCopySettings};
use unhex_agent::processes::Processes;

use crate::privileges::{may_follow_all_processes, skip};
use crate::programs;

/// Samples a second: fast enough that each program is seen some hundred times in less than a second. Prime, so that it
/// is in step with nothing.
const SAMPLES_PER_SECOND: u32 = 997;

/// An engine that takes samples, and what it knows of processes. Engines look at all processes: one at a time is enough
/// of that.
pub(crate) enum Opened {
    Own {
        engine: Box<dyn Engine>,
        processes: Box<Processes>,
        _alone: MutexGuard<'static, ()>,
    },
    /// Its tables are those of the whole host, and cost seconds on a busy one: all tests have the same.
    Shared {
        engine: MutexGuard<'static, Option<(Ebpf, Processes)>>,
        _alone: MutexGuard<'static, ()>,
    },
}

impl Opened {
    pub(crate) fn parts(&mut self) -> (&mut dyn Engine, &mut Processes) {
        match self {
            Self::Own {
                engine, processes, ..
            } => (engine.as_mut(), processes),
            Self::Shared { engine, .. } => {
                let (engine, processes) = engine.as_mut().unwrap();
                (engine, processes)
            }
        }
    }
}

/// A test that failed is no reason for others to fail.
fn locked<T>(mutex: &'static Mutex<T>) -> MutexGuard<'static, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

static ALONE: Mutex<()> = Mutex::new(());

/// `None` where the privileges are missing, after saying so.
pub(crate) fn open_perf_copy() -> Option<Opened> {
    if !may_follow_all_processes() {
        return None;
    }
    let alone = locked(&ALONE);
    let mut processes = Processes::default();
    let settings = PerfCopySettings {
        samples_per_second: SAMPLES_PER_SECOND,
        stack_bytes: 65_000,
        ..PerfCopySettings::default()
    };
    let engine = PerfCopy::open(settings, &mut processes).unwrap();
    Some(Opened::Own {
        engine: Box::new(engine),
        processes: Box::new(processes),
        _alone: alone,
    })
}

/// `None` where the privileges are missing or the kernel is too old, after saying so.
pub(crate) fn open_ebpf() -> Option<Opened> {
    static SHARED: Mutex<Option<(Ebpf, Processes)>> = Mutex::new(None);
    if !may_follow_all_processes() {
        return None;
    }
    let alone = locked(&ALONE);
    let mut shared = locked(&SHARED);
    if shared.is_none() {
        let mut processes = Processes::default();
        let settings = EbpfSettings {
            samples_per_second: SAMPLES_PER_SECOND,
            ..EbpfSettings::default()
        };
        match Ebpf::start(settings, &mut processes) {
            Ok(engine) => *shared = Some((engine, processes)),
            Err(error) => {
                skip(&error.to_string());
                return None;
            }
        }
    }
    Some(Opened::Shared {
        engine: shared,
        _alone: alone,
    })
}

/// One test a program for an engine.
macro_rules! each_program {
    ($engine:ident, $open:expr; $($program:ident,)*) => {
        mod $engine {
            $(
                #[test]
                fn $program() {
                    super::programs::$program(&$open);
                }
            )*
        }
    };
}

/// The list.
macro_rules! programs_of_engine {
    ($engine:ident, $open:expr) => {
        each_program! {
            $engine, $open;
            deep_recursion_without_frame_pointers,
            a_frame_pointer_that_is_used_for_something_else,
            a_signal_handler_is_called_by_what_it_interrupted,
            calls_of_the_vdso,
            libraries_that_come_and_go,
            a_storm_of_processes,
            calls_through_the_procedure_linkage_table,
            a_frame_of_400_kib,
            a_frame_of_800_kib,
            a_stack_of_100_kib,
            nothing_but_frame_pointers,
            a_stripped_program,
            a_program_without_a_build_id,
            a_program_whose_file_was_deleted,
            a_program_in_memory_alone,
            a_program_in_namespaces_of_its_own,
            threads_of_a_rust_program,
            cleanup_and_catch_of_a_cpp_exception,
            goroutines,
            code_made_at_run_time_with_frame_pointers,
            code_made_at_run_time_without_frame_pointers,
            a_stack_of_more_frames_than_a_sample_has,
        }
    };
}

programs_of_engine!(perf_copy, super::open_perf_copy);
programs_of_engine!(ebpf, super::open_ebpf);
