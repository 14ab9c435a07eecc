//! What the end of a child means: a fact about its input, or nothing.
//!
//! Only what the child found, and what its own limits did to it, is a fact. A child that could not
//! work, or that somebody else killed, says nothing of the file.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use rustix::process::Signal;

use super::child::Ended;
use super::protocol::ChildReport;
use super::{
    ConversionLimits, ConversionResult, ConverterUnavailable, IndexFailure, IndexFailureKind,
};

/// The exit code of a Rust program that panicked.
const EXIT_CODE_PANICKED: i32 = 101;
/// What Rust writes before it aborts for want of memory.
const ALLOCATION_FAILED: &str = "memory allocation of ";

/// What the end of a child means.
pub(super) fn of(ended: &Ended, limits: &ConversionLimits) -> ConversionResult {
    let Some(status) = ended.status else {
        let detail = format!(
            "the conversion took longer than the limit of {} s",
            limits.seconds_max.as_secs_f64()
        );
        return failure(IndexFailureKind::Timeout, detail);
    };
    if let Some(signal) = status.signal() {
        return of_signal(signal, ended, limits);
    }
    match status.code() {
        Some(0) => of_report(ended),
        Some(EXIT_CODE_PANICKED) => {
            let detail = format!("the converter failed on it: {}", first_line(&ended.stderr));
            failure(IndexFailureKind::Malformed, detail)
        }
        _ => Err(could_not_work(status, ended)),
    }
}

fn of_report(ended: &Ended) -> ConversionResult {
    match serde_json::from_slice(&ended.stdout) {
        Ok(ChildReport::Converted(converted)) => Ok(Ok(converted)),
        Ok(ChildReport::Failed(failure)) => Ok(Err(failure)),
        Ok(ChildReport::Unavailable { detail }) => Err(ConverterUnavailable { detail }),
        Err(error) => Err(ConverterUnavailable {
            detail: format!("its report is not understood: {error}"),
        }),
    }
}

fn of_signal(signal: i32, ended: &Ended, limits: &ConversionLimits) -> ConversionResult {
    let is = |known: Signal| known.as_raw() == signal;
    if is(Signal::XCPU) {
        let detail = format!(
            "the conversion took more CPU time than the limit of {} s",
            limits.seconds_max.as_secs_f64()
        );
        return failure(IndexFailureKind::Timeout, detail);
    }
    if is(Signal::XFSZ) {
        let detail = format!(
            "its symbol index is larger than the limit of {} bytes",
            limits.output_bytes_max
        );
        return failure(IndexFailureKind::TooLarge, detail);
    }
    if is(Signal::ABORT) && String::from_utf8_lossy(&ended.stderr).contains(ALLOCATION_FAILED) {
        let detail = format!(
            "the conversion needs more memory than the limit of {} bytes",
            limits.memory_bytes_max
        );
        return failure(IndexFailureKind::TooLarge, detail);
    }
    let crashes = [
        Signal::SEGV,
        Signal::ABORT,
        Signal::ILL,
        Signal::FPE,
        Signal::TRAP,
    ];
    if crashes.into_iter().any(is) {
        let detail = format!("the converter died by signal {signal} on it");
        return failure(IndexFailureKind::Malformed, detail);
    }
    Err(ConverterUnavailable {
        detail: format!("somebody killed it with signal {signal}"),
    })
}

fn could_not_work(status: ExitStatus, ended: &Ended) -> ConverterUnavailable {
    ConverterUnavailable {
        detail: format!("{status}: {}", first_line(&ended.stderr)),
    }
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "every branch of an outcome has the same shape"
)]
fn failure(kind: IndexFailureKind, detail: String) -> ConversionResult {
    Ok(Err(IndexFailure { kind, detail }))
}

/// The first line with text, cut to what a person reads.
fn first_line(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    let line = text.lines().find(|line| !line.trim().is_empty());
    line.unwrap_or("it said nothing")
        .chars()
        .take(300)
        .collect()
}
