//! The table of profiles: Parquet files and records in an object store, all of them immutable, and what
//! counts of them, which is a [fold] of what is there at each reading.
//!
//! There is no log, no lock, no compare-and-swap and no server that the replicas agree through. The PUT
//! of a segment commits its rows; a compaction writes outputs, then one record that says which segments
//! they stand for; a deletion is a record, too. Any number of replicas ingest, compact, delete, sweep
//! and read at once, and whoever sees the same objects computes the same table.
//! docs/profile-table.md is the contract between versions of the program.
//!
//! [`dictionary`] is what the numbers in rows stand for; it needs none of this, since its facts are true however often they are read.
//!
//! [`names`] are the keys, [`record`] the JSON of records, [`fold`] what is live, what counts for
//! nothing and what may be swept, [`plan`] what to compact and what expired. Nothing here does I/O or
//! reads a clock: callers bring listings, bytes and the time.
//!
//! # What the object store has to do
//!
//! PUT of a whole object that appears at once or not at all, GET, DELETE, and LIST below a prefix in
//! pages. No condition on a PUT, since every key is unique; no snapshot over the pages of a LIST. But
//! what is there before a LIST begins and stays until it ends has to be on its pages, which S3 promises
//! and a folder does.
//!
//! - **A reading** lists [`names::SEGMENTS`] and [`names::RECORDS`] below the dates or hours that it
//!   wants, GETs the records that it has not read yet (they never change, and are few), folds, and reads
//!   the files of [`fold::HourState::live`] with their selectors. A record that is gone between LIST and GET was
//!   swept: list again. A reading that takes longer than [`names::PUBLISH_MINUTES_MAX`] lists again, too.
//! - **Ingest** makes a [`names::PublishId`], writes the rows of one hour as one segment, asks
//!   [`names::PublishId::check_publish`], and PUTs it. The rows are durable from then on, and only then answered. The fold drops a resend of a
//!   whole segment; that one of several requests in a segment was sent before, ingest has to know itself.
//! - **A compaction** makes its ID *before* it lists, folds, asks [`plan::compaction`], PUTs the outputs, and then the
//!   record, each after `check_publish`. Whatever happens in between, the outputs of a record that is
//!   not there count for nothing.
//! - **The sweeper** lists all three folders of an hour wholly, folds, and deletes what
//!   [`fold::HourState::sweepable`] names, in that order.
//!
//! Who lists takes the time before the first page: [`names::Listing::add`] wants it.

pub mod dictionary;
pub mod fold;
pub mod names;
pub mod plan;
pub mod record;
