//! Which requests of a path go to its canary: those whose session is there, else those with a header, else those with a
//! cookie, else a share by chance (ingress-nginx `balancer.lua`, `route_to_alternative_balancer`).

use std::sync::Arc;

use fairway_model::{Action, BackendKey, Fallback, FieldMatch, Match, TextMatch, WeightedBackend};
use fairway_objects::backend::BackendRef;

/// What an Ingress with `canary: true` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Canary {
    /// The header that decides first, by its name in lower case.
    pub(crate) header: Option<(Arc<str>, HeaderChoice)>,
    /// The cookie that decides next.
    pub(crate) cookie: Option<Arc<str>>,
    /// The share of all others, out of `total`.
    pub(crate) weight: u32,
    pub(crate) total: u32,
    pub(crate) sessions: Sessions,
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
    /// The pattern cannot be used: whoever sends the header stays with the main Ingress (`balancer.lua`: `elseif err`).
    Unusable,
}

/// Which sessions the canary has (`affinity-canary-behavior`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sessions {
    /// Those of the main Ingress: its cookie says, too, which of the two a client belongs to.
    OfMain,
    /// Its own.
    Own,
}

/// Where a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goes {
    ToCanary,
    ToMain,
}

impl Canary {
    /// What becomes of requests with the path of `on`: the conditions that decide without chance, the first first, and the
    /// action of all others.
    pub(crate) fn decisions(
        &self,
        on: &Match,
        main: &BackendRef,
        canary: &BackendRef,
    ) -> Vec<(Match, Action)> {
        let conditions = self.conditions(main, canary);
        let ranks = (0..=u8::try_from(conditions.len()).unwrap_or(u8::MAX)).rev();
        let decided = conditions.into_iter().zip(ranks).map(|(((headers, cookies), goes), rank)| {
            let to = if goes == Goes::ToCanary { canary } else { main };
            let on = Match { headers, cookies, rank, ..on.clone() };
            (on, Action::Forward(vec![share(&to.key, 1)]))
        });
        decided.chain([(on.clone(), self.by_chance(main, canary))]).collect()
    }

    /// Headers and cookies that decide.
    fn conditions(&self, main: &BackendRef, canary: &BackendRef) -> Vec<(Fields, Goes)> {
        let exact = |text: &str| TextMatch::Exact(text.into());
        let mut decisions = Vec::new();
        for (of, goes) in [(main, Goes::ToMain), (canary, Goes::ToCanary)] {
            let session = of.balance.cookie.as_ref().map(|cookie| (&cookie.name, of_backend(&of.tag())));
            decisions.extend(session.map(|(name, value)| (cookie(name, value), goes)));
        }
        match &self.header {
            None => {}
            Some((name, HeaderChoice::Always)) => decisions.extend([
                (header(name, exact("always")), Goes::ToCanary),
                (header(name, exact("never")), Goes::ToMain),
            ]),
            Some((name, HeaderChoice::Value(value))) => {
                decisions.push((header(name, exact(value)), Goes::ToCanary));
            }
            Some((name, HeaderChoice::Unusable)) => {
                decisions.push((header(name, TextMatch::Regex("(?s).*".into())), Goes::ToMain));
            }
            Some((name, HeaderChoice::Pattern(pattern))) => {
                decisions.push((header(name, TextMatch::Regex(pattern.clone())), Goes::ToCanary));
            }
        }
        if let Some(name) = &self.cookie {
            decisions.extend([
                (cookie(name, exact("always")), Goes::ToCanary),
                (cookie(name, exact("never")), Goes::ToMain),
            ]);
        }
        decisions
    }

    fn by_chance(&self, main: &BackendRef, canary: &BackendRef) -> Action {
        let shares = [(main, self.total - self.weight), (canary, self.weight)];
        let shares = shares.into_iter().filter(|(_, weight)| *weight > 0);
        Action::Forward(shares.map(|(of, weight)| share(&of.key, weight)).collect())
    }
}

/// A canary without endpoints gets no requests.
pub(crate) fn while_empty(main: &BackendRef) -> Fallback {
    Fallback { backend: main.key.clone(), fields: Vec::new() }
}

/// Headers, then cookies.
type Fields = (Vec<FieldMatch>, Vec<FieldMatch>);

fn header(name: &Arc<str>, value: TextMatch) -> Fields {
    (vec![FieldMatch { name: name.clone(), value }], Vec::new())
}

fn cookie(name: &Arc<str>, value: TextMatch) -> Fields {
    (Vec::new(), vec![FieldMatch { name: name.clone(), value }])
}

/// The value of a session's cookie, whose second part names the backend.
fn of_backend(tag: &str) -> TextMatch {
    TextMatch::Regex(format!(r"[^|]*\|{tag}(?:\|.*)?").into())
}

fn share(backend: &BackendKey, weight: u32) -> WeightedBackend {
    WeightedBackend::new(backend.clone(), weight)
}
