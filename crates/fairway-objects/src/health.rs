//! Parses `spec.health` of a BackendTrafficPolicy and the annotation `fairway.dev/health` to [`EndpointHealth`] of the model.

use std::num::NonZeroU8;
use std::sync::Arc;
use std::time::Duration;

use fairway_model::{EndpointHealth, HealthCheck, Probe};

use crate::external_processor::InvalidField;
use crate::field::{invalid_field, time};
use crate::policies as types;

/// The default interval of health checks, and its bounds.
pub const DEFAULT_INTERVAL: Duration = Duration::from_secs(10);
const INTERVAL_RANGE: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3600)];
/// The default timeout of a check; never longer than its interval.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(2);
/// The default number of consecutive failures that mark an endpoint unhealthy.
pub const DEFAULT_FAILURES: NonZeroU8 = NonZeroU8::new(3).expect("3 is not 0");
/// The default number of consecutive successes that mark it healthy.
pub const DEFAULT_SUCCESSES: NonZeroU8 = NonZeroU8::new(1).expect("1 is not 0");
/// The default panic threshold: the percentage of failing endpoints above which checks are ignored.
pub const DEFAULT_PANIC_THRESHOLD: u8 = 50;
/// The maximum slow start.
const MAX_SLOW_START: Duration = Duration::from_secs(3600);
const MAX_STATUSES: usize = 16;
const MAX_TEXT_BYTES: usize = 1024;

/// Parses the health settings.
///
/// # Errors
/// The first invalid field.
pub fn read(health: &types::Health) -> Result<EndpointHealth, InvalidField> {
    let slow_start =
        time("slowStart", health.slow_start.as_deref(), Duration::from_secs(1)..=MAX_SLOW_START)?;
    let threshold = health.panic_threshold.map(|percent| match u8::try_from(percent) {
        Ok(percent @ 0..=100) => Ok(percent),
        _ => Err(invalid_field("panicThreshold", &percent, "is not from 0 to 100")),
    });
    let check = health.check.as_ref().map(check).transpose()?;
    let panic_threshold = threshold.transpose()?;
    if panic_threshold.is_some() && check.is_none() {
        return Err(invalid_field("panicThreshold", "", "has no meaning without check"));
    }
    let panic_threshold = check.as_ref().map(|_| panic_threshold.unwrap_or(DEFAULT_PANIC_THRESHOLD));
    Ok(EndpointHealth { check: check.map(Arc::new), slow_start, panic_threshold })
}

fn check(spec: &types::HealthCheck) -> Result<HealthCheck, InvalidField> {
    let interval = time("check.interval", spec.interval.as_deref(), INTERVAL_RANGE[0]..=INTERVAL_RANGE[1])?;
    let interval = interval.unwrap_or(DEFAULT_INTERVAL);
    let timeout = time("check.timeout", spec.timeout.as_deref(), Duration::from_millis(1)..=interval)?;
    Ok(HealthCheck {
        probe: read_probe(spec)?,
        interval,
        timeout: timeout.unwrap_or(DEFAULT_TIMEOUT.min(interval)),
        failures: positive_count("check.unhealthyThreshold", spec.unhealthy_threshold)?
            .unwrap_or(DEFAULT_FAILURES),
        successes: positive_count("check.healthyThreshold", spec.healthy_threshold)?
            .unwrap_or(DEFAULT_SUCCESSES),
    })
}

fn read_probe(spec: &types::HealthCheck) -> Result<Probe, InvalidField> {
    let kind = spec.type_.as_deref().unwrap_or("HTTP");
    let fields = [
        ("check.path", spec.path.is_some(), "HTTP"),
        ("check.host", spec.host.is_some(), "HTTP"),
        ("check.expectedStatuses", !spec.expected_statuses.is_empty(), "HTTP"),
        ("check.service", spec.service.is_some(), "GRPC"),
    ];
    let stray = fields.into_iter().find(|(_, is_there, required_kind)| *is_there && *required_kind != kind);
    let known = ["HTTP", "GRPC", "TCP"].contains(&kind);
    if let (true, Some((field, _, required_kind))) = (known, stray) {
        return Err(invalid_field(field, "", format!("has a meaning only with type {required_kind}")));
    }
    Ok(match kind {
        "TCP" => Probe::Tcp,
        "GRPC" => Probe::Grpc {
            service: text("check.service", spec.service.as_deref(), is_service)?.unwrap_or_default(),
        },
        "HTTP" => Probe::Http {
            path: text("check.path", spec.path.as_deref(), is_path)?.unwrap_or_else(|| "/".into()),
            host: text("check.host", spec.host.as_deref(), is_host)?,
            statuses: read_statuses(&spec.expected_statuses)?,
        },
        other => return Err(invalid_field("check.type", other, "is none of HTTP, GRPC, TCP")),
    })
}

fn read_statuses(accepted: &[i32]) -> Result<Vec<u16>, InvalidField> {
    if accepted.len() > MAX_STATUSES {
        return Err(invalid_field(
            "check.expectedStatuses",
            "",
            format!("has more than {MAX_STATUSES} statuses"),
        ));
    }
    let status = |status: &i32| match u16::try_from(*status) {
        Ok(status @ 200..=599) => Ok(status),
        _ => Err(invalid_field("check.expectedStatuses", status, "is not from 200 to 599")),
    };
    accepted.iter().map(status).collect()
}

fn positive_count(field: &str, value: Option<i32>) -> Result<Option<NonZeroU8>, InvalidField> {
    let read = |count: i32| match u8::try_from(count).ok().and_then(NonZeroU8::new) {
        Some(read) if read.get() <= 100 => Ok(read),
        _ => Err(invalid_field(field, &count, "is not from 1 to 100")),
    };
    value.map(read).transpose()
}

fn text(
    field: &str,
    value: Option<&str>,
    is_good: fn(&str) -> bool,
) -> Result<Option<Arc<str>>, InvalidField> {
    match value {
        Some(text) if text.len() > MAX_TEXT_BYTES || !is_good(text) => {
            Err(invalid_field(field, text, "cannot stand in a request"))
        }
        value => Ok(value.map(Into::into)),
    }
}

/// RFC 3986 §3.3, §3.4: visible ASCII without delimiters that would end it.
fn is_path(text: &str) -> bool {
    text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#')
}

/// A name or an address, optionally with a port.
fn is_host(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte))
}

/// A protobuf service name.
fn is_service(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn parse(spec: Value) -> Result<EndpointHealth, InvalidField> {
        read(&serde_json::from_value(spec).expect("a spec"))
    }

    #[test]
    fn a_check_gets_the_root_every_ten_seconds_by_default() {
        let read = parse(json!({"check": {}})).unwrap();
        let check = read.check.unwrap();
        assert_eq!(check.probe, Probe::Http { path: "/".into(), host: None, statuses: vec![] });
        assert!(check.probe.accepts(200) && check.probe.accepts(399) && !check.probe.accepts(400));
        assert_eq!((check.interval, check.timeout), (DEFAULT_INTERVAL, DEFAULT_TIMEOUT));
        assert_eq!((check.failures.get(), check.successes.get(), read.panic_threshold), (3, 1, Some(50)));
        let quick = parse(json!({"check": {"type": "TCP", "interval": "1s"}})).unwrap().check.unwrap();
        assert_eq!((quick.probe.clone(), quick.timeout), (Probe::Tcp, Duration::from_secs(1)));
        assert_eq!(parse(json!({})), Ok(EndpointHealth::default()));
        let slow = parse(json!({"slowStart": "30s"})).unwrap();
        assert_eq!((slow.slow_start, slow.panic_threshold), (Some(Duration::from_secs(30)), None));
    }

    #[test]
    fn every_field_is_read() {
        let read = parse(json!({"check": {
            "type": "HTTP", "path": "/ready?full", "host": "a.test:80", "expectedStatuses": [204, 503],
            "interval": "5s", "timeout": "250ms", "unhealthyThreshold": 2, "healthyThreshold": 4,
        }, "panicThreshold": 0}))
        .unwrap();
        let check = read.check.unwrap();
        assert!(check.probe.accepts(503) && !check.probe.accepts(200));
        assert_eq!((check.failures.get(), check.successes.get(), read.panic_threshold), (2, 4, Some(0)));
        let grpc = parse(json!({"check": {"type": "GRPC", "service": "shop.Cart"}})).unwrap().check.unwrap();
        assert_eq!(grpc.probe, Probe::Grpc { service: "shop.Cart".into() });
    }

    #[test]
    fn an_invalid_value_names_its_field() {
        for (spec, field) in [
            (json!({"check": {"type": "http"}}), "check.type"),
            (json!({"check": {"type": "TCP", "path": "/"}}), "check.path"),
            (json!({"check": {"service": "a"}}), "check.service"),
            (json!({"check": {"path": "ready"}}), "check.path"),
            (json!({"check": {"path": "/a b"}}), "check.path"),
            (json!({"check": {"path": "/\r\nx: y"}}), "check.path"),
            (json!({"check": {"host": "a b"}}), "check.host"),
            (json!({"check": {"expectedStatuses": [99]}}), "check.expectedStatuses"),
            (json!({"check": {"interval": "999ms"}}), "check.interval"),
            (json!({"check": {"interval": "5s", "timeout": "6s"}}), "check.timeout"),
            (json!({"check": {"unhealthyThreshold": 0}}), "check.unhealthyThreshold"),
            (json!({"check": {"healthyThreshold": 101}}), "check.healthyThreshold"),
            (json!({"slowStart": "0s"}), "slowStart"),
            (json!({"check": {}, "panicThreshold": 101}), "panicThreshold"),
            (json!({"panicThreshold": 50}), "panicThreshold"),
        ] {
            assert_eq!(parse(spec.clone()).unwrap_err().field, field, "{spec}");
        }
    }
}
