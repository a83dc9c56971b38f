//! What becomes of answers on their way to the client.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::backend::BackendKey;

/// How fast answers go to clients, as nginx's `limit_rate` bounds it: each for itself, the first second's bytes at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerRate {
    /// Bytes of the body per second; not 0.
    pub bytes: u64,
    /// So many bytes come before that.
    pub after: u64,
}

/// One text in the place of another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replacement {
    /// What is looked for; not empty.
    pub from: Arc<str>,
    /// What stands there then.
    pub to: Arc<str>,
}

/// Attributes of `Set-Cookie` (RFC 6265 §5.2), as nginx's `proxy_cookie_domain` and `proxy_cookie_path` replace them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CookieRewrite {
    /// A whole `Domain`, without case and without the dot that it may begin with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<Replacement>,
    /// The beginning of a `Path`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Replacement>,
}

/// The beginning of the URLs in `Location` and `Refresh`, as nginx's `proxy_redirect` replaces it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocationRewrite {
    /// The beginning.
    pub url: Replacement,
    /// Whether a `Location` that is a path afterwards gets the scheme and the host of the request.
    pub absolute: bool,
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
