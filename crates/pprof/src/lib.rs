//! Profiles in, from [`pprof`] and [`otlp`] (protobuf and JSON), as one [`Profiles`] model; both out of it. No I/O, no
//! async, no clock, no environment.
//!
//! ```
//! use unhex_pprof::{Limits, pprof, unpacked};
//!
//! # fn main() -> Result<(), unhex_pprof::DecodeError> {
//! // sample_type {1: 1, 2: 2}, a sample {2: [7]} without frames, strings "", "cpu", "seconds".
//! let file = b"\x0a\x04\x08\x01\x10\x02\x12\x03\x12\x01\x07\x32\x00\x32\x03cpu\x32\x07seconds";
//! let limits = Limits::default();
//! let message = unpacked(file, &limits)?;
//! let model = pprof::decode(&message, &limits)?;
//! let profile = &model.profiles()[0];
//! assert_eq!(model.totals(profile), [7]);
//! assert_eq!(model.cpu_nanos_per_value(profile, 0), Some(1_000_000_000));
//! # Ok(())
//! # }
//! ```
//!
//! # What numbers and names mean
//!
//! Sources: *P* is google/pprof's `proto/profile.proto`, *O* is opentelemetry-proto's `profiles/v1development/profiles.proto`, *E* is
//! what opentelemetry-ebpf-profiler does (`reporter/internal/pdata/generate.go`, `libpf/trace.go`), which O leaves open,
//! *S* are the semantic conventions of OpenTelemetry.
//!
//! **Addresses** are normalized once, here, to a [`CodeAddress`], which is the same in every process:
//! - A mapping with start 0, offset 0, and limit 0 or 2^64-1 says nothing: its addresses are link addresses (P's readers; Parca).
//! - In pprof an address is of the process: `address - memory_start + file_offset` is the file offset (P, `Mapping`). Whoever
//!   wrote link addresses with the range of link addresses (Parca's agent) gets the same file offset from the same formula.
//! - In OTLP an address is a link address, and so is the range of its mapping (E); but a mapping whose start less its
//!   offset is at 2^36 or higher is one of a process, and the formula of pprof holds. O says only that the
//!   address should lie in the mapping.
//! - An address outside of its mapping is [`FrameKind::Unplaced`]. The limit belongs to the mapping: a call may be its last instruction.
//! - Return addresses were moved into the call by the profiler (P, `Location.address`; E), and are never moved again.
//! - Addresses have 64 bits, and no value is special but by these rules.
//!
//! **Frames** are what their location's `profile.frame.type` says (S), or if nothing is said, what their mapping and names are:
//! - `native`, `go`, `rust`, or nothing said, in a file: [`FrameKind::Native`]. If the profiler gave names they stay beside it; a mapping may
//!   have both, frames with names and without.
//! - `kernel`, a mapping of the kernel, or an address from `0xffff_0000_0000_0000` on: [`FrameKind::Kernel`]. Its names come from kallsyms.
//!   The address is an offset from the start of a module's text (E), or a process address (perf): neither is a link address.
//! - Any other type is interpreted (`cpython`, `jvm`, `v8js`, …, and those of the future): [`FrameKind::Named`]; the
//!   address counts bytecode or lines (E). Without names it is a frame of a missing unwinder and is called `[cpython]`.
//! - A frame without a mapping (`mapping_id` 0), or in memory without a file, is [`FrameKind::Named`] if it has a name, else [`FrameKind::Unplaced`].
//! - The only name `[python]`, `[java]` and so on: [`FrameKind::MissingUnwinder`]. A name that starts with `[truncated`, and E's
//!   `abort-marker`: [`FrameKind::Truncated`].
//! - A line of function 0 names nothing (P's readers; O, entry 0 of each table).
//!
//! **Binaries** have the best identity that the profiler gives: `process.executable.build_id.gnu`, then `.htlhash` (or `.profiling`, its old
//! name), then `.go` (S; only the first can be asked of debuginfod). pprof has one text: hex is a GNU build ID, text
//! with slashes a Go build ID. What is no identity is passed over.
//!
//! **Attributes**: keys and texts may be numbers into the string table also for resources and scopes (`key_strindex` and
//! `string_value_strindex`, O since 1.10). They are resolved here. Numbers and booleans stay what they are; lists, maps and
//! bytes become JSON text.
//!
//! **Strings** are compared by their text: a table may have several that are empty. Number 0 must be (P, O).
//!
//! **Values**: OTLP's samples without values count 1 for each timestamp (O, `Sample`); several values of one sample are added up. Sums have 128 bits
//! and are exact. A period without a type says nothing about time ([`Profiles::cpu_nanos_per_value`]).
//!
//! **The number of a stack** depends on nothing but what it is: see [`Hashes`].
//!
//! # Versions of OTLP profiles
//!
//! Fields are those of opentelemetry-proto 1.8 to 1.11, all of package `v1development`: one sample type for a profile, stacks in a table of the dictionary. Older
//! senders have no such table; the error says so.
//!
//! # Strangers
//!
//! Any bytes give a model or a [`DecodeError`]; every count is bounded by [`Limits`], and memory by the message's length: real
//! ones take two to three times it, the worst 50 times (`tests/memory`), and that only up to the limits.

mod error;
mod gzip;
mod hash;
mod limits;
mod model;
mod normalize;
mod numbering;
pub mod otlp;
pub mod pprof;
mod wire;

pub use error::{DecodeError, EncodeError};
pub use gzip::{packed, unpacked};
pub use hash::{FrameHash, Hashes, StackHash};
pub use limits::Limits;
pub use model::{
    Attribute, AttributeId, Binary, BinaryId, BinaryRole, Builder, CodeAddress, Extent, Frame,
    FrameId, FrameKind, Function, FunctionId, Line, Link, LinkId, NewSample, Profile,
    ProfileOrigin, Profiles, Sample, Span, StackId, StringId, Value, ValueType,
};
