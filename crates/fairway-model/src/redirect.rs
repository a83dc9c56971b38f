//! Redirects.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::edit::PathRewrite;

/// A redirect to https on the listener's public https port, keeping the target except for one trailing slash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpsRedirect {
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
    /// Whether one trailing slash of the path is kept (ingress-nginx drops it by default).
    pub keep_trailing_slash: bool,
    /// Whether the port is included even if it is 443.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub explicit_port: bool,
}

/// An explicit redirect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redirect {
    /// 300..=308.
    pub status: u16,
    /// The target.
    pub target: RedirectTarget,
}

/// Target of a redirect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RedirectTarget {
    /// This `Location`, unchanged.
    Url(Arc<str>),
    /// This path with the request's query, without scheme and host.
    Path(Arc<str>),
    /// The request's URL on this host, with the port always included and without one trailing slash, as ingress-nginx
    /// redirects between a name and its `www.` name.
    Host(Arc<str>),
    /// The request's URL with parts replaced; absent parts stay (Gateway API `HTTPRequestRedirectFilter`). A scheme's
    /// default port is omitted. The query is kept if `keep_query` is set.
    Parts {
        /// `http` or `https`.
        scheme: Option<Arc<str>>,
        /// Without port.
        host: Option<Arc<str>>,
        /// The public port; `None` uses the default port of `scheme`, or without a scheme, the client's port.
        port: Option<u16>,
        /// The new path.
        path: Option<PathRewrite>,
        /// Whether the request's query is appended.
        keep_query: bool,
    },
}
