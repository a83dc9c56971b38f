//! A sample request for a match, to show which other matches are considered for it.

use fairway_model::{HostPattern, Match, NamedValueMatch, PathMatch, TextMatch};
use fairway_routing::{Fields, Request};

use super::query::parameters;

/// A request that fits a match, as far as the match determines it.
pub(super) struct SampleRequest<'m> {
    of: &'m Match,
    pub(super) host: String,
    path: &'m str,
    query: String,
}

impl<'m> SampleRequest<'m> {
    /// For a host; `None` for a regular expression, for which no path can be derived.
    pub(super) fn for_match(of: &'m Match, host: &HostPattern) -> Option<Self> {
        let path = match &of.path {
            PathMatch::Exact(path) | PathMatch::Prefix(path) => path,
            PathMatch::Regex { .. } => return None,
        };
        let host = match host {
            HostPattern::Exact(name) => name.to_string(),
            HostPattern::Wildcard { suffix, .. } => format!("any.{suffix}"),
            HostPattern::Any => "any.invalid".to_owned(),
        };
        let query: Vec<_> = exact_values(&of.query).collect();
        Some(Self { of, host, path, query: parameters(&query) })
    }

    pub(super) fn method(&self) -> &str {
        self.of.method.as_deref().unwrap_or("GET")
    }

    /// As a client would request it.
    pub(super) fn url(&self, scheme: &str) -> String {
        let mark = if self.query.is_empty() { "" } else { "?" };
        format!("{scheme}://{}{}{mark}{}", self.host, self.path, self.query)
    }

    /// Its headers, one per line.
    pub(super) fn headers(&self) -> String {
        let lines: Vec<_> =
            exact_values(&self.of.headers).map(|(name, value)| format!("{name}: {value}")).collect();
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
        value(&self.of.headers, name)
    }

    fn cookie(&self, name: &str) -> Option<&[u8]> {
        value(&self.of.cookies, name)
    }
}

fn exact_values(of: &[NamedValueMatch]) -> impl Iterator<Item = (&str, &str)> {
    of.iter().filter_map(|it| match &it.value {
        TextMatch::Exact(value) => Some((&*it.name, &**value)),
        TextMatch::Regex(_) => None,
    })
}

fn value<'m>(of: &'m [NamedValueMatch], name: &str) -> Option<&'m [u8]> {
    exact_values(of).find(|(known, _)| *known == name).map(|(_, value)| value.as_bytes())
}
