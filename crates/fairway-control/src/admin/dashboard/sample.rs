//! A sample request for a match, to show which other matches are considered for it.

use fairway_model::{HostPattern, Match, NamedValueMatch, PathMatch, TextMatch};
use fairway_routing::{Fields, Request};

use super::query::parameters;

/// A request that fits a match, as far as the match determines it.
pub(super) struct SampleRequest<'m> {
    matched: &'m Match,
    pub(super) host: String,
    path: &'m str,
    query: String,
}

impl<'m> SampleRequest<'m> {
    /// For a host; `None` for a regular expression, for which no path can be derived.
    pub(super) fn for_match(route_match: &'m Match, host: &HostPattern) -> Option<Self> {
        let path = match &route_match.path {
            PathMatch::Exact(path) | PathMatch::Prefix(path) => path,
            PathMatch::Regex { .. } => return None,
        };
        let host = match host {
            HostPattern::Exact(name) => name.to_string(),
            HostPattern::Wildcard { suffix, .. } => format!("any.{suffix}"),
            HostPattern::Any => "any.invalid".to_owned(),
        };
        let query: Vec<_> = exact_values(&route_match.query).collect();
        Some(Self { matched: route_match, host, path, query: parameters(&query) })
    }

    pub(super) fn method(&self) -> &str {
        self.matched.method.as_deref().unwrap_or("GET")
    }

    /// As a client would request it.
    pub(super) fn url(&self, scheme: &str) -> String {
        let mark = if self.query.is_empty() { "" } else { "?" };
        format!("{scheme}://{}{}{mark}{}", self.host, self.path, self.query)
    }

    /// Its headers, one per line.
    pub(super) fn headers(&self) -> String {
        let lines: Vec<_> =
            exact_values(&self.matched.headers).map(|(name, value)| format!("{name}: {value}")).collect();
        lines.join("\n")
    }

    /// As input of a lookup.
    pub(super) fn request(&self) -> Request<'_, Self> {
        Request {
            host: &self.host,
            method: self.method().as_bytes(),
            normalised: self.path.as_bytes(),
            decoded: self.path.as_bytes(),
            query: self.query.as_bytes(),
            fields: self,
        }
    }
}

impl Fields for SampleRequest<'_> {
    fn first(&self, name: &str) -> Option<&[u8]> {
        value(&self.matched.headers, name)
    }

    fn cookie(&self, name: &str) -> Option<&[u8]> {
        value(&self.matched.cookies, name)
    }
}

fn exact_values(matches: &[NamedValueMatch]) -> impl Iterator<Item = (&str, &str)> {
    matches.iter().filter_map(|it| match &it.value {
        TextMatch::Exact(value) => Some((&*it.name, &**value)),
        TextMatch::Regex(_) => None,
    })
}

fn value<'m>(matches: &'m [NamedValueMatch], name: &str) -> Option<&'m [u8]> {
    exact_values(matches).find(|(known, _)| *known == name).map(|(_, value)| value.as_bytes())
}
