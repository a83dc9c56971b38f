//! Where a stream is, from the first connection to the end of the last request. Values only.

/// Where the stream is. Times are nanoseconds from the stream's origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Connections are opened; so many places were not tried yet.
    Opening {
        untried: usize,
    },
    /// Ready; other threads are not.
    Waiting,
    Running {
        begun: u64,
    },
    /// Nothing more is due. What is in the line may still be sent until then.
    Draining {
        begun: u64,
        end: u64,
        until: u64,
    },
}

/// How a plan ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    /// With the last of so many requests.
    ByNumber,
    /// At this time, nanoseconds after its beginning.
    At(u64),
}
