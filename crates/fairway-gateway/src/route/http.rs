//! HTTPRoutes: rules with matches, filters, timeouts and retries.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use fairway_model::{
    Match, PathMatch, Policy, Retry, RetrySource, RouteFilters, SessionCookie, Timeouts, WeightedBackend,
};
use fairway_objects::duration;
use fairway_objects::gateway_api::{
    HttpRouteFilter, HttpRouteRetry, HttpRouteRule, HttpRouteSpec, HttpRouteTimeouts,
};

use crate::backend::BackendReference;
use crate::condition::Fault;
use crate::filter::FilterError;
use crate::route::{external_auth, session};
use crate::rules::{RuleBuilder, RuleDraft};
use crate::{filter, matches};

/// Default number of retries (`attempts` of Gateway API v1.7; earlier releases leave it open).
const DEFAULT_ATTEMPTS: i32 = 1;

/// Reads the rules.
pub(crate) fn read(spec: &HttpRouteSpec, builder: &mut RuleBuilder<'_>) {
    for (index, rule) in spec.rules.iter().enumerate() {
        let draft = draft(index, rule, builder);
        builder.add(draft);
    }
}

fn draft<'r>(index: usize, rule: &'r HttpRouteRule, builder: &mut RuleBuilder<'_>) -> RuleDraft<'r> {
    let at = format!("spec.rules[{index}]");
    let session = session::read(index, rule.name.as_deref(), rule.session_persistence.as_deref(), builder);
    let account = &mut builder.account;
    let matches: Vec<_> = rule.matches.iter().map(|it| matches::http_match(it, account)).collect();
    let prefixes = matches.iter().flatten().all(|it: &Match| matches!(it.path, PathMatch::Prefix(_)));
    let filters = filters(builder, &at, prefixes, &rule.filters);
    let guards = external_auth::read(index, rule, builder);
    let retry_statuses = rule.retry.as_deref().map(retry_statuses).unwrap_or_default();
    let shares = shares(index, rule, prefixes, session.as_ref(), builder);
    RuleDraft {
        index,
        name: rule.name.as_deref(),
        matches,
        filters,
        guards,
        retry_statuses,
        policy: policy(rule),
        session,
        shares,
    }
}

fn shares(
    index: usize,
    rule: &HttpRouteRule,
    prefixes: bool,
    session: Option<&Arc<SessionCookie>>,
    builder: &mut RuleBuilder<'_>,
) -> Vec<WeightedBackend> {
    let mut shares = Vec::with_capacity(rule.backend_refs.len());
    for (number, it) in rule.backend_refs.iter().enumerate() {
        let at = format!("spec.rules[{index}].backendRefs[{number}]");
        let mirror = &mut |reference: BackendReference<'_>| builder.mirror(&at, reference);
        let filters = filter::FilterReader { named: None, mirror, prefixes }.read_http(&it.filters);
        shares.push(builder.share(index, &at, it.into(), it.weight, filters, session));
    }
    shares
}

/// The filters of a rule.
fn filters(
    builder: &mut RuleBuilder<'_>,
    at: &str,
    prefixes: bool,
    filters: &[HttpRouteFilter],
) -> Result<RouteFilters, FilterError> {
    let builder = RefCell::new(builder);
    let mirror = &mut |reference: BackendReference<'_>| builder.borrow_mut().mirror(at, reference);
    let named = &mut |name: &str| builder.borrow_mut().filter(name);
    filter::FilterReader { named: Some(named), mirror, prefixes }.read_http(filters)
}

/// Response statuses that are retried on another endpoint.
fn retry_statuses(retry: &HttpRouteRetry) -> Vec<u16> {
    let mut codes: Vec<u16> = retry.codes.iter().filter_map(|code| u16::try_from(*code).ok()).collect();
    codes.sort_unstable();
    codes.dedup();
    codes
}

fn policy(rule: &HttpRouteRule) -> Result<Policy, Fault> {
    let timeouts = rule.timeouts.as_deref().map(timeouts).transpose()?.unwrap_or_default();
    let retry = rule.retry.as_deref().map(retry).transpose()?.unwrap_or_default();
    Ok(Policy { timeouts, retry, ..Policy::default() })
}

/// Zero is unlimited (Gateway API `HTTPRouteTimeouts`). The timeouts between reads and writes then follow the
/// requested ones.
fn timeouts(spec: &HttpRouteTimeouts) -> Result<Timeouts, Fault> {
    let read = |text: &Option<String>| text.as_deref().map(time).transpose();
    let (request, backend_request) = (read(&spec.request)?, read(&spec.backend_request)?);
    let filters = [request, backend_request].into_iter().flatten();
    let patience = filters.map(|time| if time.is_zero() { Duration::MAX } else { time }).max();
    let base = Timeouts::default();
    let limit = |time: Option<Duration>| time.filter(|time| !time.is_zero());
    Ok(Timeouts {
        send: patience.unwrap_or(base.send),
        read: patience.unwrap_or(base.read),
        request: limit(request),
        backend_request: limit(backend_request),
        ..base
    })
}

fn retry(spec: &HttpRouteRetry) -> Result<Retry, Fault> {
    let tries = |attempts: i32| u8::try_from(attempts.max(0)).unwrap_or(u8::MAX).saturating_add(1);
    Ok(Retry {
        tries: tries(spec.attempts.unwrap_or(DEFAULT_ATTEMPTS)),
        connect_total: Duration::MAX,
        by: RetrySource::Route,
        backoff: spec.backoff.as_deref().map(time).transpose()?.unwrap_or_default(),
    })
}

fn time(text: &str) -> Result<Duration, Fault> {
    duration::read(text).ok_or_else(|| Fault::new("UnsupportedValue", format!("\"{text}\" is no duration")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_unlimited_and_io_timeouts_follow_requested_ones() {
        let timeouts_for = |request: &str, backend_request: Option<&str>| {
            let text = |text: &str| text.to_owned();
            let route_timeouts = HttpRouteTimeouts {
                request: Some(request.to_owned()),
                backend_request: backend_request.map(text),
            };
            timeouts(&route_timeouts).unwrap()
        };
        let second = Duration::from_secs(1);
        let limited = timeouts_for("10s", Some("2s"));
        assert_eq!((limited.request, limited.backend_request), (Some(second * 10), Some(second * 2)));
        assert_eq!((limited.read, limited.send), (second * 10, second * 10));
        let endless = timeouts_for("0s", None);
        assert_eq!((endless.request, endless.read), (None, Duration::MAX));
    }

    #[test]
    fn attempts_come_after_the_first_one() {
        let tries_for =
            |attempts| retry(&HttpRouteRetry { attempts, ..HttpRouteRetry::default() }).unwrap().tries;
        assert_eq!(
            [tries_for(None), tries_for(Some(0)), tries_for(Some(2)), tries_for(Some(300))],
            [2, 1, 3, 255]
        );
    }
}
