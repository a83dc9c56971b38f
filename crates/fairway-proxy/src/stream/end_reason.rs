//! Why a forwarded connection ended, and its label and status in the log.

use crate::fault::Fault;

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamEnd {
    /// Both sides closed it.
    Closed,
    /// Idle timeout.
    Idle,
    /// The process drains or the listener is gone, and the connection exceeded the drain timeout.
    Drained,
    /// A fault.
    Failed(Fault),
}

impl StreamEnd {
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Idle => "idle",
            Self::Drained => "drained",
            Self::Failed(fault) => fault.label(),
        }
    }

    /// Status as nginx logs it for streams.
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
