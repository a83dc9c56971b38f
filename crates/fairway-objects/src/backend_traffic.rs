//! Parses `spec.outlierEjection` and `spec.limits` of a BackendTrafficPolicy, and the annotations `fairway.dev/outlier-ejection`
//! and `fairway.dev/backend-limits`, which have the same fields.

use std::num::{NonZeroU8, NonZeroU32};
use std::time::Duration;

use fairway_model::{AdaptiveConcurrency, BackendLimits, Ejection, LatencyEjection};

use crate::duration;
use crate::external_processor::InvalidField;
use crate::field::{invalid_field, read_number, time};
use crate::policies as types;

/// The default number of consecutive failures that eject an endpoint.
pub const DEFAULT_CONSECUTIVE_FAILURES: NonZeroU8 = NonZeroU8::new(3).expect("3 is not 0");
/// The default duration of the first ejection.
pub const DEFAULT_FIRST_EJECTION: Duration = Duration::from_secs(1);
/// The default maximum duration of an ejection.
pub const DEFAULT_MAX_EJECTION: Duration = Duration::from_secs(30);
/// The default factor by which an endpoint must be slower than the others to be ejected.
pub const DEFAULT_LATENCY_FACTOR: NonZeroU8 = NonZeroU8::new(3).expect("3 is not 0");
/// The default minimum of responses for which an interval counts.
pub const DEFAULT_MIN_RESPONSES: NonZeroU32 = NonZeroU32::new(20).expect("20 is not 0");
/// The default interval for measuring latencies.
pub const DEFAULT_LATENCY_INTERVAL: Duration = Duration::from_secs(10);
/// The default minimum of an adaptive concurrency limit.
pub const DEFAULT_MIN_CONCURRENCY: NonZeroU32 = NonZeroU32::new(20).expect("20 is not 0");
/// The default maximum of an adaptive concurrency limit.
pub const DEFAULT_MAX_CONCURRENCY: NonZeroU32 = NonZeroU32::new(1000).expect("1000 is not 0");
const INTERVAL_RANGE: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3600)];
const MAX_NUMBER: i64 = u32::MAX as i64;

/// When an endpoint is ejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutlierEjection {
    /// Because its requests fail, and for how long.
    pub ejection: Ejection,
    /// Because it is slow.
    pub latency: Option<LatencyEjection>,
}

/// Parses the ejection settings.
///
/// # Errors
/// The first invalid field.
pub fn ejection(spec: &types::OutlierEjection) -> Result<OutlierEjection, InvalidField> {
    let failures = spec.consecutive_failures.map(i64::from);
    let failures: Option<NonZeroU8> =
        read_number::<u8>("consecutiveFailures", failures, 1..=255)?.and_then(NonZeroU8::new);
    let first = positive_time("firstTime", spec.first_time.as_deref())?;
    let longest = positive_time("longestTime", spec.longest_time.as_deref())?;
    let latency = spec.latency.as_ref().map(latency).transpose()?;
    match spec.mode.as_deref().unwrap_or_default() {
        "" | "ConsecutiveFailures" => {}
        "Off" if failures.is_some() || first.is_some() || longest.is_some() || latency.is_some() => {
            return Err(invalid_field("mode", "Off", "has no other fields"));
        }
        "Off" => return Ok(OutlierEjection { ejection: Ejection::Never, latency: None }),
        other => return Err(invalid_field("mode", other, "is none of ConsecutiveFailures, Off")),
    }
    // If only one is given, the other adapts to it.
    let first = first.unwrap_or(longest.unwrap_or(DEFAULT_FIRST_EJECTION).min(DEFAULT_FIRST_EJECTION));
    let longest = longest.unwrap_or(DEFAULT_MAX_EJECTION.max(first));
    if first > longest {
        return Err(invalid_field("firstTime", "", "is longer than longestTime"));
    }
    let failures = failures.unwrap_or(DEFAULT_CONSECUTIVE_FAILURES);
    Ok(OutlierEjection { ejection: Ejection::After { failures, first, longest }, latency })
}

fn positive_time(field: &str, value: Option<&str>) -> Result<Option<Duration>, InvalidField> {
    let read = |text: &str| {
        let read = duration::read(text).filter(|time| !time.is_zero());
        read.ok_or_else(|| invalid_field(field, text, "is no duration above zero, such as 1m30s"))
    };
    value.map(read).transpose()
}

fn latency(spec: &types::LatencyEjection) -> Result<LatencyEjection, InvalidField> {
    let factor = read_number::<u8>("latency.factor", spec.factor.map(i64::from), 2..=100)?;
    let responses = read_number::<u32>("latency.minResponses", spec.min_responses, 1..=MAX_NUMBER)?;
    let interval = time("latency.interval", spec.interval.as_deref(), INTERVAL_RANGE[0]..=INTERVAL_RANGE[1])?;
    Ok(LatencyEjection {
        factor: factor.and_then(NonZeroU8::new).unwrap_or(DEFAULT_LATENCY_FACTOR),
        responses: responses.and_then(NonZeroU32::new).unwrap_or(DEFAULT_MIN_RESPONSES),
        interval: interval.unwrap_or(DEFAULT_LATENCY_INTERVAL),
    })
}

/// The limits of a backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Concurrent requests of a worker to one endpoint.
    pub in_flight: Option<NonZeroU32>,
    /// Limits across all workers and endpoints.
    pub of_backend: Option<BackendLimits>,
}

/// Parses the limits. The limit of bodies is parsed elsewhere.
///
/// # Errors
/// The first invalid field.
pub fn limits(limits: &types::BackendLimits) -> Result<Limits, InvalidField> {
    let (requests, connections) =
        (positive_number("requests", limits.requests)?, positive_number("connections", limits.connections)?);
    let concurrency = limits.adaptive_concurrency.as_ref().map(concurrency).transpose()?;
    let pending: Option<u32> = read_number("pendingRequests", limits.pending_requests, 0..=MAX_NUMBER)?;
    if pending.is_some() && requests.is_none() && connections.is_none() && concurrency.is_none() {
        let problem = "has no meaning without requests, connections or adaptiveConcurrency";
        return Err(invalid_field("pendingRequests", "", problem));
    }
    let of_backend = BackendLimits {
        connections,
        requests,
        concurrency,
        pending: pending.unwrap_or_default(),
        retries: read_number("retries", limits.retries, 0..=MAX_NUMBER)?,
    };
    Ok(Limits {
        in_flight: positive_number("requestsPerEndpoint", limits.requests_per_endpoint)?,
        of_backend: (of_backend != BackendLimits::default()).then_some(of_backend),
    })
}

fn positive_number(field: &str, value: Option<i64>) -> Result<Option<NonZeroU32>, InvalidField> {
    Ok(read_number::<u32>(field, value, 1..=MAX_NUMBER)?.and_then(NonZeroU32::new))
}

fn concurrency(concurrency: &types::AdaptiveConcurrency) -> Result<AdaptiveConcurrency, InvalidField> {
    let minimum = positive_number("adaptiveConcurrency.minimum", concurrency.minimum)?;
    let maximum = positive_number("adaptiveConcurrency.maximum", concurrency.maximum)?;
    // If only one is given, the other adapts to it.
    let minimum = minimum.unwrap_or(maximum.unwrap_or(DEFAULT_MIN_CONCURRENCY).min(DEFAULT_MIN_CONCURRENCY));
    let maximum = maximum.unwrap_or(DEFAULT_MAX_CONCURRENCY.max(minimum));
    if minimum > maximum {
        return Err(invalid_field("adaptiveConcurrency.minimum", "", "is above adaptiveConcurrency.maximum"));
    }
    Ok(AdaptiveConcurrency { minimum, maximum })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn ejected(spec: Value) -> Result<OutlierEjection, InvalidField> {
        ejection(&serde_json::from_value(spec).expect("a spec"))
    }

    fn limited(spec: Value) -> Result<Limits, InvalidField> {
        limits(&serde_json::from_value(spec).expect("a spec"))
    }

    #[test]
    fn slow_endpoints_are_ejected_only_if_configured() {
        let usual = ejected(json!({})).unwrap();
        let (first, longest) = (DEFAULT_FIRST_EJECTION, DEFAULT_MAX_EJECTION);
        assert_eq!(
            usual.ejection,
            Ejection::After { failures: DEFAULT_CONSECUTIVE_FAILURES, first, longest }
        );
        assert_eq!(usual.latency, None);
        let slow = ejected(json!({"latency": {}})).unwrap().latency.unwrap();
        assert_eq!((slow.factor, slow.responses), (DEFAULT_LATENCY_FACTOR, DEFAULT_MIN_RESPONSES));
        let slow =
            json!({"latency": {"factor": 5, "minResponses": 100, "interval": "1m"}, "firstTime": "5s"});
        let slow = ejected(slow).unwrap();
        let (factor, responses) = (NonZeroU8::new(5).unwrap(), NonZeroU32::new(100).unwrap());
        assert_eq!(
            slow.latency,
            Some(LatencyEjection { factor, responses, interval: Duration::from_secs(60) })
        );
        assert_eq!(ejected(json!({"mode": "Off"})).unwrap().ejection, Ejection::Never);
    }

    #[test]
    fn each_limit_is_read() {
        let all = json!({
            "requestsPerEndpoint": 7, "connections": 1, "requests": 2, "pendingRequests": 3, "retries": 0,
            "adaptiveConcurrency": {"minimum": 4, "maximum": 5},
        });
        let read = limited(all).unwrap();
        assert_eq!(read.in_flight, NonZeroU32::new(7));
        let (connections, requests) = (NonZeroU32::new(1), NonZeroU32::new(2));
        let concurrency = Some(moving(4, 5));
        let expected = BackendLimits { connections, requests, concurrency, pending: 3, retries: Some(0) };
        assert_eq!(read.of_backend, Some(expected));
        assert_eq!(limited(json!({"requestBody": "1Mi"})), Ok(Limits::default()));
    }

    fn moving(minimum: u32, maximum: u32) -> AdaptiveConcurrency {
        let number = |number| NonZeroU32::new(number).unwrap();
        AdaptiveConcurrency { minimum: number(minimum), maximum: number(maximum) }
    }

    #[test]
    fn an_adaptive_limit_has_consistent_default_bounds() {
        for (spec, minimum, maximum) in [
            (json!({}), 20, 1000),
            (json!({"minimum": 50}), 50, 1000),
            (json!({"minimum": 2000}), 2000, 2000),
            (json!({"maximum": 5}), 5, 5),
        ] {
            let read = limited(json!({"adaptiveConcurrency": spec, "pendingRequests": 1})).unwrap();
            assert_eq!(read.of_backend.unwrap().concurrency, Some(moving(minimum, maximum)));
        }
    }

    #[test]
    fn an_invalid_value_names_its_field() {
        for (spec, field) in [
            (json!({"mode": "Off", "latency": {}}), "mode"),
            (json!({"mode": "Latency"}), "mode"),
            (json!({"consecutiveFailures": 0}), "consecutiveFailures"),
            (json!({"firstTime": "9s", "longestTime": "1s"}), "firstTime"),
            (json!({"latency": {"factor": 1}}), "latency.factor"),
            (json!({"latency": {"minResponses": 0}}), "latency.minResponses"),
            (json!({"latency": {"interval": "500ms"}}), "latency.interval"),
        ] {
            assert_eq!(ejected(spec.clone()).unwrap_err().field, field, "{spec}");
        }
        for (spec, field) in [
            (json!({"requests": 0}), "requests"),
            (json!({"connections": -1}), "connections"),
            (json!({"pendingRequests": 5}), "pendingRequests"),
            (json!({"requests": 1, "pendingRequests": -5}), "pendingRequests"),
            (json!({"retries": 5_000_000_000_i64}), "retries"),
            (json!({"requestsPerEndpoint": 0}), "requestsPerEndpoint"),
            (json!({"adaptiveConcurrency": {"minimum": 0}}), "adaptiveConcurrency.minimum"),
            (json!({"adaptiveConcurrency": {"maximum": 0}}), "adaptiveConcurrency.maximum"),
            (json!({"adaptiveConcurrency": {"minimum": 6, "maximum": 5}}), "adaptiveConcurrency.minimum"),
        ] {
            assert_eq!(limited(spec.clone()).unwrap_err().field, field, "{spec}");
        }
    }
}
