//! A rule of the configuration as rules of routes: one for requests in the clear, one for those over TLS, and what is said about
//! it. A rule that would be served with less protection than its Ingress asks for, or for other paths, is closed.

use std::collections::BTreeSet;
use std::time::Duration;

use fairway_model::{Action, Answer, AnswerReason, Guard, HttpsRedirect, Match, Policy, Rule, VirtualHost};
use fairway_objects::gateway_api::{
    HttpBackendRef, HttpPathModifier, HttpRequestMirrorFilter, HttpRouteFilter, HttpRouteMatch,
    HttpRouteRetry, HttpRouteRule, HttpRouteTimeouts,
};
use fairway_objects::object::ObjectKey;
use fairway_objects::policies::{ErrorPages, PageService, RouteFilterSpec, SecurityPolicySpec};

use crate::gateway::backends::{Backends, Destination, Shares};
use crate::gateway::bodies::Bodies;
use crate::gateway::filters::{self, Context, Filters};
use crate::gateway::input::Choice;
use crate::gateway::paths::{self, Matched, Style};
use crate::gateway::protection::{Annotated, Protection, duration, is_limit, name_of, without_limit};
use crate::gateway::remark::{Remark, Remarks};

const TIMEOUTS: &[&str] = &["proxy-read-timeout", "proxy-send-timeout"];
const CONNECT: &[&str] = &["proxy-connect-timeout"];
const CANARY: &[&str] = &["canary"];
const PAGES: &[&str] = &["custom-http-errors", "default-backend"];

/// What ingress-nginx waits for between two reads or writes, and for a connection, unless it is told otherwise.
const USUAL_PATIENCE: Duration = Duration::from_secs(60);
const USUAL_CONNECT: Duration = Duration::from_secs(5);

/// A rule of a route.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Draft {
    pub(crate) rule: HttpRouteRule,
    /// Why it is closed, where it is.
    pub(crate) closed: Option<String>,
    /// Whether its backends speak gRPC.
    pub(crate) grpc: bool,
    /// What a filter of Fairway's own does for it, which is named once it is written.
    pub(crate) filter: Option<RouteFilterSpec>,
    /// What of a SecurityPolicy protects it.
    pub(crate) protection: Option<SecurityPolicySpec>,
}

/// The rules of an Ingress on a host.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Drafts {
    pub(crate) http: Vec<Draft>,
    pub(crate) https: Vec<Draft>,
}

/// How clients reach a host over TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tls {
    /// They do not.
    Nowhere,
    /// It ends at the Gateway.
    Here,
    /// It is passed through.
    Passed,
}

/// Makes the rules of a host.
pub(crate) struct Drafting<'a, 'i> {
    pub(crate) choice: &'a Choice,
    pub(crate) backends: &'a mut Backends<'i>,
    pub(crate) bodies: &'a mut Bodies,
    pub(crate) remarks: &'a mut Remarks,
    /// Services in other namespaces that routes of a namespace refer to.
    pub(crate) foreign: &'a mut Foreign,
    pub(crate) annotated: &'a Annotated<'i>,
    /// How clients reach the host over TLS.
    pub(crate) tls: Tls,
    style: Style,
    sessions: BTreeSet<&'i str>,
    /// What protects the host as a whole.
    closed: Option<&'static str>,
}

/// Services in other namespaces than the Ingresses that refer to them.
#[derive(Debug, Default)]
pub(crate) struct Foreign {
    /// Those that get copies of requests.
    pub(crate) mirrors: BTreeSet<(ObjectKey, ObjectKey)>,
    /// Those that are asked about requests.
    pub(crate) asked: BTreeSet<(ObjectKey, ObjectKey)>,
}

/// What all matches of a rule have in common.
struct Common<'f> {
    filters: Filters<'f>,
    shares: Shares,
    timeouts: Option<HttpRouteTimeouts>,
    retry: Option<HttpRouteRetry>,
    protection: Option<SecurityPolicySpec>,
    /// Why nothing of it can be served.
    closed: Option<String>,
}

impl<'a, 'i> Drafting<'a, 'i> {
    /// For a host with these rules.
    pub(crate) fn new(
        choice: &'a Choice,
        tls: Tls,
        asked: (&'a mut Backends<'i>, &'a mut Bodies, &'a Annotated<'i>),
        remarks: &'a mut Remarks,
        foreign: &'a mut Foreign,
        host: &VirtualHost,
    ) -> Self {
        let (backends, bodies, annotated) = asked;
        let rules = || host.routes.iter().flat_map(|route| &route.rules).filter(|rule| is_of_ingress(rule));
        let style = Style::of(rules().flat_map(|rule| &rule.matches).map(|of| &of.path));
        let sessions = backends.input.session_cookies();
        let closed = host.clients.as_ref().map(|_| "the certificates that clients must show");
        Self { choice, backends, bodies, remarks, foreign, annotated, tls, style, sessions, closed }
    }

    /// Adds what a rule becomes.
    pub(crate) fn add(&mut self, rule: &Rule, drafts: &mut Drafts) {
        if !is_of_ingress(rule) || is_answered_anyway(rule) {
            return;
        }
        let ingress = ingress_of(rule);
        let common = self.common(rule, &ingress);
        for of in &rule.matches {
            if paths::is_of_session(of, &self.sessions) {
                continue;
            }
            self.add_match(rule, of, &ingress, &common, drafts);
        }
    }

    fn common<'r>(&mut self, rule: &'r Rule, ingress: &ObjectKey) -> Common<'r> {
        let context = Context { labels: &rule.labels, has_own_filters: self.choice.has_own_kinds() };
        let mut filters = Filters::of(&rule.phases, context);
        self.remarks.extend(ingress, filters.remarks.drain(..));
        let (shares, unserved) = match self.shares(rule, &filters) {
            Ok(shares) => (shares, None),
            Err(why) => (Shares::default(), Some(why)),
        };
        self.remarks.extend(ingress, shares.remarks.iter().cloned());
        let protection = self.protection(&filters, ingress);
        let missing: Vec<&str> =
            (filters.closed.iter().chain(&protection.missing).copied()).chain(self.closed).collect();
        let unprotected = match missing.is_empty() {
            false => Some(format!("the Gateway API has no field for {}", missing.join(" and "))),
            true => of_answer(&rule.action).map(str::to_owned),
        };
        let otherwise = filters.lost.first().cloned();
        let closed = unserved.clone().or(unprotected.or(otherwise).filter(|why| self.closes(ingress, why)));
        if let Some(why) = unserved {
            self.say_closed(ingress, &why);
        }
        self.policy(&rule.policy, ingress);
        if closed.is_none() {
            let pages = self.pages(&filters, ingress, &shares.of);
            self.bodies.ask(rule, ingress, &shares, pages);
        }
        // What no policy protects is closed, and then nothing is asked of the others.
        if closed.is_none() {
            self.remarks.extend(ingress, protection.remarks);
            self.foreign.asked.extend(protection.foreign.into_iter().map(|it| (ingress.clone(), it)));
        }
        let protection = protection.spec.filter(|_| closed.is_none());
        let retry = retry(&rule.policy, filters.retry_statuses);
        Common { timeouts: timeouts(&rule.policy), retry, filters, shares, protection, closed }
    }

    /// The guards of a rule as a policy, which a Gateway of another class has not.
    fn protection(&mut self, filters: &Filters<'_>, ingress: &ObjectKey) -> Protection {
        if self.choice.has_own_kinds() {
            return self.annotated.protection(ingress, &filters.guards, self.backends);
        }
        Protection {
            missing: filters.guards.iter().filter_map(|guard| name_of(guard)).collect(),
            remarks: filters.guards.iter().filter(|it| is_limit(it)).map(|it| without_limit(it)).collect(),
            ..Protection::default()
        }
    }

    /// Which responses another Service makes: a policy names one of its own namespace.
    fn pages(
        &mut self,
        filters: &Filters<'_>,
        ingress: &ObjectKey,
        shares: &[HttpBackendRef],
    ) -> Option<ErrorPages> {
        let Filters { pages, fallback, .. } = filters;
        let backend = match (pages, fallback) {
            (Some(pages), _) => pages.backend.as_ref(),
            (None, Some(fallback)) => Some(&fallback.backend),
            (None, None) => return None,
        };
        let is_near = |to: &Destination| {
            shares.iter().all(|share| {
                *share.namespace.as_deref().unwrap_or(&ingress.namespace) == *to.service.namespace
            })
        };
        let backend = backend.and_then(|key| self.backends.input.backend(key));
        let to = backend.and_then(|backend| self.backends.destination(backend).ok()).filter(is_near);
        let Some(Destination { service, port }) = to else {
            let what =
                "error responses stay as they are, and paths whose Service has no endpoints answer 503";
            self.remarks.add(ingress, Remark::lost(PAGES, what));
            return None;
        };
        let mut statuses: Vec<i32> =
            pages.iter().flat_map(|pages| &pages.statuses).map(|status| i32::from(*status)).collect();
        if fallback.is_some() && !statuses.contains(&503) {
            let what = "the Service also makes the response where an endpoint responds with 503";
            self.remarks.add(ingress, Remark::differs(PAGES, what));
            statuses.push(503);
        }
        Some(ErrorPages { statuses, backend_ref: PageService { name: service.name.to_string(), port } })
    }

    /// Whether a rule is closed that would be served otherwise than its Ingress asks for; says so either way.
    fn closes(&mut self, ingress: &ObjectKey, why: &str) -> bool {
        if self.choice.allow_loss {
            let what = format!("{why}; the path is served without (--allow-loss)");
            self.remarks.add(ingress, Remark::lost(&[], what));
        } else {
            self.say_closed(ingress, why);
        }
        !self.choice.allow_loss
    }

    fn say_closed(&mut self, ingress: &ObjectKey, why: &str) {
        self.remarks.add(ingress, Remark::lost(&[], format!("{why}; its paths are closed and answer 500")));
    }

    fn shares(&mut self, rule: &Rule, filters: &Filters<'_>) -> Result<Shares, String> {
        if filters.redirect.is_some() || filters.responds() {
            return Ok(Shares::default());
        }
        match &rule.action {
            Action::Forward(weighted) => self.backends.shares(weighted),
            Action::Answer(_) => self.backends.labelled(&rule.labels),
        }
    }

    fn add_match(
        &mut self,
        rule: &Rule,
        of: &Match,
        ingress: &ObjectKey,
        common: &Common<'_>,
        drafts: &mut Drafts,
    ) {
        let Matched { of: matched, path, substitution, lost, remarks } =
            paths::matched(of, common.filters.path, self.style, self.choice.has_own_kinds());
        self.remarks.extend(ingress, remarks);
        let mut closed = common.closed.clone();
        if let Some(why) = lost.filter(|_| closed.is_none() && common.filters.redirect.is_none())
            && !common.filters.responds()
            && self.closes(ingress, &why)
        {
            closed = Some(why);
        }
        let fallbacks = rule.phases.forwarding.iter().flat_map(|forwarding| &forwarding.fallbacks);
        if fallbacks.into_iter().any(filters::is_of_canary) {
            let what =
                "the share of a canary without endpoints is answered 503, and not served by the main Service";
            self.remarks.add(ingress, Remark::differs(CANARY, what));
        }
        let mirrors = if closed.is_none() { self.mirrors(ingress, &common.filters) } else { Vec::new() };
        let draft = |over_tls: bool| {
            let filter = common.filters.own(substitution.clone()).filter(|_| closed.is_none());
            let protection = common.protection.clone().filter(|_| closed.is_none());
            let draft = common.draft(of_match(&matched), path.as_ref(), over_tls, closed.clone(), &mirrors);
            Draft { filter, protection, ..draft }
        };
        let plain = match common.filters.to_https {
            Some(to_https) => self.redirected(of_match(&matched), to_https),
            None => draft(false),
        };
        if common.filters.to_https.is_some() && self.tls == Tls::Nowhere {
            let what = "plain requests are redirected, and https is not served: its host has no certificate";
            self.remarks.add(ingress, Remark::lost(&["force-ssl-redirect"], what));
        }
        push(&mut drafts.http, plain);
        if self.tls == Tls::Here {
            push(&mut drafts.https, draft(true));
        }
    }

    /// Plain requests that go to https instead.
    fn redirected(&mut self, rule: HttpRouteRule, to_https: &HttpsRedirect) -> Draft {
        if !to_https.keep_trailing_slash {
            let what =
                "redirects to https keep a slash at the end of the path; those of ingress-nginx drop it";
            self.remarks.add_general(what);
        }
        let filters = vec![filters::to_https(to_https, self.choice.https_port)];
        Draft { rule: HttpRouteRule { filters, ..rule }, ..Draft::default() }
    }

    fn mirrors(&mut self, ingress: &ObjectKey, filters: &Filters<'_>) -> Vec<HttpRouteFilter> {
        let mut made = Vec::new();
        for mirror in &filters.mirrors {
            let Some((mut reference, service)) = self.backends.copies(&mirror.backend) else {
                self.remarks.add(ingress, filters::without_mirror(&mirror.backend.to_string()));
                continue;
            };
            self.remarks.extend(ingress, filters::of_mirror(mirror));
            if service.namespace == ingress.namespace {
                reference.namespace = None;
            } else {
                self.foreign.mirrors.insert((ingress.clone(), service));
            }
            let mirror =
                HttpRequestMirrorFilter { backend_ref: reference, ..HttpRequestMirrorFilter::default() };
            made.push(HttpRouteFilter { request_mirror: Some(mirror), ..filters::kind("RequestMirror") });
        }
        made
    }

    /// What is said of times.
    fn policy(&mut self, policy: &Policy, ingress: &ObjectKey) {
        if patience(policy) != USUAL_PATIENCE {
            let what = "it bounds the whole response; in ingress-nginx, the time between two reads or writes";
            self.remarks.add(ingress, Remark::differs(TIMEOUTS, what));
        }
        if policy.timeouts.connect != USUAL_CONNECT {
            let what = "connections to endpoints have the usual time";
            self.remarks.add(ingress, Remark::lost(CONNECT, what));
        }
    }
}

impl Common<'_> {
    /// The rule with everything but its matches.
    fn draft(
        &self,
        of_match: HttpRouteRule,
        path: Option<&HttpPathModifier>,
        over_tls: bool,
        closed: Option<String>,
        mirrors: &[HttpRouteFilter],
    ) -> Draft {
        let grpc = self.shares.grpc;
        if closed.is_some() {
            return Draft { rule: of_match, closed, grpc, ..Draft::default() };
        }
        let mut filters = self.filters.for_route(path, over_tls);
        filters.extend_from_slice(mirrors);
        let backend_refs = self.shares.of.clone();
        let timeouts = self.timeouts.clone().filter(|_| !backend_refs.is_empty()).map(Box::new);
        let retry = self.retry.clone().filter(|_| !backend_refs.is_empty()).map(Box::new);
        let rule = HttpRouteRule { backend_refs, filters, timeouts, retry, ..of_match };
        Draft { rule, closed, grpc, ..Draft::default() }
    }
}

/// Whether an object asks for the rule.
pub(crate) fn is_of_ingress(rule: &Rule) -> bool {
    *rule.origin.kind == *"Ingress"
}

/// The Ingress that a rule is of.
pub(crate) fn ingress_of(rule: &Rule) -> ObjectKey {
    ObjectKey { namespace: rule.origin.namespace.clone(), name: rule.origin.name.clone() }
}

/// Why an Ingress controller answers itself instead of a backend.
fn of_answer(action: &Action) -> Option<&'static str> {
    match action {
        Action::Forward(_) | Action::Answer(Answer { reason: AnswerReason::NoRoute, .. }) => None,
        Action::Answer(Answer {
            reason:
                AnswerReason::ProtectionUnavailable | AnswerReason::ExtensionUnavailable | AnswerReason::Refused,
            ..
        }) => Some("it asks for protection that Fairway does not give to Ingresses either"),
        Action::Answer(Answer { reason: AnswerReason::MissingReference, .. }) => {
            Some("something that it refers to does not exist or cannot be used")
        }
    }
}

/// 404 where no route says anything is what happens without a rule, too.
fn is_answered_anyway(rule: &Rule) -> bool {
    let redirects = rule.phases.guards.iter().any(|guard| matches!(guard, Guard::Redirect(_)));
    !redirects && matches!(rule.action, Action::Answer(Answer { reason: AnswerReason::NoRoute, .. }))
}

/// A rule without backends is answered 500 (Gateway API `HTTPRouteRule.backendRefs`).
fn of_match(of: &HttpRouteMatch) -> HttpRouteRule {
    HttpRouteRule { matches: vec![of.clone()], ..HttpRouteRule::default() }
}

fn patience(policy: &Policy) -> Duration {
    policy.timeouts.read.max(policy.timeouts.send)
}

fn timeouts(policy: &Policy) -> Option<HttpRouteTimeouts> {
    let patience = patience(policy);
    let longer = || HttpRouteTimeouts { backend_request: Some(duration(patience)), request: None };
    (patience != USUAL_PATIENCE).then(longer)
}

/// The retries after responses, which policies of a Service have no field for.
fn retry(policy: &Policy, statuses: &[u16]) -> Option<HttpRouteRetry> {
    (!statuses.is_empty()).then(|| HttpRouteRetry {
        attempts: Some(i32::from(policy.retry.tries.saturating_sub(1))),
        codes: statuses.iter().map(|status| i32::from(*status)).collect(),
        backoff: None,
    })
}

/// Adds a rule, or its match to the one before it that does the same.
fn push(to: &mut Vec<Draft>, draft: Draft) {
    if let Some(last) = to.last_mut() {
        let same = |one: &Draft| Draft {
            rule: HttpRouteRule { matches: Vec::new(), ..one.rule.clone() },
            ..one.clone()
        };
        if same(last) == same(&draft) && last.rule.matches.len() < MOST_MATCHES {
            let new = draft.rule.matches.into_iter().filter(|it| !last.rule.matches.contains(it));
            let new: Vec<_> = new.collect();
            last.rule.matches.extend(new);
            return;
        }
    }
    to.push(draft);
}

/// Gateway API `HTTPRouteRule.matches` has 64, and the rules of a route 128 together.
const MOST_MATCHES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_five_digits_at_most() {
        let written =
            [30, 99_999, 100_000, 1_000_000_000].map(|seconds| duration(Duration::from_secs(seconds)));
        assert_eq!(written, ["30s", "99999s", "27h", "99999h"]);
    }

    #[test]
    fn rules_that_do_the_same_share_their_matches() {
        let of = |path: &str, closed: Option<&str>| {
            let path = fairway_objects::gateway_api::TypedValue { type_: None, value: Some(path.into()) };
            let of = HttpRouteMatch { path: Some(path), ..HttpRouteMatch::default() };
            Draft { rule: of_match(&of), closed: closed.map(str::to_owned), ..Draft::default() }
        };
        let mut all = Vec::new();
        for draft in [of("/a", None), of("/b", None), of("/b", None), of("/c", Some("x"))] {
            push(&mut all, draft);
        }
        let found: Vec<_> = all.iter().map(|draft| draft.rule.matches.len()).collect();
        assert_eq!(found, [2, 1]);
    }
}
