//! Compares what two configurations do with a request.

use std::sync::Arc;

use fairway_model::{
    Backend, BackendProtocol, ConditionalHeaders, Forwarding, Guard, HeaderTemplate, Phases, RequestEdit,
    ResponseEdit, Rule, UpstreamResponseEdit,
};

use super::candidates::ServingRule;
use super::forwarded::{BackendChange, Forwarded};
use super::own_response::LocalResponse;
use super::recorded_request::KnownRequest;
use super::treatment::{Treatment, TreatmentOutcome};
use super::verdict::{Difference, DifferenceKind, OtherSettings, Unknown, Verdict};

/// The impact on a request if `after` replaces `before`.
pub(super) fn verdict(before: &Treatment<'_>, after: &Treatment<'_>, request: &KnownRequest<'_>) -> Verdict {
    let verdict = of_outcomes(before, after, request);
    if let Some((_, by)) = after.unknown.iter().find(|(asker, _)| !before.is_uncertain(*asker)) {
        return Verdict::Undecided(*by);
    }
    // A request that was forwarded has passed all guards.
    if request.forwarded {
        return verdict;
    }
    let gone = before.unknown.iter().find(|(asker, _)| !after.is_uncertain(*asker));
    let doubted = before.unknown.first().filter(|_| matches!(verdict, Verdict::Otherwise(_)));
    match gone.or(doubted) {
        Some((_, by)) => Verdict::Undecided(*by),
        None => verdict,
    }
}

fn of_outcomes(before: &Treatment<'_>, after: &Treatment<'_>, request: &KnownRequest<'_>) -> Verdict {
    let otherwise =
        |kind| Verdict::Otherwise(Difference { kind, before: before.words(), after: after.words() });
    match (&before.outcome, &after.outcome) {
        (TreatmentOutcome::Hidden, _) | (_, TreatmentOutcome::Hidden) => Verdict::Undecided(Unknown::Hidden),
        (TreatmentOutcome::Answered(LocalResponse { status: 503, .. }), TreatmentOutcome::Unreferenced) => {
            Verdict::Same
        }
        (TreatmentOutcome::Unreferenced, _) | (_, TreatmentOutcome::Unreferenced) => {
            Verdict::Undecided(Unknown::Object)
        }
        (TreatmentOutcome::NoListener, TreatmentOutcome::NoListener)
        | (TreatmentOutcome::PassedThrough, TreatmentOutcome::PassedThrough) => Verdict::Same,
        (TreatmentOutcome::NoListener | TreatmentOutcome::PassedThrough, _)
        | (_, TreatmentOutcome::NoListener | TreatmentOutcome::PassedThrough) => {
            otherwise(DifferenceKind::Listener)
        }
        (TreatmentOutcome::Answered(one), TreatmentOutcome::Answered(other)) if one.is_like(other) => {
            settings(before, after, None)
        }
        (TreatmentOutcome::Answered(one), TreatmentOutcome::Answered(other)) => match answered(other) {
            DifferenceKind::Refused if one.location.is_some() => otherwise(DifferenceKind::Redirect),
            kind => otherwise(kind),
        },
        (TreatmentOutcome::Forwarded(_), TreatmentOutcome::Answered(answer)) => otherwise(answered(answer)),
        (TreatmentOutcome::Answered(_), TreatmentOutcome::Forwarded(_)) => otherwise(DifferenceKind::Served),
        (TreatmentOutcome::Forwarded(one), TreatmentOutcome::Forwarded(other)) => {
            let both = ForwardedPair { before: one, after: other };
            match both.verdict(before.found, after.found, request) {
                Verdict::Same => settings(before, after, Some(&both)),
                decided => decided,
            }
        }
    }
}

fn answered(response: &LocalResponse) -> DifferenceKind {
    match response {
        LocalResponse { location: Some(_), .. } => DifferenceKind::Redirect,
        LocalResponse { is_no_route: true, .. } => DifferenceKind::NoRoute,
        _ => DifferenceKind::Refused,
    }
}

/// A request that is forwarded both before and after the change.
struct ForwardedPair<'b, 's> {
    before: &'b Forwarded<'s>,
    after: &'b Forwarded<'s>,
}

impl ForwardedPair<'_, '_> {
    /// Does not compare settings.
    fn verdict(
        &self,
        before: Option<ServingRule<'_>>,
        after: Option<ServingRule<'_>>,
        request: &KnownRequest<'_>,
    ) -> Verdict {
        let otherwise = |kind, before, after| Verdict::Otherwise(Difference { kind, before, after });
        let Self { before: one, after: other } = self;
        let services = match one.backend_change(other, request.endpoint) {
            BackendChange::Stays(services) => services,
            BackendChange::Moves => {
                return otherwise(DifferenceKind::Backend, one.services(), other.services());
            }
            BackendChange::Chance => return Verdict::Undecided(Unknown::Weights),
        };
        if let Some((protocol, now)) = services.iter().find_map(|service| self.other_protocol(service)) {
            return otherwise(DifferenceKind::Protocol, protocol, now);
        }
        if one.path != other.path {
            return otherwise(DifferenceKind::Path, one.path.clone(), other.path.clone());
        }
        let own_host = request.host;
        let (host, now) = (one.host.unwrap_or(own_host), other.host.unwrap_or(own_host));
        if host != now {
            return otherwise(DifferenceKind::Host, host.to_owned(), now.to_owned());
        }
        let (Some(before), Some(after)) = (before, after) else { return Verdict::Same };
        let steps = header_steps(before.rule.rule(), request.over_tls);
        let steps_now = header_steps(after.rule.rule(), request.over_tls);
        let has_other_filters = services.iter().any(|service| self.has_other_filters(service));
        match (has_other_filters, services.len()) {
            (true, 2..) => Verdict::Undecided(Unknown::Weights),
            (is_other, _) if is_other || steps != steps_now => otherwise(
                DifferenceKind::Headers,
                "current headers".to_owned(),
                "different headers".to_owned(),
            ),
            _ => Verdict::Same,
        }
    }

    /// The protocols of a Service's endpoints, if they differ.
    fn other_protocol(&self, service: &str) -> Option<(String, String)> {
        let target_of = |forwarded: &Forwarded<'_>| {
            forwarded.shares_of(service).find_map(|share| share.backend).map(|backend| spoken(backend))
        };
        let (before, after) = (target_of(self.before)?, target_of(self.after)?);
        (before != after).then_some((before, after))
    }

    /// Whether the filters of a Service's share differ.
    fn has_other_filters(&self, service: &str) -> bool {
        let before = self.before.shares_of(service).map(|share| share.filters);
        !before.eq(self.after.shares_of(service).map(|share| share.filters))
    }

    /// Whether the endpoints of an unchanged Service are selected or used differently.
    fn uses_otherwise(&self) -> bool {
        let used = |it: &Arc<Backend>| {
            let Backend {
                key: _,
                origin: _,
                service: _,
                endpoints: _,
                protocol: _,
                tls,
                balancing,
                session,
                traffic,
            } = &**it;
            (tls.clone(), *balancing, session.clone(), traffic.clone())
        };
        self.before.shares.iter().any(|share| {
            let after = self.after.shares_of(&share.service).next();
            after.is_some_and(|after| share.backend.map(used) != after.backend.map(used))
        })
    }
}

/// The protocol of the endpoints.
fn spoken(backend: &Backend) -> String {
    let protocol = match backend.protocol {
        BackendProtocol::Http1 => "HTTP/1.1",
        BackendProtocol::H2c | BackendProtocol::Http2 => "HTTP/2",
        BackendProtocol::Auto => "HTTP/2 or HTTP/1.1",
    };
    let tls = if backend.tls.is_some() { " over TLS" } else { "" };
    format!("{protocol}{tls}")
}

/// A change to the headers of every request or response of a rule.
#[derive(PartialEq)]
enum HeaderStep<'r> {
    Request(&'r RequestEdit),
    Fields(&'r [HeaderTemplate]),
    Chosen(&'r ConditionalHeaders),
    Received(&'r UpstreamResponseEdit),
    Answer(&'r ResponseEdit),
}

fn header_steps(rule: &Rule, over_tls: bool) -> Vec<HeaderStep<'_>> {
    let phases = &rule.phases;
    let request = phases.request.iter().filter(|edit| !matches!(edit, RequestEdit::Host(_)));
    let forwarding = phases.forwarding.iter();
    let written = forwarding.flat_map(|it| {
        let unconditional = it.chosen.iter().filter(|chosen| chosen.when.is_empty());
        let fields = it.fields.iter().map(|fields| HeaderStep::Fields(fields));
        fields.chain(unconditional.map(|chosen| HeaderStep::Chosen(chosen)))
    });
    let responses = phases.answers.edits.iter().filter(|edit| match edit {
        ResponseEdit::Headers(_) | ResponseEdit::Fields(_) => true,
        ResponseEdit::Chosen(chosen) => chosen.when.is_empty(),
        ResponseEdit::StrictTransportSecurity(_) => over_tls,
        ResponseEdit::Cors(_) => false,
    });
    request
        .map(HeaderStep::Request)
        .chain(written)
        .chain(phases.answers.received.iter().map(HeaderStep::Received))
        .chain(responses.map(HeaderStep::Answer))
        .collect()
}

/// Other differences, if the request is forwarded in the same way.
fn settings(
    before: &Treatment<'_>,
    after: &Treatment<'_>,
    forwarded: Option<&ForwardedPair<'_, '_>>,
) -> Verdict {
    let (Some(one), Some(other)) = (before.found, after.found) else { return Verdict::Same };
    let (one, other) = (one.rule.rule(), other.rule.rule());
    let object = |rule: &Rule| {
        let origin = rule.origin.clone();
        (origin.kind, origin.namespace, origin.name)
    };
    if object(one) != object(other) {
        return Verdict::Settings(OtherSettings::Route);
    }
    let Some(both) = forwarded else { return Verdict::Same };
    if one.policy != other.policy {
        return Verdict::Settings(OtherSettings::Policy);
    }
    if both.uses_otherwise() {
        return Verdict::Settings(OtherSettings::Backend);
    }
    if one.phases != other.phases && filters(&one.phases) != filters(&other.phases) {
        return Verdict::Settings(OtherSettings::Filters);
    }
    Verdict::Same
}

/// The phases without what is compared elsewhere.
fn filters(phases: &Phases) -> Phases {
    let Phases {
        client: _,
        guards,
        request: _,
        extensions,
        forwarding,
        mut answers,
        bounds,
        unlogged,
        tracing,
    } = phases.clone();
    let is_counted = |guard: &Guard| {
        matches!(guard, Guard::RateLimit(_) | Guard::ConcurrencyLimit(_) | Guard::Preflight(_))
    };
    answers.received.clear();
    answers.edits.retain(|edit| match edit {
        ResponseEdit::Cors(_) => true,
        ResponseEdit::Chosen(chosen) => !chosen.when.is_empty(),
        _ => false,
    });
    let forwarding = forwarding.map(|it| {
        let conditional = it.chosen.iter().filter(|chosen| !chosen.when.is_empty()).cloned().collect();
        Forwarding { path: None, fields: None, tls_backend: None, chosen: conditional, ..*it }
    });
    Phases {
        client: None,
        guards: guards.into_iter().filter(is_counted).collect(),
        request: Vec::new(),
        extensions,
        forwarding: forwarding.and_then(Forwarding::if_not_empty),
        answers,
        bounds,
        unlogged,
        tracing,
    }
}
