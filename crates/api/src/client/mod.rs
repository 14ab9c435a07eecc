//! The HTTP client of the symbol server: what `unhex upload`, `check`, `symbolize`, `status` and the profile store speak through.
//!
//! One place knows the paths, the retries and the words of errors, so that every command behaves
//! alike when the server is down, busy or refuses. Uploads are idempotent by content, look-ups are
//! pure, so every request here may be repeated; one that counts a profile without an ID is not, when
//! the server failed in the middle of it.

mod body;
mod error;
mod ledger;
mod queries;
mod retry;
mod token;
mod transport;
mod uploads;

pub use body::{BodyProgress, Encoding, FileBody, ProgressFn};
pub use error::{ClientError, Problem};
pub use ledger::UnknownFilter;
pub use queries::Health;
pub use retry::RetryPolicy;
pub use token::{Token, TokenError};
pub use transport::{Client, ClientOptions};
pub use uploads::{Place, Sent};
