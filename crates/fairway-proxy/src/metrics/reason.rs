//! Labels of counted faults and results.

/// Where a fault or result was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultStage {
    /// Before the first request of a connection.
    Connection,
    /// In an exchange.
    Exchange,
    /// The status of a finished gRPC call.
    GrpcCall,
    /// The end of a forwarded connection.
    Stream,
    /// The end of a datagram session.
    Session,
    /// A dropped datagram.
    Datagram,
    /// A gRPC authorization check.
    AuthorizationCheck,
    /// The end of a stream to an extension service.
    Extension,
    /// A health check of an endpoint.
    HealthCheck,
    /// A retry that was refused.
    RetryRefused,
}

impl FaultStage {
    /// In the order of the metrics.
    pub(crate) const ALL: [Self; 10] = [
        Self::Connection,
        Self::Exchange,
        Self::GrpcCall,
        Self::Stream,
        Self::Session,
        Self::Datagram,
        Self::AuthorizationCheck,
        Self::Extension,
        Self::HealthCheck,
        Self::RetryRefused,
    ];
}

/// A counted fault or result.
pub(crate) type Reason = (FaultStage, &'static str);
