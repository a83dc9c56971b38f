//! Converts a rule of the configuration to rules of routes, one for plain requests and one for requests over TLS, with remarks. A
//! rule that would have less protection than its Ingress asks for, or match other paths, is closed.

use std::collections::BTreeSet;
use std::time::Duration;

use fairway_model::{
    Action, FixedResponse, FixedResponseReason, Guard, HttpsRedirect, Match, Policy, Rule, VirtualHost,
};
use fairway_objects::gateway_api::{
    HttpBackendRef, HttpPathModifier, HttpRequestMirrorFilter, HttpRouteFilter, HttpRouteMatch,
    HttpRouteRetry, HttpRouteRule, HttpRouteTimeouts,
};
use fairway_objects::object::ObjectKey;
use fairway_objects::policies::{ErrorPages, PageService, RouteFilterSpec, SecurityPolicySpec};

use crate::gateway::backends::{Backends, Destination, Shares};
use crate::gateway::bodies::TrafficSettings;
use crate::gateway::filters::{self, Context, Filters};
use crate::gateway::input::ConversionOptions;
use crate::gateway::paths::{self, Matched, Style};
use crate::gateway::protection::{
    Annotated, Protection, duration_text, is_limit, protection_name, without_limit,
};
use crate::gateway::remark::{Remark, Remarks};

const TIMEOUT_ANNOTATIONS: &[&str] = &["proxy-read-timeout", "proxy-send-timeout"];
const CONNECT_TIMEOUT_ANNOTATIONS: &[&str] = &["proxy-connect-timeout"];
const CANARY_ANNOTATIONS: &[&str] = &["canary"];
const ERROR_PAGE_ANNOTATIONS: &[&str] = &["custom-http-errors", "default-backend"];

/// The default timeouts of ingress-nginx: between two reads or writes, and for a connect.
const DEFAULT_IO_TIMEOUT: Duration = Duration::from_secs(60);
const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A rule of a route that is being built.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Draft {
    pub(crate) rule: HttpRouteRule,
    /// Why it is closed, if it is.
    pub(crate) closed: Option<String>,
    /// Whether its backends speak gRPC.
    pub(crate) grpc: bool,
    /// The spec of its HTTPRouteFilter, which gets its name when it is written.
    pub(crate) filter: Option<RouteFilterSpec>,
    /// The spec of the SecurityPolicy that protects it.
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
    /// There is no TLS.
    Nowhere,
    /// TLS is terminated at the Gateway.
    Here,
    /// TLS is passed through.
    Passed,
}

/// Builds the rules of a host.
pub(crate) struct DraftBuilder<'a, 'i> {
    pub(crate) choice: &'a ConversionOptions,
    pub(crate) backends: &'a mut Backends<'i>,
    pub(crate) bodies: &'a mut TrafficSettings,
    pub(crate) remarks: &'a mut Remarks,
    /// Services in other namespaces that routes of a namespace refer to.
    pub(crate) foreign: &'a mut ForeignServices,
    pub(crate) annotated: &'a Annotated<'i>,
    /// How clients reach the host over TLS.
    pub(crate) tls: Tls,
    style: Style,
    sessions: BTreeSet<&'i str>,
    /// The protection of the whole host that routes cannot express.
    closed: Option<&'static str>,
}

/// Services in other namespaces than the Ingresses that refer to them.
#[derive(Debug, Default)]
pub(crate) struct ForeignServices {
    /// Services that receive mirrored requests.
    pub(crate) mirrors: BTreeSet<(ObjectKey, ObjectKey)>,
    /// Authentication services.
    pub(crate) requested: BTreeSet<(ObjectKey, ObjectKey)>,
}

/// The parts that all matches of a rule share.
struct SharedParts<'f> {
    filters: Filters<'f>,
    shares: Shares,
    timeouts: Option<HttpRouteTimeouts>,
    retry: Option<HttpRouteRetry>,
    protection: Option<SecurityPolicySpec>,
    /// Why the rule cannot be served.
    closed: Option<String>,
}

impl<'a, 'i> DraftBuilder<'a, 'i> {
    /// For a host with these rules.
    pub(crate) fn new(
        choice: &'a ConversionOptions,
        tls: Tls,
        asked: (&'a mut Backends<'i>, &'a mut TrafficSettings, &'a Annotated<'i>),
        remarks: &'a mut Remarks,
        foreign: &'a mut ForeignServices,
        host: &VirtualHost,
    ) -> Self {
        let (backends, bodies, annotated) = asked;
        let rules = || host.routes.iter().flat_map(|route| &route.rules).filter(|rule| is_of_ingress(rule));
        let style =
            Style::from_paths(rules().flat_map(|rule| &rule.matches).map(|route_match| &route_match.path));
        let sessions = backends.input.session_cookies();
        let closed = host.clients.as_ref().map(|_| "client certificates");
        Self { choice, backends, bodies, remarks, foreign, annotated, tls, style, sessions, closed }
    }

    /// Converts a rule.
    pub(crate) fn add(&mut self, rule: &Rule, drafts: &mut Drafts) {
        if !is_of_ingress(rule) || is_default_response(rule) {
            return;
        }
        let ingress = ingress_of(rule);
        let common = self.common(rule, &ingress);
        for matched in &rule.matches {
            if paths::is_of_session(matched, &self.sessions) {
                continue;
            }
            self.add_match(rule, matched, &ingress, &common, drafts);
        }
    }

    fn common<'r>(&mut self, rule: &'r Rule, ingress: &ObjectKey) -> SharedParts<'r> {
        let context = Context { labels: &rule.labels, has_own_filters: self.choice.has_own_kinds() };
        let mut filters = Filters::from_phases(&rule.phases, context);
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
            true => controller_response_reason(&rule.action).map(str::to_owned),
        };
        let otherwise = filters.lost.first().cloned();
        let closed =
            unserved.clone().or(unprotected.or(otherwise).filter(|why| self.close_server(ingress, why)));
        if let Some(why) = unserved {
            self.report_closed(ingress, &why);
        }
        self.policy(&rule.policy, ingress);
        if closed.is_none() {
            let pages = self.pages(&filters, ingress, &shares.backends);
            self.bodies.add_rule(rule, ingress, &shares, pages);
        }
        // A rule with a guard that no policy can express is closed, so the other guards need no policy.
        if closed.is_none() {
            self.remarks.extend(ingress, protection.remarks);
            self.foreign.requested.extend(protection.foreign.into_iter().map(|it| (ingress.clone(), it)));
        }
        let protection = protection.spec.filter(|_| closed.is_none());
        let retry = retry(&rule.policy, filters.retry_statuses);
        SharedParts { timeouts: timeouts(&rule.policy), retry, filters, shares, protection, closed }
    }

    /// Converts the guards of a rule to a policy; Gateways of other classes do not support it.
    fn protection(&mut self, filters: &Filters<'_>, ingress: &ObjectKey) -> Protection {
        if self.choice.has_own_kinds() {
            return self.annotated.protection(ingress, &filters.guards, self.backends);
        }
        Protection {
            missing: filters.guards.iter().filter_map(|guard| protection_name(guard)).collect(),
            remarks: filters.guards.iter().filter(|it| is_limit(it)).map(|it| without_limit(it)).collect(),
            ..Protection::default()
        }
    }

    /// Converts the error pages. A policy can only name a Service of its own namespace.
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
            let remark =
                "error responses are not replaced, and paths whose Service has no endpoints return 503";
            self.remarks.add(ingress, Remark::lost(ERROR_PAGE_ANNOTATIONS, remark));
            return None;
        };
        let mut statuses: Vec<i32> =
            pages.iter().flat_map(|pages| &pages.statuses).map(|status| i32::from(*status)).collect();
        if fallback.is_some() && !statuses.contains(&503) {
            let remark = "the Service also serves the error page if an endpoint returns 503";
            self.remarks.add(ingress, Remark::differs(ERROR_PAGE_ANNOTATIONS, remark));
            statuses.push(503);
        }
        Some(ErrorPages { statuses, backend_ref: PageService { name: service.name.to_string(), port } })
    }

    /// Whether to close a rule that cannot be served as its Ingress asks for. Adds a remark in both cases.
    fn close_server(&mut self, ingress: &ObjectKey, why: &str) -> bool {
        if self.choice.allow_loss {
            let remark = format!("{why}; the path is served without it (--allow-loss)");
            self.remarks.add(ingress, Remark::lost(&[], remark));
        } else {
            self.report_closed(ingress, why);
        }
        !self.choice.allow_loss
    }

    fn report_closed(&mut self, ingress: &ObjectKey, why: &str) {
        self.remarks.add(ingress, Remark::lost(&[], format!("{why}; its paths are closed and return 500")));
    }

    fn shares(&mut self, rule: &Rule, filters: &Filters<'_>) -> Result<Shares, String> {
        if filters.redirect.is_some() || filters.responds() {
            return Ok(Shares::default());
        }
        match &rule.action {
            Action::Forward(weighted) => self.backends.shares(weighted),
            Action::FixedResponse(_) => self.backends.shares_from_labels(&rule.labels),
        }
    }

    fn add_match(
        &mut self,
        rule: &Rule,
        model_match: &Match,
        ingress: &ObjectKey,
        common: &SharedParts<'_>,
        drafts: &mut Drafts,
    ) {
        let Matched { route_match: matched, path, substitution, lost, remarks } =
            paths::match_paths(model_match, common.filters.path, self.style, self.choice.has_own_kinds());
        self.remarks.extend(ingress, remarks);
        let mut closed = common.closed.clone();
        if let Some(why) = lost.filter(|_| closed.is_none() && common.filters.redirect.is_none())
            && !common.filters.responds()
            && self.close_server(ingress, &why)
        {
            closed = Some(why);
        }
        let fallbacks = rule.phases.forwarding.iter().flat_map(|forwarding| &forwarding.fallbacks);
        if fallbacks.into_iter().any(filters::is_of_canary) {
            let remark = "the share of a canary without endpoints returns 503 instead of being served by the main Service";
            self.remarks.add(ingress, Remark::differs(CANARY_ANNOTATIONS, remark));
        }
        let mirrors = if closed.is_none() { self.mirrors(ingress, &common.filters) } else { Vec::new() };
        let draft = |over_tls: bool| {
            let filter = common.filters.own_filter_spec(substitution.clone()).filter(|_| closed.is_none());
            let protection = common.protection.clone().filter(|_| closed.is_none());
            let draft = common.draft(match_rule(&matched), path.as_ref(), over_tls, closed.clone(), &mirrors);
            Draft { filter, protection, ..draft }
        };
        let plain = match common.filters.to_https {
            Some(to_https) => self.https_redirect_draft(match_rule(&matched), to_https),
            None => draft(false),
        };
        if common.filters.to_https.is_some() && self.tls == Tls::Nowhere {
            let remark =
                "plain requests are redirected, and https is not served: its host has no certificate";
            self.remarks.add(ingress, Remark::lost(&["force-ssl-redirect"], remark));
        }
        push_draft(&mut drafts.http, plain);
        if self.tls == Tls::Here {
            push_draft(&mut drafts.https, draft(true));
        }
    }

    /// The rule that redirects plain requests to https.
    fn https_redirect_draft(&mut self, rule: HttpRouteRule, to_https: &HttpsRedirect) -> Draft {
        if !to_https.keep_trailing_slash {
            let remark = "redirects to https keep a trailing slash; those of ingress-nginx drop it";
            self.remarks.add_general(remark);
        }
        let filters = vec![filters::to_https(to_https, self.choice.https_port)];
        Draft { rule: HttpRouteRule { filters, ..rule }, ..Draft::default() }
    }

    fn mirrors(&mut self, ingress: &ObjectKey, filters: &Filters<'_>) -> Vec<HttpRouteFilter> {
        let mut rules = Vec::new();
        for mirror in &filters.mirrors {
            let Some((mut reference, service)) = self.backends.mirror_target(&mirror.backend) else {
                self.remarks.add(ingress, filters::without_mirror(&mirror.backend.to_string()));
                continue;
            };
            self.remarks.extend(ingress, filters::mirror_remarks(mirror));
            if service.namespace == ingress.namespace {
                reference.namespace = None;
            } else {
                self.foreign.mirrors.insert((ingress.clone(), service));
            }
            let mirror =
                HttpRequestMirrorFilter { backend_ref: reference, ..HttpRequestMirrorFilter::default() };
            rules.push(HttpRouteFilter {
                request_mirror: Some(mirror),
                ..filters::filter_of_kind("RequestMirror")
            });
        }
        rules
    }

    /// Adds remarks on timeouts.
    fn policy(&mut self, policy: &Policy, ingress: &ObjectKey) {
        if io_timeout(policy) != DEFAULT_IO_TIMEOUT {
            let remark = "it limits the whole response; in ingress-nginx it limits the time between two reads or writes";
            self.remarks.add(ingress, Remark::differs(TIMEOUT_ANNOTATIONS, remark));
        }
        if policy.timeouts.connect != DEFAULT_CONNECT_TIMEOUT {
            let remark = "the default connect timeout applies";
            self.remarks.add(ingress, Remark::lost(CONNECT_TIMEOUT_ANNOTATIONS, remark));
        }
    }
}

impl SharedParts<'_> {
    /// Builds the rule for a match.
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
        let backend_refs = self.shares.backends.clone();
        let timeouts = self.timeouts.clone().filter(|_| !backend_refs.is_empty()).map(Box::new);
        let retry = self.retry.clone().filter(|_| !backend_refs.is_empty()).map(Box::new);
        let rule = HttpRouteRule { backend_refs, filters, timeouts, retry, ..of_match };
        Draft { rule, closed, grpc, ..Draft::default() }
    }
}

/// Whether the rule comes from an Ingress.
pub(crate) fn is_of_ingress(rule: &Rule) -> bool {
    *rule.origin.kind == *"Ingress"
}

/// The Ingress of a rule.
pub(crate) fn ingress_of(rule: &Rule) -> ObjectKey {
    ObjectKey { namespace: rule.origin.namespace.clone(), name: rule.origin.name.clone() }
}

/// Why the controller itself responds instead of a backend.
fn controller_response_reason(action: &Action) -> Option<&'static str> {
    match action {
        Action::Forward(_)
        | Action::FixedResponse(FixedResponse { reason: FixedResponseReason::NoRoute, .. }) => None,
        Action::FixedResponse(FixedResponse {
            reason:
                FixedResponseReason::ProtectionUnavailable
                | FixedResponseReason::ExtensionUnavailable
                | FixedResponseReason::Refused,
            ..
        }) => Some("it asks for protection that Fairway does not support for Ingresses either"),
        Action::FixedResponse(FixedResponse { reason: FixedResponseReason::MissingReference, .. }) => {
            Some("something that it refers to does not exist or cannot be used")
        }
    }
}

/// Whether the response is the 404 that requests also get without a rule.
fn is_default_response(rule: &Rule) -> bool {
    let redirects = rule.phases.guards.iter().any(|guard| matches!(guard, Guard::Redirect(_)));
    !redirects
        && matches!(
            rule.action,
            Action::FixedResponse(FixedResponse { reason: FixedResponseReason::NoRoute, .. })
        )
}

/// A rule with this match. Without backends, it returns 500 (Gateway API `HTTPRouteRule.backendRefs`).
fn match_rule(route_match: &HttpRouteMatch) -> HttpRouteRule {
    HttpRouteRule { matches: vec![route_match.clone()], ..HttpRouteRule::default() }
}

fn io_timeout(policy: &Policy) -> Duration {
    policy.timeouts.read.max(policy.timeouts.send)
}

fn timeouts(policy: &Policy) -> Option<HttpRouteTimeouts> {
    let patience = io_timeout(policy);
    let longer = || HttpRouteTimeouts { backend_request: Some(duration_text(patience)), request: None };
    (patience != DEFAULT_IO_TIMEOUT).then(longer)
}

/// The retries after response statuses, for which BackendTrafficPolicies have no field.
fn retry(policy: &Policy, statuses: &[u16]) -> Option<HttpRouteRetry> {
    (!statuses.is_empty()).then(|| HttpRouteRetry {
        attempts: Some(i32::from(policy.retry.tries.saturating_sub(1))),
        codes: statuses.iter().map(|status| i32::from(*status)).collect(),
        backoff: None,
    })
}

/// Adds a rule, or only its match if the previous rule is the same otherwise.
fn push_draft(to: &mut Vec<Draft>, draft: Draft) {
    if let Some(last) = to.last_mut() {
        let comparable = |draft: &Draft| Draft {
            rule: HttpRouteRule { matches: Vec::new(), ..draft.rule.clone() },
            ..draft.clone()
        };
        if comparable(last) == comparable(&draft) && last.rule.matches.len() < MAX_MATCHES {
            let new = draft.rule.matches.into_iter().filter(|it| !last.rule.matches.contains(it));
            let new: Vec<_> = new.collect();
            last.rule.matches.extend(new);
            return;
        }
    }
    to.push(draft);
}

/// Maximum number of matches per rule. Gateway API allows 64 in `HTTPRouteRule.matches`, and 128 per route.
const MAX_MATCHES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_at_most_five_digits_per_unit() {
        let written =
            [30, 99_999, 100_000, 1_000_000_000].map(|seconds| duration_text(Duration::from_secs(seconds)));
        assert_eq!(written, ["30s", "99999s", "27h", "99999h"]);
    }

    #[test]
    fn rules_that_differ_only_in_their_matches_are_merged() {
        let draft_for = |path: &str, closed: Option<&str>| {
            let path = fairway_objects::gateway_api::TypedValue { type_: None, value: Some(path.into()) };
            let route_match = HttpRouteMatch { path: Some(path), ..HttpRouteMatch::default() };
            Draft { rule: match_rule(&route_match), closed: closed.map(str::to_owned), ..Draft::default() }
        };
        let mut all = Vec::new();
        for draft in
            [draft_for("/a", None), draft_for("/b", None), draft_for("/b", None), draft_for("/c", Some("x"))]
        {
            push_draft(&mut all, draft);
        }
        let found: Vec<_> = all.iter().map(|draft| draft.rule.matches.len()).collect();
        assert_eq!(found, [2, 1]);
    }
}
