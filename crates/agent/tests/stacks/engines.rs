//! The same programs for each engine: one list, so that no engine is let off.

use std::sync::{Mutex, MutexGuard, PoisonError};

use unhex_agent::engine::Engine;
use unhex_agent::engine::perf_copy::{PerfCopy, PerfCopySettings};
use unhex_agent::processes::Processes;

use crate::privileges::{may_follow_all_processes, skip};
use crate::programs;

/// Samples a second: fast enough that each program is seen some hundred times in less than a second. Prime, so that it
/// is in step with nothing.
const SAMPLES_PER_SECOND: u32 = 997;

/// An engine that was opened, and what it knows of processes.
pub(crate) struct Opened {
    pub(crate) engine: Box<dyn Engine>,
    pub(crate) processes: Processes,
    /// Engines look at all processes: one at a time is enough of that.
    _alone: MutexGuard<'static, ()>,
}

fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    // A test that failed is no reason for others to fail.
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `None` where the privileges are missing, after saying so.
pub(crate) fn open_perf_copy() -> Option<Opened> {
    if !may_follow_all_processes() {
        return None;
    }
    let alone = alone();
    let mut processes = Processes::default();
    let settings = PerfCopySettings {
        samples_per_second: SAMPLES_PER_SECOND,
        stack_bytes: 65_000,
        ..PerfCopySettings::default()
    };
    let engine = PerfCopy::open(settings, &mut processes).unwrap();
    Some(Opened {
        engine: Box::new(engine),
        processes,
        _alone: alone,
    })
}

/// `None` where the privileges are missing or the kernel is too old, after saying so.
#[cfg(target_arch = "x86_64")]
pub(crate) fn open_ebpf() -> Option<Opened> {
    use unhex_agent::engine::ebpf::{Ebpf, EbpfSettings};
    if !may_follow_all_processes() {
        return None;
    }
    let alone = alone();
    let mut processes = Processes::default();
    let settings = EbpfSettings {
        samples_per_second: SAMPLES_PER_SECOND,
        ..EbpfSettings::default()
    };
    match Ebpf::start(settings, &mut processes) {
        Ok(engine) => Some(Opened {
            engine: Box::new(engine),
            processes,
            _alone: alone,
        }),
        Err(error) => {
            skip(&error.to_string());
            None
        }
    }
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
#[cfg(target_arch = "x86_64")]
programs_of_engine!(ebpf, super::open_ebpf);
