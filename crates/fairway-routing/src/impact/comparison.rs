//! Compares two configurations by requests that were served.

use fairway_model::{HostPattern, Origin};

use super::arrival::{Place, Side};
use super::candidates::{Candidate, candidates, possible, that_served};
use super::difference;
use super::known::{KnownClient, KnownRequest, Prepared};
use super::treatment::{Outcome, Treatment};
use super::verdict::{Unknown, Verdict};
use crate::snapshot::Snapshot;

/// Two configurations that are compared.
pub struct Comparison<'s> {
    before: Side<'s>,
    after: Side<'s>,
}

/// What a change means for one request.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared<'s> {
    /// The rule that serves it before the change; `None` where there is none, or which one it is is not known.
    pub route: Option<ServedRoute<'s>>,
    /// What the change means.
    pub verdict: Verdict,
}

/// A rule as people look for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServedRoute<'s> {
    /// The object and the field.
    pub origin: &'s Origin,
    /// The host.
    pub host: &'s HostPattern,
    /// The path as it is written in the object.
    pub path: &'s str,
}

impl<'s> Comparison<'s> {
    /// Of what is served by `before`, and what would be served by `after`. Values that one of them hides must be hidden in the other,
    /// too.
    #[must_use]
    pub fn new(before: &'s Snapshot, after: &'s Snapshot) -> Self {
        Self { before: Side::new(before), after: Side::new(after) }
    }

    /// The same where the change was read without some of the objects that its rules refer to: what a rule without them does is undecided.
    #[must_use]
    pub fn of_incomplete_objects(mut self) -> Self {
        self.after.lacks_objects = true;
        self
    }

    /// What the change means for a request.
    #[must_use]
    pub fn compare(&self, known: &KnownRequest<'_>) -> Compared<'s> {
        let undecided = |unknown| Compared { route: None, verdict: Verdict::Undecided(unknown) };
        let Some(request) = Prepared::of(known) else { return undecided(Unknown::Text) };
        let Some(place) = self.arrival(&request) else { return undecided(Unknown::Listener) };
        let before = candidates(&self.before, place.listener, &request);
        let served = that_served(&self.before, &before, known);
        let route = match served.as_slice() {
            [served] => before[*served].to.map(|to| ServedRoute {
                origin: &to.rule.rule().origin,
                host: &to.host.key().host,
                path: &to.rule.rule().labels.path,
            }),
            _ => None,
        };
        let verdict = self.verdict(place, &before, &served, &request);
        Compared { route, verdict }
    }

    /// The listener that the request came to; `None` where that is not known.
    fn arrival(&self, request: &Prepared<'_>) -> Option<&Place<'s>> {
        let known = request.known;
        if let Some(place) = known.listener.and_then(|name| self.before.listeners.get(name)) {
            return Some(place);
        }
        let speaking = self.before.speaking(known.over_tls);
        let serves = |place: &&&Place<'s>| {
            let all = candidates(&self.before, place.listener, request);
            known.rule.is_some_and(|rule| {
                all.iter().any(|it| it.to.is_some_and(|to| rule.is_from(&to.rule.rule().origin)))
            })
        };
        let serving: Vec<_> = speaking.iter().filter(serves).copied().collect();
        match (speaking.as_slice(), serving.as_slice()) {
            ([place], _) | (_, [place]) => Some(*place),
            _ => None,
        }
    }

    /// What the change means for a request that one of those numbered `served` of `before` has served.
    fn verdict(
        &self,
        place: &Place<'s>,
        before: &[Candidate<'s>],
        served: &[usize],
        request: &Prepared<'_>,
    ) -> Verdict {
        let known = request.known;
        let passed_through = || Treatment::without_rule(Outcome::PassedThrough);
        let treat_before = |candidate: &Candidate<'s>| match self.before.passes_through(place, request) {
            true => passed_through(),
            false => Treatment::of(&self.before, place, request, known.client, candidate.to),
        };
        let Some(now) = self.after.instead_of(place.listener, known.host) else {
            let gone = Treatment::without_rule(Outcome::NoListener);
            return served.first().map_or(Verdict::Same, |served| {
                difference::verdict(&treat_before(&before[*served]), &gone, known)
            });
        };
        let (blocked, blocked_now) = (&place.limits.blocked, &now.limits.blocked);
        if blocked != blocked_now && (blocked_now.is_some() || !known.forwarded) {
            return Verdict::Undecided(Unknown::Headers);
        }
        let trusts_others = place.limits.forwarded != now.limits.forwarded;
        let after = candidates(&self.after, now.listener, request);
        let mut verdicts = Vec::new();
        let mut unknown = None;
        for number in served {
            let one = treat_before(&before[*number]);
            unknown = unknown.or(before[*number].depends_on().filter(|_| served.len() > 1));
            for candidate in possible(before, *number, &after) {
                let treated = match self.after.passes_through(now, request) {
                    true => passed_through(),
                    false => {
                        let client = client_after(known, trusts_others, &before[*number], candidate);
                        Treatment::of(&self.after, now, request, client, candidate.to)
                    }
                };
                unknown = unknown.or(candidate.depends_on());
                verdicts.push(difference::verdict(&one, &treated, known));
            }
        }
        settled(verdicts, unknown.unwrap_or(Unknown::Headers))
    }
}

/// Who the client is after a change: somebody else may say it then.
fn client_after(
    known: &KnownRequest<'_>,
    trusts_others: bool,
    before: &Candidate<'_>,
    after: &Candidate<'_>,
) -> KnownClient {
    let believed = |of: &Candidate<'_>| of.to.and_then(|to| to.rule.rule().phases.client.clone());
    match trusts_others || believed(before) != believed(after) {
        true => KnownClient::NotKept,
        false => known.client,
    }
}

/// What all possible verdicts say together; where they contradict each other, that depends on `unknown`.
fn settled(verdicts: Vec<Verdict>, unknown: Unknown) -> Verdict {
    let is = |kind: fn(&Verdict) -> bool| verdicts.iter().all(kind);
    let agree = is(|it| matches!(it, Verdict::Same))
        || is(|it| matches!(it, Verdict::Settings(_)))
        || is(|it| matches!(it, Verdict::Otherwise(_)));
    let undecided = verdicts.iter().find(|it| matches!(it, Verdict::Undecided(_))).cloned();
    match undecided {
        Some(undecided) => undecided,
        None if agree => verdicts.into_iter().next().unwrap_or(Verdict::Same),
        None => Verdict::Undecided(unknown),
    }
}
