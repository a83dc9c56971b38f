//! Which requests of a path go to its canary: those with a header, else those with a cookie, else a share by chance
//! (ingress-nginx `balancer.lua`, `route_to_alternative_balancer`).

use std::sync::Arc;

use fairway_model::{FieldMatch, Match, TextMatch};

/// What an Ingress with `canary: true` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Canary {
    /// The header that decides first, by its name in lower case.
    pub(crate) header: Option<(Arc<str>, HeaderChoice)>,
    /// The cookie that decides next.
    pub(crate) cookie: Option<Arc<str>>,
    /// So many of `total` of all others.
    pub(crate) weight: u32,
    pub(crate) total: u32,
}

/// What the header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HeaderChoice {
    /// `always` or `never`.
    Always,
    /// This value chooses the canary, others nothing.
    Value(Arc<str>),
    /// A value that this pattern covers chooses the canary, others nothing.
    Pattern(Arc<str>),
}

/// Where a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goes {
    ToCanary,
    ToMain,
}

impl Canary {
    /// The conditions that decide without chance, the first first, each on the path of `on`.
    pub(crate) fn decisions(&self, on: &Match) -> Vec<(Match, Goes)> {
        let with_header = |name: &Arc<str>, value| {
            let headers = vec![FieldMatch { name: name.clone(), value }];
            Match { headers, ..on.clone() }
        };
        let with_cookie = |name: &Arc<str>, value: &str| {
            let cookies = vec![FieldMatch { name: name.clone(), value: TextMatch::Exact(value.into()) }];
            Match { cookies, ..on.clone() }
        };
        let mut decisions = Vec::new();
        match &self.header {
            None => {}
            Some((name, HeaderChoice::Always)) => decisions.extend([
                (with_header(name, TextMatch::Exact("always".into())), Goes::ToCanary),
                (with_header(name, TextMatch::Exact("never".into())), Goes::ToMain),
            ]),
            Some((name, HeaderChoice::Value(value))) => {
                decisions.push((with_header(name, TextMatch::Exact(value.clone())), Goes::ToCanary));
            }
            Some((name, HeaderChoice::Pattern(pattern))) => {
                decisions.push((with_header(name, TextMatch::Regex(pattern.clone())), Goes::ToCanary));
            }
        }
        if let Some(name) = &self.cookie {
            decisions.extend([
                (with_cookie(name, "always"), Goes::ToCanary),
                (with_cookie(name, "never"), Goes::ToMain),
            ]);
        }
        decisions
    }
}
