//! Wire types of the symbol server: what its JSON requests and answers look like, and by feature its HTTP client.
//!
//! The types say everything that the interface promises; the server and its clients share them, so
//! that neither can drift from the other unnoticed.

mod absent;
pub mod artifacts;
#[cfg(feature = "client")]
pub mod client;
pub mod observe;
pub mod quality;
pub mod symbolize;
