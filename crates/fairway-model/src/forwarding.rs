//! How a request reaches an endpoint, and what else is sent on its way.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::backend::{BackendKey, StickyShares};
use crate::buffering::Buffering;
use crate::condition::ChosenFields;
use crate::default::is_default;
use crate::edit::PathRewrite;
use crate::field::FieldTemplate;
use crate::hop::EndpointHop;

/// How requests that every guard let pass are forwarded. The shares of backends are the rule's action.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Forwarding {
    /// The path that is forwarded in place of the request's; the query stays unless the new path brings one.
    #[serde(skip_serializing_if = "is_default")]
    pub path: Option<PathRewrite>,
    /// Sets fields of the request behind all that the proxy itself writes for its endpoint.
    #[serde(skip_serializing_if = "is_default")]
    pub fields: Option<Arc<[FieldTemplate]>>,
    /// Sets or adds fields of the request behind these, where conditions hold.
    #[serde(skip_serializing_if = "is_default")]
    pub chosen: Vec<Arc<ChosenFields>>,
    /// How endpoints of HTTP/1 are spoken to.
    #[serde(skip_serializing_if = "is_default")]
    pub hop: EndpointHop,
    /// Who gets requests of connections with TLS, in place of the action's backends.
    #[serde(skip_serializing_if = "is_default")]
    pub secured: Option<BackendKey>,
    /// Who serves while the action's backends have no endpoints: the first that has some.
    #[serde(skip_serializing_if = "is_default")]
    pub fallbacks: Vec<Fallback>,
    /// Statuses of answers after which another endpoint is tried, as far as the request may be repeated; in ascending order.
    #[serde(skip_serializing_if = "is_default")]
    pub retry_statuses: Vec<u16>,
    /// Who gets copies of the requests.
    #[serde(skip_serializing_if = "is_default")]
    pub mirrors: Vec<Mirror>,
    /// Whether gRPC is made of gRPC-Web, for endpoints that speak gRPC alone. Requests that are neither pass as they are.
    #[serde(skip_serializing_if = "is_default")]
    pub grpc_web: bool,
    /// Which bodies are held before they go on.
    #[serde(skip_serializing_if = "is_default")]
    pub buffering: Buffering,
    /// Which sessions stay with one of the action's backends, where it has several.
    #[serde(skip_serializing_if = "is_default")]
    pub sticky: Option<Arc<StickyShares>>,
}

impl Forwarding {
    /// As rules keep it: nothing, where all is as usual.
    #[must_use]
    pub fn kept(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }

    /// Does this as well, behind what is done already; of what there can be one only, this replaces what there is.
    pub(crate) fn add(&mut self, more: Self) {
        let Self {
            path,
            fields,
            chosen,
            hop,
            secured,
            fallbacks,
            retry_statuses,
            mirrors,
            grpc_web,
            buffering,
            sticky,
        } = more;
        self.path = path.or(self.path.take());
        self.fields = fields.or(self.fields.take());
        self.chosen.extend(chosen);
        self.hop = if hop == EndpointHop::default() { self.hop } else { hop };
        self.secured = secured.or(self.secured.take());
        self.fallbacks.extend(fallbacks);
        self.retry_statuses.extend(retry_statuses);
        self.mirrors.extend(mirrors);
        self.grpc_web |= grpc_web;
        self.buffering = self.buffering.with(buffering);
        self.sticky = sticky.or(self.sticky.take());
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mirror_is_read_as_it_was_written() {
        let mirror = Mirror {
            backend: "shop/next:80".into(),
            numerator: 1,
            denominator: 10,
            most_body: 1024,
            target: MirrorTarget::Received("/copy".into()),
            host: Some("next.test".into()),
        };
        let forwarding = Forwarding { mirrors: vec![mirror], ..Forwarding::default() };
        let json = serde_json::to_string(&forwarding).unwrap();
        assert!(!json.contains("grpc_web"), "what is as always is not written: {json}");
        assert_eq!(serde_json::from_str::<Forwarding>(&json).unwrap(), forwarding);
    }
}
