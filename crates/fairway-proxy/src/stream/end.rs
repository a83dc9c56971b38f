//! Why a connection that was forwarded ended, and how that is said.

use crate::fault::Fault;

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Both sides ended it.
    Closed,
    /// Nothing moved for too long.
    Idle,
    /// The process stops, or its listener is gone, and it took too long to end.
    Drained,
    /// Something failed.
    Failed(Fault),
}

impl End {
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Idle => "idle",
            Self::Drained => "drained",
            Self::Failed(fault) => fault.label(),
        }
    }

    /// As nginx has it for streams.
    pub(super) fn status(self) -> u16 {
        match self {
            Self::Failed(
                Fault::LocalShortage | Fault::Overloaded | Fault::EndpointsFull | Fault::BackendFull(_),
            ) => 503,
            Self::Failed(
                Fault::NoListener
                | Fault::NoRoute
                | Fault::NoBackend
                | Fault::NoEndpoint
                | Fault::MissingReference
                | Fault::ConnectFailed
                | Fault::ConnectTimeout
                | Fault::UpstreamTls,
            ) => 502,
            _ => 200,
        }
    }
}
