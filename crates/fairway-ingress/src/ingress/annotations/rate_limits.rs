//! Limits per client: `limit-rps`, `limit-rpm`, `limit-connections`, and their exemptions. Counts are kept per
//! Ingress and client address, like the zones of ingress-nginx, across all workers. `limit-rate` and
//! `limit-rate-after` limit the bandwidth of each response. Fairway's own `fairway.dev/limit-scope` selects whether
//! rates apply to each replica, as in ingress-nginx, or to all replicas together.
//!
//! An unreadable limit closes the paths, because guessing could admit too many requests.

use std::time::Duration;

use fairway_model::{ConcurrencyLimit, Guard, LimitKey, LimitScope, RateLimit, ResponseLimits, ResponseRate};
use fairway_objects::annotations::text;
use ipnet::IpNet;

use crate::ingress::annotations::family::{Family, KnownAnnotation, differs, supported};
use crate::ingress::closed::Closed;
use crate::ingress::context::Context;
use crate::ingress::contributions::Contributions;
use crate::ingress::fairway_annotations;
use crate::ingress::reader::Reader;
use crate::ingress::values::{Values, kibibytes, value};

/// The family.
pub(crate) const FAMILY: Family = Family::new(ANNOTATIONS, limits);

const ANNOTATIONS: &[KnownAnnotation] = &[
    supported("limit-allowlist"),
    supported("limit-burst-multiplier"),
    supported("limit-connections"),
    differs("limit-rate", "also without `proxy-buffering`"),
    supported("limit-rate-after"),
    supported("limit-rpm"),
    supported("limit-rps"),
    supported("limit-whitelist").alias_of("limit-allowlist"),
];

/// Fairway's own annotation, which `--annotations-prefix` does not affect.
const LIMIT_SCOPE: &str = "fairway.dev/limit-scope";

/// Default of `limit-burst-multiplier`.
const DEFAULT_BURST_MULTIPLIER: u32 = 5;

/// Reads all limits.
fn limits(
    reader: &mut Reader<'_>,
    context: &Context<'_>,
    contributions: &mut Contributions,
) -> Result<(), Closed> {
    let multiplier = reader.number("limit-burst-multiplier", 0..=u64::from(u32::MAX));
    let multiplier = multiplier
        .map_or(DEFAULT_BURST_MULTIPLIER, |multiplier| u32::try_from(multiplier).unwrap_or(u32::MAX));
    let exempt = exempt_ranges(reader)?;
    let scope = scope(reader)?;
    let key = reader.key;
    for (name, per) in [("limit-rps", Duration::from_secs(1)), ("limit-rpm", Duration::from_secs(60))] {
        let Some(requests) = limit(reader, name)? else { continue };
        let limit = RateLimit {
            key: LimitKey::Address,
            policy: format!("{key}/{name}").into(),
            requests,
            per,
            burst: requests.saturating_mul(multiplier),
            status: context.defaults.limit_status.rate,
            exempt: exempt.clone(),
            scope,
        };
        contributions.added.add(Guard::RateLimit(limit));
    }
    let name = "limit-connections";
    if let Some(most) = limit(reader, name)? {
        let status = context.defaults.limit_status.connections;
        let limit = ConcurrencyLimit { policy: format!("{key}/{name}").into(), max: most, status, exempt };
        contributions.added.add(Guard::ConcurrencyLimit(limit));
    }
    if let Some(rate) = response_rate(reader, &context.defaults.values) {
        contributions.added.add(ResponseLimits { head: 0, rate: Some(rate) });
    }
    Ok(())
}

/// Reads `fairway.dev/limit-scope`.
fn scope(reader: &mut Reader<'_>) -> Result<LimitScope, Closed> {
    let annotations = reader.ingress.object.metadata.annotations.as_ref();
    match annotations.and_then(|all| all.get(LIMIT_SCOPE)).map(|value| value.trim()) {
        None | Some("replica") => Ok(LimitScope::Replica),
        Some("fleet") => Ok(LimitScope::Fleet),
        Some(other) => {
            let origin = reader.field_origin(&format!("metadata.annotations[\"{LIMIT_SCOPE}\"]"));
            Err(fairway_annotations::invalid(
                reader,
                origin,
                format!("\"{other}\" is neither replica nor fleet"),
            ))
        }
    }
}

/// Reads `limit-rate` and `limit-rate-after`, which are in KiB.
fn response_rate(reader: &mut Reader<'_>, defaults: &Values) -> Option<ResponseRate> {
    let bytes = value(reader, defaults, "limit-rate", kibibytes).unwrap_or_default();
    let after = value(reader, defaults, "limit-rate-after", kibibytes).unwrap_or_default();
    (bytes > 0).then_some(ResponseRate { bytes, after })
}

/// A limit above 0: ingress-nginx treats a negative one as none.
fn limit(reader: &mut Reader<'_>, name: &str) -> Result<Option<u32>, Closed> {
    let Some(value) = reader.value(name) else { return Ok(None) };
    match value.parse::<i64>() {
        Ok(limit) if limit <= 0 => Ok(None),
        Ok(limit) => match u32::try_from(limit) {
            Ok(limit) => Ok(Some(limit)),
            Err(_) => Err(Closed::invalid(reader, name, format!("\"{value}\" is too large"))),
        },
        Err(_) => Err(Closed::invalid(reader, name, format!("\"{value}\" is not a whole number"))),
    }
}

/// Addresses exempt from the limits.
fn exempt_ranges(reader: &mut Reader<'_>) -> Result<Vec<IpNet>, Closed> {
    let names = ["limit-allowlist", "limit-whitelist"];
    let Some(name) = names.into_iter().find(|name| reader.value(name).is_some()) else {
        return Ok(Vec::new());
    };
    let value = reader.value(name).unwrap_or_default();
    if value.is_empty() {
        return Ok(Vec::new());
    }
    text::parse_ranges(value).map_err(|wrong| {
        Closed::invalid(reader, name, format!("\"{wrong}\" is neither an address nor a range of addresses"))
    })
}
