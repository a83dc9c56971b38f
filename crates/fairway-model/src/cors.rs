//! Cross-origin resource sharing (Fetch Standard §3.2): a guard answers preflight requests, and responses get the
//! headers.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::default::is_default;

/// Cross-origin resource sharing (Fetch Standard §3.2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cors {
    /// The origins that are allowed.
    pub origins: Vec<CorsOrigin>,
    /// The value of `Access-Control-Allow-Methods`; empty sends none.
    pub methods: Arc<str>,
    /// The value of `Access-Control-Allow-Headers`; empty sends none.
    pub headers: Arc<str>,
    /// The value of `Access-Control-Expose-Headers`; empty sends none.
    pub expose: Arc<str>,
    /// Whether `Access-Control-Allow-Credentials: true` is sent.
    pub credentials: bool,
    /// Seconds for `Access-Control-Max-Age`.
    pub max_age: u32,
    /// Which requests are answered, and which responses get the headers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub manner: CorsMode,
}

/// Which requests are answered, and which responses get the headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CorsMode {
    /// As in ingress-nginx: every `OPTIONS` request of an allowed origin is answered; all other requests are
    /// forwarded. All headers are added to every response to an allowed origin.
    #[default]
    IngressNginx,
    /// As in the Gateway API (`HTTPCORSFilter`): every preflight request is answered, with the headers if its origin
    /// is allowed. `OPTIONS` without `Access-Control-Request-Method` is not a preflight. Other responses to an
    /// allowed origin get the headers that are not specific to preflights. With `credentials`, `*` is replaced by
    /// what the request asks for.
    GatewayApi,
}

/// An allowed origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CorsOrigin {
    /// `*`: every origin; the response says `*`.
    Any,
    /// This `scheme://host[:port]` or `null`; reflected.
    Exact(Arc<str>),
    /// `scheme://*.suffix[:port]`: exactly one label for the star; reflected.
    OneLabel {
        /// `https://` in `https://*.example.com:8443`; empty if the pattern has no scheme.
        before: Arc<str>,
        /// `.example.com:8443` in it.
        after: Arc<str>,
    },
    /// `scheme://*.suffix[:port]` or `scheme://*[:port]`: one or more labels for the star (Gateway API `allowOrigins`);
    /// reflected.
    Wildcard {
        /// `https://` in `https://*.example.com:8443`.
        before: Arc<str>,
        /// `.example.com:8443` in it; the port or nothing if the star is the whole host.
        after: Arc<str>,
    },
}
