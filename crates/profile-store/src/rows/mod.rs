//! From the profiles of a message to what the table keeps of them: pure, the time of arrival is passed in.
//!
//! [`batch()`] gives the rows, the label sets, stacks and frames that their numbers stand for, and says what was left out and why. Numbers are the
//! same in whichever order or table things came. No value is lost or rounded: [`totals`] over the rows are those of the message. [`observed()`] is what the symbol server is told.

mod batch;
mod bounds;
mod coverage;
mod frames;
mod labels;
mod measure;
mod observed;
mod reading;
mod series;
mod text;

pub use batch::{Batch, RefusedError, Rejected, SampleRow, TypeTotals, totals};
pub use bounds::{AHEAD_SECONDS_MAX, TimeBounds, TimeError};
pub use coverage::StackCoverage;
pub use frames::{FRAME_TEXT_BYTES_MAX, FrameContent, FrameCoverage, FrameName, NativeFrame};
pub use labels::{FREE_LABELS_MAX, LABEL_NAME_BYTES_MAX, LABEL_VALUE_BYTES_MAX, LabelsLeftOut};
pub use measure::CPU;
pub use observed::observed;
pub use reading::{Arrival, BATCH_ROWS_MAX, SERIES_MAX, batch};
pub use series::{Series, SeriesError, SeriesId};
