//! Where clients are sent instead of being served.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::edit::PathRewrite;

/// To https, on the listener's public https port, the target unchanged but for one trailing slash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpsRedirect {
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
    /// Whether one trailing slash of the path is kept (ingress-nginx drops it by default).
    pub keep_trailing_slash: bool,
    /// Whether the port is written where it is 443, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub explicit_port: bool,
}

/// A redirect of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redirect {
    /// 300..=308.
    pub status: u16,
    /// Where to.
    pub target: RedirectTarget,
}

/// Where a redirect leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RedirectTarget {
    /// This `Location`, as it is.
    Url(Arc<str>),
    /// This path with the request's query, and neither scheme nor host: the client knows both.
    Path(Arc<str>),
    /// The request's own URL on this host, with its port in any case and without one trailing slash, as ingress-nginx
    /// sends clients between a name and its `www.`.
    Host(Arc<str>),
    /// The request's own URL with parts replaced; an absent part stays (Gateway API `HTTPRequestRedirectFilter`; ports
    /// that are the scheme's own are left out). The query stays where `keep_query` says so.
    Parts {
        /// `http` or `https`.
        scheme: Option<Arc<str>>,
        /// Without port.
        host: Option<Arc<str>>,
        /// The public port; where none is given, the well-known one of `scheme`, and without that the client's.
        port: Option<u16>,
        /// The new path.
        path: Option<PathRewrite>,
        /// Whether the request's query follows the path.
        keep_query: bool,
    },
}
