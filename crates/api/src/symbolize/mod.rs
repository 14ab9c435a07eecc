//! `POST /symbolize`: a batch of addresses of several modules in, their frames out, in the same order.
//!
//! [`SymbolizeRequest`] goes in. [`SymbolizeAnswer`] comes out, or, when [`COMPACT_MEDIA_TYPE`] is
//! accepted, [`CompactAnswer`], which says the same with every string and every frame once.
//! A module that cannot be answered has a [`ModuleStatus`], an address a [`Reason`]; neither fails
//! the request.

mod address;
mod answer;
mod compact;
mod request;

pub use address::{Address, Unsigned64};
pub use answer::{Frame, ModuleAnswer, ModuleStatus, Reason, SymbolizeAnswer};
pub use compact::{
    COMPACT_MEDIA_TYPE, CompactAnswer, CompactFrame, CompactModule, ExpandError, FLAG_INLINED,
};
pub use request::{
    AddressKind, Adjust, Demangle, Labels, Mapping, Module, Segment, SymbolizeRequest,
};
