//! How responses are changed on their way to the client.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::backend::BackendKey;

/// Bandwidth limit for each response, as with nginx's `limit_rate`. The first second's bytes are sent at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResponseRate {
    /// Body bytes per second; not 0.
    pub bytes: u64,
    /// Body bytes sent before the limit applies.
    pub after: u64,
}

/// Replaces one text with another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replacement {
    /// Text to find; not empty.
    pub from: Arc<str>,
    /// Its replacement.
    pub to: Arc<str>,
}

/// Rewrites attributes of `Set-Cookie` (RFC 6265 §5.2), as nginx's `proxy_cookie_domain` and `proxy_cookie_path` do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CookieRewrite {
    /// Matches the whole `Domain`, ignoring case and a leading dot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<Replacement>,
    /// Matches a prefix of `Path`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Replacement>,
}

/// Rewrites the prefix of URLs in `Location` and `Refresh`, as nginx's `proxy_redirect` does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocationRewrite {
    /// The URL prefix.
    pub url: Replacement,
    /// Whether a `Location` that is a path after the rewrite gets the scheme and host of the request.
    pub absolute: bool,
}

/// Replaces responses that have one of these statuses, whether from the proxy or an endpoint, with the response of
/// another backend. The backend gets a GET or HEAD request with headers that describe the original response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorPages {
    /// In ascending order.
    pub statuses: Vec<u16>,
    /// Backend that serves the pages; `None` responds 404.
    pub backend: Option<BackendKey>,
    /// Headers added to the request for the page; `X-Code` carries the status.
    pub fields: Vec<(Arc<str>, Arc<str>)>,
}
