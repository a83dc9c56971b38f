//! Reads BackendTrafficPolicies.

use std::sync::Arc;

use fairway_model::{
    BackendTraffic, Balancing, BodyHandling, Retry, RetryBudget, RetrySource, SameSite, SecureCookie,
    SessionCarrier, SessionCookie, SessionHash, SessionLifetime, SessionPart, SessionStart, Stickiness,
    StickyFailure,
};
use fairway_objects::balance::{Balance, DISTRIBUTIONS, HashKey};
use fairway_objects::external_processor::InvalidField;
use fairway_objects::policies as types;
use fairway_objects::policies::{BackendLimits, BackendTrafficPolicySpec, ServiceReference};
use fairway_objects::{backend_traffic, health};

use crate::policies::reading::{PolicyError, PolicyReading, PolicyWarning};
use crate::policies::value::{enum_value, number, positive_bytes, positive_time, time};
use crate::policies::{buffering, compression};

/// The default retry budget of a worker (`fairway_net::budgets`), used for missing values of a Service's own budget.
const RETRY_PERCENT: u8 = 20;
const RETRIES_PER_SECOND: u16 = 10;
const MAX_RETRIES_PER_SECOND: u16 = 1000;

/// Settings for the endpoints of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BackendSettings {
    /// Load balancing and session persistence.
    pub balance: Balance,
    /// Retries, ejection, limits and health checks.
    pub traffic: BackendTraffic,
    /// Body handling, if it differs from the default.
    pub bodies: Option<Arc<BodyHandling>>,
    /// Responses replaced with error pages.
    pub pages: Option<Arc<ErrorPageService>>,
}

/// Responses replaced with error pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ErrorPageService {
    /// In ascending order.
    pub statuses: Vec<u16>,
    /// The Service with the pages.
    pub service: ServiceReference,
}

/// Reads a policy.
///
/// # Errors
/// The first unusable value.
pub(crate) fn read(spec: &BackendTrafficPolicySpec) -> Result<PolicyReading<BackendSettings>, PolicyError> {
    let balancing = spec.load_balancing.clone().unwrap_or_default();
    let hash = hash(&balancing.hash)?;
    let cookie = spec.session_cookie.as_ref().map(cookie).transpose()?;
    if hash.is_some() && cookie.is_some() {
        let problem = "loadBalancing.hash and sessionCookie exclude each other";
        return Err(PolicyError::new("spec.sessionCookie", problem));
    }
    let algorithms = [
        ("PeakEWMA", Balancing::PeakEwma),
        ("RoundRobin", Balancing::RoundRobin),
        ("LeastRequests", Balancing::LeastRequests),
        ("Random", Balancing::Random),
    ];
    let algorithm = enum_value("spec.loadBalancing.algorithm", balancing.algorithm.as_deref(), &algorithms)?;
    let distribution = balancing.traffic_distribution.as_deref();
    let distribution = enum_value("spec.loadBalancing.trafficDistribution", distribution, &DISTRIBUTIONS)?;
    let limits = spec.limits.clone().unwrap_or_default();
    let delay = spec.hedging.as_ref().and_then(|hedging| hedging.connect_delay.as_deref());
    let health = spec.health.as_ref().map(|settings| health::read(settings).map_err(invalid_in("health")));
    let outliers = spec.outlier_ejection.as_ref().map(backend_traffic::ejection);
    let outliers = outliers.transpose().map_err(invalid_in("outlierEjection"))?;
    let limit = backend_traffic::limits(&limits).map_err(invalid_in("limits"))?;
    let mut warnings = Vec::new();
    let settings = BackendSettings {
        balance: Balance {
            balancing: algorithm.unwrap_or(Balancing::PeakEwma),
            hash: hash.map(Arc::new),
            distribution,
            health: health.transpose()?.map(Arc::new),
            traffic: None,
            cookie: cookie.map(Arc::new),
        },
        traffic: BackendTraffic {
            retry: spec.retry.as_ref().map(retry).transpose()?,
            ejection: outliers.map(|outliers| outliers.ejection),
            latency: outliers.and_then(|outliers| outliers.latency),
            limits: limit.of_backend,
            retry_budget: spec.retry.as_ref().map(retry_budget).transpose()?.flatten(),
            in_flight: limit.in_flight,
            hedge: time("spec.hedging.connectDelay", delay)?,
            ..BackendTraffic::default()
        },
        bodies: bodies(spec, &limits, &mut warnings)?.if_not_empty(),
        pages: spec.error_pages.as_ref().map(pages).transpose()?.map(Arc::new),
    };
    Ok(PolicyReading { value: settings, warnings })
}

/// Prefixes the field of an error.
fn invalid_in(section: &str) -> impl Fn(InvalidField) -> PolicyError {
    move |InvalidField { field, value, problem }| {
        let value = value.map_or_else(String::new, |value| format!("\"{value}\" "));
        PolicyError::new(format!("spec.{section}.{field}"), format!("{value}{problem}"))
    }
}

fn retry_budget(spec: &types::RetryPolicy) -> Result<Option<RetryBudget>, PolicyError> {
    let percent: Option<u8> = number("spec.retry.budgetPercent", spec.budget_percent.map(i64::from), 0)?;
    let per_second = spec.min_retries_per_second.map(i64::from);
    let per_second: Option<u16> = number("spec.retry.minRetriesPerSecond", per_second, 0)?;
    if percent.is_some_and(|percent| percent > 100) {
        return Err(PolicyError::new("spec.retry.budgetPercent", "it is above 100"));
    }
    if per_second.is_some_and(|count| count > MAX_RETRIES_PER_SECOND) {
        return Err(PolicyError::new("spec.retry.minRetriesPerSecond", "it is above 1000"));
    }
    if percent.is_none() && per_second.is_none() {
        return Ok(None);
    }
    if spec.budget.as_deref() == Some("None") {
        return Err(PolicyError::new(
            "spec.retry.budget",
            "None has no budgetPercent and no minRetriesPerSecond",
        ));
    }
    Ok(Some(RetryBudget {
        percent: percent.unwrap_or(RETRY_PERCENT),
        per_second: per_second.unwrap_or(RETRIES_PER_SECOND),
    }))
}

fn bodies(
    spec: &BackendTrafficPolicySpec,
    limits: &BackendLimits,
    warnings: &mut Vec<PolicyWarning>,
) -> Result<BodyHandling, PolicyError> {
    let max_request = positive_bytes("spec.limits.requestBody", limits.request_body.as_ref())?;
    let compression =
        spec.compression.as_ref().map(|settings| compression::read(settings, warnings)).transpose()?;
    let buffering =
        spec.buffering.as_ref().map(|settings| buffering::read(settings, max_request)).transpose()?;
    Ok(BodyHandling {
        max_request,
        compression: compression.flatten(),
        buffering: buffering.unwrap_or_default(),
    })
}

fn pages(spec: &types::ErrorPages) -> Result<ErrorPageService, PolicyError> {
    let status = |(index, status): (usize, &i32)| {
        let known = u16::try_from(*status).ok().filter(|status| (400..=599).contains(status));
        let problem = || format!("{status} is no status from 400 to 599");
        known.ok_or_else(|| PolicyError::new(format!("spec.errorPages.statuses[{index}]"), problem()))
    };
    let mut statuses: Vec<u16> = spec.statuses.iter().enumerate().map(status).collect::<Result<_, _>>()?;
    statuses.sort_unstable();
    statuses.dedup();
    if statuses.is_empty() {
        return Err(PolicyError::new("spec.errorPages.statuses", "it has no status"));
    }
    let types::PageService { name, port } = spec.backend_ref.clone();
    let service = ServiceReference { name, namespace: None, port };
    Ok(ErrorPageService { statuses, service })
}

fn retry(spec: &types::RetryPolicy) -> Result<Retry, PolicyError> {
    let base = Retry::default();
    let attempts: Option<u8> = number("spec.retry.attempts", spec.attempts.map(i64::from), 0)?;
    let tries = match attempts {
        Some(u8::MAX) => return Err(PolicyError::new("spec.retry.attempts", "255 is out of range")),
        Some(attempts) => attempts + 1,
        None => base.tries,
    };
    let budgets = [("Shared", RetrySource::Proxy), ("None", RetrySource::Route)];
    Ok(Retry {
        tries,
        connect_total: positive_time("spec.retry.connectTime", spec.connect_time.as_deref())?
            .unwrap_or(base.connect_total),
        by: enum_value("spec.retry.budget", spec.budget.as_deref(), &budgets)?.unwrap_or_default(),
        backoff: time("spec.retry.backoff", spec.backoff.as_deref())?.unwrap_or_default(),
    })
}

fn hash(parts: &[types::HashPart]) -> Result<Option<HashKey>, PolicyError> {
    let mut read = Vec::with_capacity(parts.len());
    let mut texts = Vec::with_capacity(parts.len());
    for (index, part) in parts.iter().enumerate() {
        let field = format!("spec.loadBalancing.hash[{index}]");
        let name = part.name.as_deref().unwrap_or_default();
        let named = matches!(&*part.type_, "Header" | "Cookie" | "QueryParam");
        if named == name.is_empty() {
            let problem = "Header, Cookie and QueryParam need a name, and others have none";
            return Err(PolicyError::new(field, problem));
        }
        if named && !is_token(name) {
            return Err(PolicyError::new(field, format!("\"{name}\" is no name")));
        }
        read.push(match &*part.type_ {
            "ClientAddress" => SessionPart::Address,
            "Host" => SessionPart::Host,
            "Path" => SessionPart::Path,
            "Header" => SessionPart::Header(name.to_ascii_lowercase().into()),
            "Cookie" => SessionPart::Cookie(name.into()),
            "QueryParam" => SessionPart::Query(name.into()),
            other => {
                let problem = format!("\"{other}\" is no part of a request that can be compared");
                return Err(PolicyError::new(field, problem));
            }
        });
        texts.push(if named { format!("{}:{name}", part.type_) } else { part.type_.clone() });
    }
    let text: Arc<str> = texts.join(",").into();
    Ok((!read.is_empty()).then_some(HashKey { text, hash: SessionHash { parts: read, spread: None } }))
}

/// RFC 6265 §4.1.1 and RFC 9110 §5.1, without characters that require quoting.
pub(crate) fn is_token(text: &str) -> bool {
    let is_of_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !text.is_empty() && text.bytes().all(is_of_token)
}

fn cookie(spec: &types::SessionCookie) -> Result<SessionCookie, PolicyError> {
    if !is_token(&spec.name) {
        return Err(PolicyError::new(
            "spec.sessionCookie.name",
            format!("\"{}\" is no name of a cookie", spec.name),
        ));
    }
    let attribute = |field: &str, value: Option<&str>, also: &[u8]| match value {
        Some(value) if !value.bytes().all(|b| b.is_ascii_alphanumeric() || also.contains(&b)) => {
            Err(PolicyError::new(field, format!("\"{value}\" cannot stand in a cookie")))
        }
        value => Ok(value.map(Arc::<str>::from)),
    };
    let path = attribute("spec.sessionCookie.path", spec.path.as_deref(), b"-._~/:,?&=%")?;
    // Browsers ignore a path without a leading slash (RFC 6265 §5.2.4).
    if path.as_deref().is_some_and(|path| !path.starts_with('/')) {
        return Err(PolicyError::new("spec.sessionCookie.path", "it does not begin with a slash"));
    }
    let field = "spec.sessionCookie.maxAge";
    let max_age = positive_time(field, spec.max_age.as_deref())?;
    if max_age.is_some_and(|age| age.subsec_nanos() > 0) {
        return Err(PolicyError::new(field, "it has no whole number of seconds"));
    }
    let same_sites = [("None", SameSite::None), ("Lax", SameSite::Lax), ("Strict", SameSite::Strict)];
    let sticky = [("Balanced", Stickiness::Balanced), ("Persistent", Stickiness::Persistent)];
    let secure = [("OverTLS", SecureCookie::OverTls), ("Always", SecureCookie::Always)];
    let failure = [("Return", StickyFailure::Returns), ("Move", StickyFailure::Moves)];
    Ok(SessionCookie {
        name: spec.name.as_str().into(),
        backend: "".into(),
        stickiness: enum_value("spec.sessionCookie.stickiness", spec.stickiness.as_deref(), &sticky)?
            .unwrap_or_default(),
        path: path.or_else(|| Some("/".into())),
        domain: attribute("spec.sessionCookie.domain", spec.domain.as_deref(), b"-.")?,
        expires: None,
        max_age: max_age.and_then(|age| i64::try_from(age.as_secs()).ok()),
        secure: enum_value("spec.sessionCookie.secure", spec.secure.as_deref(), &secure)?.unwrap_or_default(),
        same_site: enum_value("spec.sessionCookie.sameSite", spec.same_site.as_deref(), &same_sites)?
            .unwrap_or_default(),
        on_failure: enum_value("spec.sessionCookie.onFailure", spec.on_failure.as_deref(), &failure)?
            .unwrap_or_default(),
        begins: SessionStart::Here,
        carrier: SessionCarrier::Cookie,
        lifetime: SessionLifetime::default(),
    })
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::time::Duration;

    use fairway_model::Ejection;
    use fairway_objects::backend_traffic::{DEFAULT_CONSECUTIVE_FAILURES, DEFAULT_MAX_EJECTION};
    use serde_json::{Value, json};

    use super::*;

    fn parse_spec(spec: Value) -> Result<BackendSettings, PolicyError> {
        read(&serde_json::from_value(spec).expect("a spec")).map(|read| read.value)
    }

    #[test]
    fn an_empty_policy_changes_nothing() {
        let read = parse_spec(json!({})).unwrap();
        assert_eq!(read.balance, Balance { balancing: Balancing::PeakEwma, ..Balance::default() });
        assert_eq!((read.traffic, read.bodies), (BackendTraffic::default(), None));
        assert_eq!(read.pages, None);
    }

    #[test]
    fn statuses_of_error_pages_are_in_order_and_each_once() {
        let pages = json!({"statuses": [503, 404, 503], "backendRef": {"name": "pages", "port": 80}});
        let read = parse_spec(json!({"errorPages": pages})).unwrap().pages.unwrap();
        assert_eq!((&*read.statuses, &*read.service.name, read.service.port), (&[404, 503][..], "pages", 80));
    }

    #[test]
    fn traffic_distribution_uses_the_service_values() {
        let preferring = |value: &str| parse_spec(json!({"loadBalancing": {"trafficDistribution": value}}));
        for (value, meant) in DISTRIBUTIONS {
            assert_eq!(preferring(value).unwrap().balance.distribution, Some(meant));
        }
        let wrong = preferring("PreferClose").unwrap_err();
        assert_eq!(wrong.field, "spec.loadBalancing.trafficDistribution");
    }

    #[test]
    fn retries_ejection_and_limits_have_defaults() {
        let read = parse_spec(json!({
            "retry": {"attempts": 4, "backoff": "20ms"},
            "outlierEjection": {"firstTime": "5s"},
            "limits": {"requestsPerEndpoint": 100, "requestBody": "2Ki"},
            "hedging": {"connectDelay": "0s"},
        }))
        .unwrap();
        let retry = read.traffic.retry.unwrap();
        assert_eq!(
            (retry.tries, retry.by, retry.backoff),
            (5, RetrySource::Proxy, Duration::from_millis(20))
        );
        assert_eq!(retry.connect_total, Retry::default().connect_total);
        let (first, longest) = (Duration::from_secs(5), DEFAULT_MAX_EJECTION);
        let after = Ejection::After { failures: DEFAULT_CONSECUTIVE_FAILURES, first, longest };
        assert_eq!(read.traffic.ejection, Some(after));
        assert_eq!(read.traffic.in_flight, NonZeroU32::new(100));
        assert_eq!(read.traffic.hedge, Some(Duration::ZERO));
        assert_eq!(read.bodies.unwrap().max_request, Some(2048));
        let never = parse_spec(
            json!({"outlierEjection": {"mode": "Off"}, "retry": {"attempts": 0, "budget": "None"}}),
        );
        let traffic = never.unwrap().traffic;
        assert_eq!(traffic.ejection, Some(Ejection::Never));
        assert_eq!(traffic.retry.map(|it| (it.tries, it.by)), Some((1, RetrySource::Route)));
    }

    #[test]
    fn slow_endpoints_limits_of_the_service_and_a_budget_are_read() {
        let read = parse_spec(json!({
            "outlierEjection": {"latency": {"factor": 4}},
            "limits": {"requests": 100, "adaptiveConcurrency": {}, "pendingRequests": 10},
            "retry": {"budgetPercent": 5},
        }))
        .unwrap();
        assert_eq!(read.traffic.latency.unwrap().factor.get(), 4);
        let limits = read.traffic.limits.unwrap();
        assert_eq!((limits.requests, limits.pending), (NonZeroU32::new(100), 10));
        assert_eq!(limits.concurrency.unwrap().minimum.get(), 20);
        assert_eq!(read.traffic.retry_budget, Some(RetryBudget { percent: 5, per_second: 10 }));
    }

    #[test]
    fn hashes_that_differ_make_backends_that_differ() {
        let suffix =
            |parts: Value| parse_spec(json!({"loadBalancing": {"hash": parts}})).unwrap().balance.suffix();
        assert_eq!(suffix(json!([{"type": "ClientAddress"}])), ";ewma;hash=ClientAddress");
        assert_eq!(
            suffix(json!([{"type": "Header", "name": "X-A"}, {"type": "Path"}])),
            ";ewma;hash=Header:X-A,Path"
        );
    }

    #[test]
    fn an_unusable_value_names_its_field() {
        for (spec, field) in [
            (json!({"loadBalancing": {"algorithm": "Fastest"}}), "spec.loadBalancing.algorithm"),
            (json!({"loadBalancing": {"hash": [{"type": "Header"}]}}), "spec.loadBalancing.hash[0]"),
            (
                json!({"loadBalancing": {"hash": [{"type": "Host", "name": "x"}]}}),
                "spec.loadBalancing.hash[0]",
            ),
            (
                json!({"loadBalancing": {"hash": [{"type": "Header", "name": "X User"}]}}),
                "spec.loadBalancing.hash[0]",
            ),
            (json!({"sessionCookie": {"name": "a", "path": "cart"}}), "spec.sessionCookie.path"),
            (json!({"retry": {"attempts": 255}}), "spec.retry.attempts"),
            (json!({"retry": {"attempts": -1}}), "spec.retry.attempts"),
            (json!({"outlierEjection": {"mode": "Off", "firstTime": "1s"}}), "spec.outlierEjection.mode"),
            (json!({"outlierEjection": {"latency": {"factor": 1}}}), "spec.outlierEjection.latency.factor"),
            (json!({"limits": {"requests": 0}}), "spec.limits.requests"),
            (
                json!({"limits": {"adaptiveConcurrency": {"minimum": 2, "maximum": 1}}}),
                "spec.limits.adaptiveConcurrency.minimum",
            ),
            (json!({"retry": {"budgetPercent": 101}}), "spec.retry.budgetPercent"),
            (json!({"retry": {"minRetriesPerSecond": 1001}}), "spec.retry.minRetriesPerSecond"),
            (json!({"retry": {"budget": "None", "budgetPercent": 5}}), "spec.retry.budget"),
            (
                json!({"outlierEjection": {"firstTime": "9s", "longestTime": "1s"}}),
                "spec.outlierEjection.firstTime",
            ),
            (json!({"errorPages": {"statuses": []}}), "spec.errorPages.statuses"),
            (json!({"errorPages": {"statuses": [404, 200]}}), "spec.errorPages.statuses[1]"),
            (json!({"limits": {"requestsPerEndpoint": 0}}), "spec.limits.requestsPerEndpoint"),
            (json!({"limits": {"requestBody": "8m"}}), "spec.limits.requestBody"),
            (json!({"limits": {"requestBody": 0}}), "spec.limits.requestBody"),
            (json!({"sessionCookie": {"name": "a b"}}), "spec.sessionCookie.name"),
            (json!({"sessionCookie": {"name": "a", "path": "/;x"}}), "spec.sessionCookie.path"),
            (json!({"sessionCookie": {"name": "a", "maxAge": "1500ms"}}), "spec.sessionCookie.maxAge"),
            (
                json!({"sessionCookie": {"name": "a"}, "loadBalancing": {"hash": [{"type": "Host"}]}}),
                "spec.sessionCookie",
            ),
        ] {
            assert_eq!(parse_spec(spec.clone()).unwrap_err().field, field, "{spec}");
        }
    }
}
