//! How requests are forwarded, mirrored and sent to fallback backends.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::backend::{BackendKey, StickyBackends};
use crate::buffering::Buffering;
use crate::condition::ConditionalHeaders;
use crate::default::is_default;
use crate::edit::PathRewrite;
use crate::field::HeaderTemplate;
use crate::hop::Http1Options;

/// How requests that passed all guards are forwarded. The weighted backends are in the rule's action.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Forwarding {
    /// Replaces the request path. The query stays unless the new path has one.
    #[serde(skip_serializing_if = "is_default")]
    pub path: Option<PathRewrite>,
    /// Sets request headers after those that the proxy writes itself.
    #[serde(skip_serializing_if = "is_default")]
    pub fields: Option<Arc<[HeaderTemplate]>>,
    /// Sets or adds request headers after `fields`, if conditions hold.
    #[serde(skip_serializing_if = "is_default")]
    pub chosen: Vec<Arc<ConditionalHeaders>>,
    /// Version and `Connection` header for HTTP/1 endpoints.
    #[serde(skip_serializing_if = "is_default")]
    pub hop: Http1Options,
    /// Backend for requests that arrived over TLS, instead of the action's backends.
    #[serde(rename = "secured", skip_serializing_if = "is_default")]
    pub tls_backend: Option<BackendKey>,
    /// Backends used while the action's backends have no endpoints; the first with endpoints serves.
    #[serde(skip_serializing_if = "is_default")]
    pub fallbacks: Vec<Fallback>,
    /// Response statuses after which the request is retried on another endpoint, if it may be repeated; in ascending
    /// order.
    #[serde(skip_serializing_if = "is_default")]
    pub retry_statuses: Vec<u16>,
    /// Backends that get copies of requests.
    #[serde(skip_serializing_if = "is_default")]
    pub mirrors: Vec<Mirror>,
    /// Whether gRPC-Web is translated to gRPC for endpoints that speak only gRPC. Other requests pass unchanged.
    #[serde(skip_serializing_if = "is_default")]
    pub grpc_web: bool,
    /// Which bodies are buffered.
    #[serde(skip_serializing_if = "is_default")]
    pub buffering: Buffering,
    /// Sessions that stay with one of several backends of the action.
    #[serde(skip_serializing_if = "is_default")]
    pub sticky: Option<Arc<StickyBackends>>,
}

impl Forwarding {
    /// `None` if everything has its default, as rules store it.
    #[must_use]
    pub fn if_not_empty(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }

    /// Adds the settings of `more`. Single-valued settings of `more` replace existing ones.
    pub(crate) fn add(&mut self, addition: Self) {
        let Self {
            path,
            fields,
            chosen,
            hop,
            tls_backend: secured,
            fallbacks,
            retry_statuses,
            mirrors,
            grpc_web,
            buffering,
            sticky,
        } = addition;
        self.path = path.or(self.path.take());
        self.fields = fields.or(self.fields.take());
        self.chosen.extend(chosen);
        self.hop = if hop == Http1Options::default() { self.hop } else { hop };
        self.tls_backend = secured.or(self.tls_backend.take());
        self.fallbacks.extend(fallbacks);
        self.retry_statuses.extend(retry_statuses);
        self.mirrors.extend(mirrors);
        self.grpc_web |= grpc_web;
        self.buffering = self.buffering.overridden_by(buffering);
        self.sticky = sticky.or(self.sticky.take());
    }
}

/// Sends a copy of requests to another backend and discards the response (Gateway API `HTTPRequestMirrorFilter`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mirror {
    /// Backend that gets the copies.
    pub backend: BackendKey,
    /// Mirrors this many requests...
    pub numerator: u32,
    /// ...out of this many; not 0.
    pub denominator: u32,
    /// Largest body that is copied, in bytes; the copy of a request with a larger body is aborted. 0 copies no
    /// bodies.
    #[serde(rename = "most_body")]
    pub max_body: u64,
    /// Path and query of the copies.
    #[serde(default, skip_serializing_if = "MirrorTarget::is_forwarded")]
    pub target: MirrorTarget,
    /// `Host` of the copies; `None` uses that of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Arc<str>>,
}

/// Path and query of a mirrored request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MirrorTarget {
    /// Those of the forwarded request.
    #[default]
    Forwarded,
    /// This text followed by those of the received request.
    Received(Arc<str>),
    /// These.
    Fixed(Arc<str>),
}

impl MirrorTarget {
    fn is_forwarded(&self) -> bool {
        *self == Self::Forwarded
    }
}

/// A backend that serves the requests of a rule whose own backend has no endpoints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fallback {
    /// The backend.
    pub backend: BackendKey,
    /// Headers added to the request.
    pub fields: Vec<(Arc<str>, Arc<str>)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mirror_round_trips() {
        let mirror = Mirror {
            backend: "shop/next:80".into(),
            numerator: 1,
            denominator: 10,
            max_body: 1024,
            target: MirrorTarget::Received("/copy".into()),
            host: Some("next.test".into()),
        };
        let forwarding = Forwarding { mirrors: vec![mirror], ..Forwarding::default() };
        let json = serde_json::to_string(&forwarding).unwrap();
        assert!(!json.contains("grpc_web"), "what is as always is not written: {json}");
        assert_eq!(serde_json::from_str::<Forwarding>(&json).unwrap(), forwarding);
    }
}
