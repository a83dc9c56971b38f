//! Filters that keep somebody out, or need more than the request itself: that count, copy, or look at the answer.

use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::backend::BackendKey;

/// Which client addresses may pass; others are answered 403.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessList {
    /// Refused first.
    pub deny: Vec<IpNet>,
    /// When not empty, nothing else passes.
    pub allow: Vec<IpNet>,
}

/// How often each client may ask. Clients are addresses, and in IPv6 the networks of 64 bits that they are in. All workers
/// of a process count together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateLimit {
    /// What the count belongs to: rules that name the same policy share it, and it survives changes of the rule.
    pub policy: Arc<str>,
    /// So many requests, evenly spread over `per`; not 0.
    pub requests: u32,
    /// The time for them.
    pub per: Duration,
    /// So many may come early, at once.
    pub burst: u32,
    /// What is answered above it: 400..=599.
    pub status: u16,
    /// Clients that are not counted.
    pub exempt: Vec<IpNet>,
}

/// How many requests of each client may be under way at a time. Clients are what they are to a [`RateLimit`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConcurrencyLimit {
    /// As that of a [`RateLimit`].
    pub policy: Arc<str>,
    /// At most so many; not 0.
    pub most: u32,
    /// What is answered above it: 400..=599.
    pub status: u16,
    /// Clients that are not counted.
    pub exempt: Vec<IpNet>,
}

/// A copy of the request goes to another backend, whose answer nobody sees (Gateway API `HTTPRequestMirrorFilter`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mirror {
    /// Who gets the copies.
    pub backend: BackendKey,
    /// So many requests...
    pub numerator: u32,
    /// ...out of this number; not 0.
    pub denominator: u32,
    /// The largest body that is copied, in bytes; of a request with a larger one the copy is broken off. 0 copies none.
    pub most_body: u64,
    /// What the copies ask for.
    #[serde(default, skip_serializing_if = "MirrorTarget::is_forwarded")]
    pub target: MirrorTarget,
    /// Their `Host`, where it is not the request's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Arc<str>>,
}

/// What the copy of a request asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MirrorTarget {
    /// The same as the request, as it is forwarded.
    #[default]
    Forwarded,
    /// The same as the request, as it was received, behind this text.
    Received(Arc<str>),
    /// This path and query.
    Fixed(Arc<str>),
}

impl MirrorTarget {
    fn is_forwarded(&self) -> bool {
        *self == Self::Forwarded
    }
}

/// Another backend serves the requests of a rule whose own has no endpoints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fallback {
    /// Who serves them.
    pub backend: BackendKey,
    /// Fields that it gets besides those of the request.
    pub fields: Vec<(Arc<str>, Arc<str>)>,
}

/// Answers with one of these statuses, whoever made them, are replaced by that of another backend, which is asked with
/// GET, or HEAD, and fields that say what happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorPages {
    /// In ascending order.
    pub statuses: Vec<u16>,
    /// Who is asked; `None` is nobody, and the answer is 404.
    pub backend: Option<BackendKey>,
    /// Fields of the question besides the request's own; the status is added as `X-Code`.
    pub fields: Vec<(Arc<str>, Arc<str>)>,
}
