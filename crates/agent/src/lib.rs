//! What `unhex-agent` is made of: stacks of everything that runs on a host, by build ID and address, with labels.
//!
//! From the lowest level up: an [`engine`] takes a [`sample::Sample`] of whatever runs on each processor a few times a
//! second, and unwinds it; [`processes`] knows what is mapped where, so that a process address becomes a binary's
//! identity and a link address, which is the same on every host; a [`table`] says how to unwind through a
//! binary; [`runtimes`] knows the frames that only a runtime could unwind; [`labels`] says whose a process is. [`collect`] puts
//! these together into a [`profile`], which [`export`] delivers, at a rate that [`restraint`] allows. Names are nobody's business
//! here: the symbol server has them.

pub mod cli;
pub mod clock;
pub mod collect;
pub mod config;
pub mod engine;
pub mod export;
pub mod kubelet;
pub mod labels;
pub mod limits;
pub mod metrics;
pub mod naming;
pub mod perf_events;
pub mod processes;
pub mod profile;
pub mod refusal;
pub mod restraint;
pub mod runtimes;
pub mod sample;
pub mod sideband;
pub mod table;
pub mod upload;
