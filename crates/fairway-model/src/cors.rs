//! Cross-origin resource sharing (Fetch Standard §3.2): a guard answers preflights, and answers carry the fields.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::default::is_default;

/// Cross-origin resource sharing (Fetch Standard §3.2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cors {
    /// Which origins are allowed.
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
    /// Which requests are answered, and what the fields are in.
    #[serde(default, skip_serializing_if = "is_default")]
    pub manner: CorsManner,
}

/// Which requests are answered, and what the fields are in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CorsManner {
    /// As ingress-nginx does it: every `OPTIONS` of an allowed origin is answered, and all other requests are forwarded.
    /// All fields are in every answer to an allowed origin.
    #[default]
    IngressNginx,
    /// As Gateway API does it (`HTTPCORSFilter`): every preflight is answered, with the fields where its origin is
    /// allowed; `OPTIONS` without `Access-Control-Request-Method` is none. Other answers to an allowed origin have those
    /// fields that are not for preflights. With `credentials` no field says `*`: in its place is what the request has.
    GatewayApi,
}

/// An allowed origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CorsOrigin {
    /// `*`: every origin; the answer says `*`.
    Any,
    /// This `scheme://host[:port]` or `null`; reflected.
    Exact(Arc<str>),
    /// `scheme://*.suffix[:port]`: exactly one label for the star; reflected.
    OneLabel {
        /// `https://` in `https://*.example.com:8443`; empty where the pattern had no scheme.
        before: Arc<str>,
        /// `.example.com:8443` in it.
        after: Arc<str>,
    },
    /// `scheme://*.suffix[:port]` or `scheme://*[:port]`: one or more labels for the star (Gateway API `allowOrigins`);
    /// reflected.
    Wildcard {
        /// `https://` in `https://*.example.com:8443`.
        before: Arc<str>,
        /// `.example.com:8443` in it; the port, or nothing, where the star is the whole host.
        after: Arc<str>,
    },
}
