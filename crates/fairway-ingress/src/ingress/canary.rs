//! Which requests of a path go to its canary: those with a session there, then by header, then by cookie, then at
//! random by weight (ingress-nginx `balancer.lua`, `route_to_alternative_balancer`).

use std::sync::Arc;

use fairway_model::{Action, BackendKey, Fallback, Match, NamedValueMatch, TextMatch, WeightedBackend};
use fairway_objects::backend::BackendRef;

/// The settings of an Ingress with `canary: true`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Canary {
    /// The header that decides first, by its lower-case name.
    pub(crate) header: Option<(Arc<str>, HeaderChoice)>,
    /// The cookie that decides second.
    pub(crate) cookie: Option<Arc<str>>,
    /// The share of the remaining requests, out of `total`.
    pub(crate) weight: u32,
    pub(crate) total: u32,
    pub(crate) sessions: CanarySessions,
}

/// How the header value decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HeaderChoice {
    /// `always` or `never`.
    Always,
    /// This value selects the canary; other values decide nothing.
    Value(Arc<str>),
    /// A value that the pattern matches completely selects the canary; other values decide nothing.
    Pattern(Arc<str>),
    /// The pattern is invalid: requests with the header go to the main Ingress (`balancer.lua`: `elseif err`).
    Unusable,
}

/// The sessions of the canary (`affinity-canary-behavior`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CanarySessions {
    /// Those of the main Ingress: its cookie also records which of the two a client uses.
    OfMain,
    /// Its own.
    Own,
}

/// Where a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CanaryDecision {
    ToCanary,
    ToMain,
}

impl Canary {
    /// Matches that decide without chance, in order, and the action for all other requests with the path of `on`.
    pub(crate) fn decisions(
        &self,
        on: &Match,
        main: &BackendRef,
        canary: &BackendRef,
    ) -> Vec<(Match, Action)> {
        let conditions = self.conditions(main, canary);
        let ranks = (0..=u8::try_from(conditions.len()).unwrap_or(u8::MAX)).rev();
        let decided = conditions.into_iter().zip(ranks).map(|(((headers, cookies), goes), rank)| {
            let to = if goes == CanaryDecision::ToCanary { canary } else { main };
            let on = Match { headers, cookies, rank, ..on.clone() };
            (on, Action::Forward(vec![share(&to.key, 1)]))
        });
        decided.chain([(on.clone(), self.by_chance(main, canary))]).collect()
    }

    /// Headers and cookies that decide.
    fn conditions(&self, main: &BackendRef, canary: &BackendRef) -> Vec<(Fields, CanaryDecision)> {
        let exact = |text: &str| TextMatch::Exact(text.into());
        let mut decisions = Vec::new();
        for (backend, goes) in [(main, CanaryDecision::ToMain), (canary, CanaryDecision::ToCanary)] {
            let session = backend
                .balance
                .cookie
                .as_ref()
                .map(|cookie| (&cookie.name, backend_cookie_value(&backend.cookie_tag())));
            decisions.extend(session.map(|(name, value)| (cookie(name, value), goes)));
        }
        match &self.header {
            None => {}
            Some((name, HeaderChoice::Always)) => decisions.extend([
                (header(name, exact("always")), CanaryDecision::ToCanary),
                (header(name, exact("never")), CanaryDecision::ToMain),
            ]),
            Some((name, HeaderChoice::Value(value))) => {
                decisions.push((header(name, exact(value)), CanaryDecision::ToCanary));
            }
            Some((name, HeaderChoice::Unusable)) => {
                decisions.push((header(name, TextMatch::Regex("(?s).*".into())), CanaryDecision::ToMain));
            }
            Some((name, HeaderChoice::Pattern(pattern))) => {
                decisions.push((header(name, TextMatch::Regex(pattern.clone())), CanaryDecision::ToCanary));
            }
        }
        if let Some(name) = &self.cookie {
            decisions.extend([
                (cookie(name, exact("always")), CanaryDecision::ToCanary),
                (cookie(name, exact("never")), CanaryDecision::ToMain),
            ]);
        }
        decisions
    }

    fn by_chance(&self, main: &BackendRef, canary: &BackendRef) -> Action {
        let shares = [(main, self.total - self.weight), (canary, self.weight)];
        let shares = shares.into_iter().filter(|(_, weight)| *weight > 0);
        Action::Forward(shares.map(|(backend, weight)| share(&backend.key, weight)).collect())
    }
}

/// A canary without endpoints gets no requests.
pub(crate) fn fallback_to_main(main: &BackendRef) -> Fallback {
    Fallback { backend: main.key.clone(), fields: Vec::new() }
}

/// Headers, then cookies.
type Fields = (Vec<NamedValueMatch>, Vec<NamedValueMatch>);

fn header(name: &Arc<str>, value: TextMatch) -> Fields {
    (vec![NamedValueMatch { name: name.clone(), value }], Vec::new())
}

fn cookie(name: &Arc<str>, value: TextMatch) -> Fields {
    (Vec::new(), vec![NamedValueMatch { name: name.clone(), value }])
}

/// The value of a session cookie, whose second part names the backend.
fn backend_cookie_value(tag: &str) -> TextMatch {
    TextMatch::Regex(format!(r"[^|]*\|{tag}(?:\|.*)?").into())
}

fn share(backend: &BackendKey, weight: u32) -> WeightedBackend {
    WeightedBackend::new(backend.clone(), weight)
}
