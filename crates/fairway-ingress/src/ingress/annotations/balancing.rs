//! Load balancing: `load-balance`, `upstream-hash-by*`, `service-upstream`, and Fairway's own
//! `fairway.dev/traffic-distribution`, `fairway.dev/health`, `fairway.dev/outlier-ejection` and
//! `fairway.dev/backend-limits`.

use std::num::NonZeroU16;
use std::sync::Arc;

use fairway_model::{
    BackendTraffic, Balancing, EndpointHealth, SessionHash, SessionPart, TrafficDistribution,
};
use fairway_objects::annotations::parse_policy_field;
use fairway_objects::annotations::text::parse_bool;
use fairway_objects::backend::BackendAddressSource;
use fairway_objects::backend_traffic::{self, Limits};
use fairway_objects::balance::{DISTRIBUTIONS, HashKey};
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::external_processor::InvalidField;
use fairway_objects::health;
use fairway_objects::policies::BackendLimits;
use serde::de::DeserializeOwned;

use crate::ingress::annotations::family::{Family, KnownAnnotation, differs, supported};
use crate::ingress::reader::Reader;
use crate::ingress::values::value;

/// The family.
pub(crate) const FAMILY: Family = Family::new(ANNOTATIONS, |reader, context, contributions| {
    contributions.upstream.balance.balancing = balancing(reader, context.defaults.forwarding.balancing);
    contributions.upstream.balance.hash = hash(reader).map(Arc::new);
    contributions.upstream.balance.distribution = distribution(reader);
    contributions.upstream.balance.health = health(reader).map(Arc::new);
    contributions.upstream.balance.traffic = traffic(reader);
    if value(reader, &context.defaults.values, "service-upstream", parse_bool) == Some(true) {
        contributions.upstream.via = BackendAddressSource::ClusterAddress;
    }
    Ok(())
});

const ANNOTATIONS: &[KnownAnnotation] = &[
    supported("load-balance"),
    supported("service-upstream"),
    differs(
        "upstream-hash-by",
        "variables: `$request_uri`, `$uri`, `$host`, `$http_host`, `$remote_addr`, `$binary_remote_addr`, `$http_*`, `$cookie_*`, `$arg_*`; with others, round robin",
    ),
    differs("upstream-hash-by-subset", "each key has its own subset (ingress-nginx: fixed subsets)"),
    supported("upstream-hash-by-subset-size"),
];

/// Fairway's own annotations, which `--annotations-prefix` does not affect.
const HEALTH: &str = "fairway.dev/health";
const EJECTION: &str = "fairway.dev/outlier-ejection";
const LIMITS: &str = "fairway.dev/backend-limits";
const DISTRIBUTION: &str = "fairway.dev/traffic-distribution";

/// Reads an annotation with fields of a BackendTrafficPolicy as JSON. It protects nothing, so an unreadable value
/// closes nothing.
fn read_policy_json<F: DeserializeOwned, T>(
    reader: &mut Reader<'_>,
    name: &str,
    read: impl Fn(&F) -> Result<T, InvalidField>,
    consequence: &str,
) -> Option<T> {
    let value = reader.ingress.object.metadata.annotations.as_ref()?.get(name)?;
    let read = parse_policy_field(value).and_then(|field| {
        read(&field).map_err(|InvalidField { field, problem, .. }| format!("{field} {problem}"))
    });
    read.map_err(|problem| invalid(reader, name, problem, consequence)).ok()
}

fn health(reader: &mut Reader<'_>) -> Option<EndpointHealth> {
    read_policy_json(
        reader,
        HEALTH,
        health::read,
        "endpoints are not checked, and new ones get their whole share",
    )
}

/// Outlier ejection and backend limits.
fn traffic(reader: &mut Reader<'_>) -> Option<Arc<BackendTraffic>> {
    let outliers =
        read_policy_json(reader, EJECTION, backend_traffic::ejection, "endpoints are ejected as usual");
    let limits = read_policy_json(reader, LIMITS, limits, "there are no such limits").unwrap_or_default();
    BackendTraffic {
        ejection: outliers.map(|outliers| outliers.ejection),
        latency: outliers.and_then(|outliers| outliers.latency),
        limits: limits.of_backend,
        in_flight: limits.in_flight,
        ..BackendTraffic::default()
    }
    .if_not_empty()
}

fn limits(spec: &BackendLimits) -> Result<Limits, InvalidField> {
    if spec.request_body.is_some() {
        let problem = "is not for Ingresses, which have proxy-body-size".to_owned();
        return Err(InvalidField { field: "requestBody".to_owned(), value: None, problem });
    }
    backend_traffic::limits(spec)
}

fn invalid(reader: &mut Reader<'_>, name: &str, problem: String, consequence: &str) {
    let origin = reader.field_origin(&format!("metadata.annotations[\"{name}\"]"));
    let found = Diagnostic::new(Severity::Warning, "invalid-annotation", origin);
    reader.report(found.because(problem, consequence));
}

/// Reads `fairway.dev/traffic-distribution`.
fn distribution(reader: &mut Reader<'_>) -> Option<TrafficDistribution> {
    let value = reader.ingress.object.metadata.annotations.as_ref()?.get(DISTRIBUTION)?.trim();
    let known = DISTRIBUTIONS.iter().find(|(name, _)| *name == value);
    if known.is_none() {
        let names = DISTRIBUTIONS.map(|(name, _)| name).join(", ");
        let problem = format!("\"{value}\" is none of {names}");
        let consequence = "endpoints are preferred as trafficDistribution of the Service says";
        invalid(reader, DISTRIBUTION, problem, consequence);
    }
    known.map(|(_, distribution)| *distribution)
}

/// Reads `load-balance`.
fn balancing(reader: &mut Reader<'_>, default: Balancing) -> Balancing {
    match reader.value("load-balance") {
        None | Some("") => default,
        Some("round_robin") => Balancing::RoundRobin,
        Some("ewma") => Balancing::PeakEwma,
        Some(other) => {
            let problem = format!("\"{other}\" is neither round_robin nor ewma");
            reader.invalid("load-balance", problem, "the default is used");
            default
        }
    }
}

/// ingress-nginx: default of `upstream-hash-by-subset-size`, also used for 0.
const DEFAULT_SUBSET_SIZE: NonZeroU16 = NonZeroU16::new(3).expect("3 is not 0");

/// Reads `upstream-hash-by*`.
fn hash(reader: &mut Reader<'_>) -> Option<HashKey> {
    let name = "upstream-hash-by";
    let value = reader.value(name).filter(|value| !value.is_empty())?;
    let is_text = value.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_${}".contains(&b));
    let refused = || format!("\"{value}\" has characters other than letters, digits and -_${{}}");
    let parts = if is_text { parts(value) } else { Err(refused()) };
    match parts {
        Ok(parts) => {
            Some(HashKey { text: value.into(), hash: SessionHash { parts, spread: spread(reader) } })
        }
        Err(problem) => {
            reader.invalid(name, problem, "endpoints get requests in turn");
            None
        }
    }
}

/// Number of endpoints that share the requests of a hash.
fn spread(reader: &mut Reader<'_>) -> Option<NonZeroU16> {
    if !reader.switch("upstream-hash-by-subset", false) {
        return None;
    }
    let size = reader.number("upstream-hash-by-subset-size", 0..=u64::from(u16::MAX));
    Some(size.and_then(|size| NonZeroU16::new(u16::try_from(size).ok()?)).unwrap_or(DEFAULT_SUBSET_SIZE))
}

/// Splits text with variables, `$name` or `${name}`.
fn parts(text: &str) -> Result<Vec<SessionPart>, String> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        push_text(&mut parts, before);
        let (name, behind) = match after.strip_prefix('{').and_then(|after| after.split_once('}')) {
            Some(braced) => braced,
            None => {
                let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                after.split_at(end.unwrap_or(after.len()))
            }
        };
        parts.push(variable(name).ok_or_else(|| format!("the variable ${name} does not work"))?);
        rest = behind;
    }
    push_text(&mut parts, rest);
    Ok(parts)
}

fn push_text(parts: &mut Vec<SessionPart>, text: &str) {
    if !text.is_empty() {
        parts.push(SessionPart::Text(text.into()));
    }
}

fn variable(name: &str) -> Option<SessionPart> {
    Some(match name {
        "request_uri" => SessionPart::Target,
        "uri" => SessionPart::Path,
        "host" | "http_host" => SessionPart::Host,
        "remote_addr" | "binary_remote_addr" => SessionPart::Address,
        _ => {
            let named = |prefix| name.strip_prefix(prefix).filter(|rest: &&str| !rest.is_empty());
            if let Some(header) = named("http_") {
                SessionPart::Header(header.to_ascii_lowercase().replace('_', "-").into())
            } else if let Some(cookie) = named("cookie_") {
                SessionPart::Cookie(Arc::from(cookie))
            } else {
                SessionPart::Query(Arc::from(named("arg_")?))
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_variables_are_distinguished() {
        use SessionPart::{Address, Cookie, Header, Path, Query, Target, Text};
        assert_eq!(parts("$request_uri$uri"), Ok(vec![Target, Path]));
        assert_eq!(
            parts("${remote_addr}-$http_x_user$cookie_id/$arg_q"),
            Ok(vec![
                Address,
                Text("-".into()),
                Header("x-user".into()),
                Cookie("id".into()),
                Text("/".into()),
                Query("q".into())
            ])
        );
        assert_eq!(parts("plain"), Ok(vec![Text("plain".into())]));
        for (text, variable) in [("$upstream_addr", "upstream_addr"), ("a$", ""), ("$http_", "http_")] {
            assert_eq!(parts(text), Err(format!("the variable ${variable} does not work")));
        }
    }
}
