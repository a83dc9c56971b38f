//! Faults as they are counted.

/// Where a fault was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Before the first request of a connection.
    Connection,
    /// In an exchange.
    Exchange,
    /// At the end of a gRPC call: its status.
    Call,
    /// At the end of a connection that was forwarded as it came.
    Stream,
    /// At the end of a session of datagrams.
    Session,
    /// With a datagram.
    Datagram,
    /// When an authorization service was asked over gRPC.
    Check,
    /// At the end of the stream to an extension service.
    Extension,
    /// At the end of a health check of an endpoint.
    HealthCheck,
    /// When another attempt would follow one that failed.
    RetryRefused,
}

impl Stage {
    /// In the order of metrics.
    pub(crate) const ALL: [Self; 10] = [
        Self::Connection,
        Self::Exchange,
        Self::Call,
        Self::Stream,
        Self::Session,
        Self::Datagram,
        Self::Check,
        Self::Extension,
        Self::HealthCheck,
        Self::RetryRefused,
    ];
}

/// A fault as it is counted.
pub(crate) type Reason = (Stage, &'static str);
