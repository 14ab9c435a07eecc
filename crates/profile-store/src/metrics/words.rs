//! The closed sets that labels come from, and their words.

/// How a message came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// OTLP over HTTP, protobuf.
    OtlpHttp,
    /// OTLP over HTTP, JSON.
    OtlpJson,
    /// OTLP over gRPC.
    OtlpGrpc,
    /// pprof.
    Pprof,
}

/// What came of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageOutcome {
    /// Its rows are durable.
    Stored,
    /// They were before.
    Resent,
    /// It cannot be read.
    Malformed,
    /// It exceeds a limit.
    TooLarge,
    /// There was no room for it.
    Busy,
    /// The object store did not take it.
    Unavailable,
    /// Its body did not come.
    Cut,
}

/// Memory that is held by what is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InFlight {
    /// Bodies as they were sent.
    Bodies,
    /// Rows that were read.
    Rows,
}

/// What became of a note for the symbol server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoteOutcome {
    /// It has it.
    Delivered,
    /// It could not be reached, and will be tried again.
    Retried,
    /// It does not want it.
    Refused,
    /// There was no room.
    Overflowed,
    /// It is too old.
    Expired,
}

macro_rules! words {
    ($($type:ident { $($variant:ident = $word:literal),+ $(,)? })+) => {
        $(impl $type {
            /// The word in labels.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        })+
    };
}

words! {
    Protocol { OtlpHttp = "otlp_http", OtlpJson = "otlp_json", OtlpGrpc = "otlp_grpc", Pprof = "pprof" }
    MessageOutcome {
        Stored = "stored", Resent = "resent", Malformed = "malformed", TooLarge = "too_large",
        Busy = "busy", Unavailable = "unavailable", Cut = "cut",
    }
    InFlight { Bodies = "bodies", Rows = "rows" }
    NoteOutcome {
        Delivered = "delivered", Retried = "retried", Refused = "refused",
        Overflowed = "overflowed", Expired = "expired",
    }
}
