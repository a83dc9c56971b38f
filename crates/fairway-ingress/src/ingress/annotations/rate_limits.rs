//! How much one client may ask for: `limit-rps`, `limit-rpm`, `limit-connections`, and whom they exempt. Counts belong to
//! the Ingress and the client's address, as the zones of ingress-nginx do; all workers count together. How fast each of its
//! answers comes: `limit-rate`, `limit-rate-after`. Fairway's own `fairway.dev/limit-scope` says whether the rates hold for each replica,
//! as in ingress-nginx, or for all of them together.
//!
//! A limit that cannot be read closes the paths: a guess would let too many through.

use std::time::Duration;

use fairway_model::{AnswerBounds, AnswerRate, ConcurrencyLimit, Guard, LimitKey, LimitScope, RateLimit};
use fairway_objects::annotations::text;
use ipnet::IpNet;

use crate::ingress::annotations::family::{Family, Known, differs, done};
use crate::ingress::closed::Closed;
use crate::ingress::context::Context;
use crate::ingress::contributions::Contributions;
use crate::ingress::own;
use crate::ingress::reader::Reader;
use crate::ingress::values::{Values, kibibytes, value};

/// The family.
pub(crate) const FAMILY: Family = Family::new(ANNOTATIONS, limits);

const ANNOTATIONS: &[Known] = &[
    done("limit-allowlist"),
    done("limit-burst-multiplier"),
    done("limit-connections"),
    differs("limit-rate", "it works without `proxy-buffering`, too"),
    done("limit-rate-after"),
    done("limit-rpm"),
    done("limit-rps"),
    done("limit-whitelist").alias_of("limit-allowlist"),
];

/// Fairway's own: `--annotations-prefix` does not change it.
const SCOPE: &str = "fairway.dev/limit-scope";

/// How much may come early where `limit-burst-multiplier` says nothing, in multiples of the limit.
const BURST: u32 = 5;

/// Reads all limits.
fn limits(
    reader: &mut Reader<'_>,
    context: &Context<'_>,
    contributions: &mut Contributions,
) -> Result<(), Closed> {
    let multiplier = reader.number("limit-burst-multiplier", 0..=u64::from(u32::MAX));
    let multiplier = multiplier.map_or(BURST, |multiplier| u32::try_from(multiplier).unwrap_or(u32::MAX));
    let exempt = exempt(reader)?;
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
        let limit = ConcurrencyLimit { policy: format!("{key}/{name}").into(), most, status, exempt };
        contributions.added.add(Guard::ConcurrencyLimit(limit));
    }
    if let Some(rate) = answer_rate(reader, &context.defaults.values) {
        contributions.added.add(AnswerBounds { head: 0, rate: Some(rate) });
    }
    Ok(())
}

/// Reads `fairway.dev/limit-scope`.
fn scope(reader: &mut Reader<'_>) -> Result<LimitScope, Closed> {
    let annotations = reader.ingress.object.metadata.annotations.as_ref();
    match annotations.and_then(|all| all.get(SCOPE)).map(|value| value.trim()) {
        None | Some("replica") => Ok(LimitScope::Replica),
        Some("fleet") => Ok(LimitScope::Fleet),
        Some(other) => {
            let origin = reader.field(&format!("metadata.annotations[\"{SCOPE}\"]"));
            Err(own::invalid(reader, origin, format!("\"{other}\" is neither replica nor fleet")))
        }
    }
}

/// Reads `limit-rate` and `limit-rate-after`, which count in KiB.
fn answer_rate(reader: &mut Reader<'_>, defaults: &Values) -> Option<AnswerRate> {
    let bytes = value(reader, defaults, "limit-rate", kibibytes).unwrap_or_default();
    let after = value(reader, defaults, "limit-rate-after", kibibytes).unwrap_or_default();
    (bytes > 0).then_some(AnswerRate { bytes, after })
}

/// A limit, where there is one above 0: ingress-nginx takes a negative one for none.
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

/// Whom the limits leave alone.
fn exempt(reader: &mut Reader<'_>) -> Result<Vec<IpNet>, Closed> {
    let names = ["limit-allowlist", "limit-whitelist"];
    let Some(name) = names.into_iter().find(|name| reader.value(name).is_some()) else {
        return Ok(Vec::new());
    };
    let value = reader.value(name).unwrap_or_default();
    if value.is_empty() {
        return Ok(Vec::new());
    }
    text::ranges(value).map_err(|wrong| {
        Closed::invalid(reader, name, format!("\"{wrong}\" is neither an address nor a range of addresses"))
    })
}
