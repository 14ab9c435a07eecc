//! Numbers into the tables of a model, a type for each table, and ranges of a pool.

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub(crate) u32);

        impl $name {
            /// The place in its table.
            #[inline]
            pub fn index(self) -> usize {
                self.0 as usize
            }

            /// The number of a place; one beyond 32 bits, which no message reaches, is none of a table's.
            #[inline]
            pub(crate) fn at(index: usize) -> Self {
                Self(u32::try_from(index).unwrap_or(u32::MAX))
            }
        }
    };
}

id! {
    /// A string.
    StringId
}
id! {
    /// An attribute: a key, a value and its unit.
    AttributeId
}
id! {
    /// A link to a span of a trace.
    LinkId
}
id! {
    /// What code was loaded from.
    BinaryId
}
id! {
    /// A function that the profiler named.
    FunctionId
}
id! {
    /// A frame: what the formats call a location.
    FrameId
}
id! {
    /// A stack: frames, leaf first.
    StackId
}

impl StringId {
    /// The empty string.
    pub const EMPTY: Self = Self(0);

    /// Whether it is the empty string's; others may be empty, too.
    pub fn is_none(self) -> bool {
        self == Self::EMPTY
    }
}

/// Neighbours in a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    start: u32,
    end: u32,
}

impl Span {
    /// From a place to the end of a pool as it is now.
    #[inline]
    pub(crate) fn since<T>(start: usize, pool: &[T]) -> Self {
        let place = |index| u32::try_from(index).unwrap_or(u32::MAX);
        Self {
            start: place(start),
            end: place(pool.len()),
        }
    }

    /// The elements.
    #[inline]
    pub(crate) fn of<T>(self, pool: &[T]) -> &[T] {
        pool.get(self.start as usize..self.end as usize)
            .unwrap_or_default()
    }

    /// How many there are.
    pub fn len(self) -> usize {
        self.end.saturating_sub(self.start) as usize
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The places in the pool.
    pub(crate) fn places(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }
}
