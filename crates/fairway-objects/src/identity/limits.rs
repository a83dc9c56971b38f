//! Rate limits per client, by address or identity.

use std::time::Duration;

use fairway_model::{LimitKey, LimitScope, RateLimit};

use crate::annotations::text;
use crate::duration;
use crate::identity::errors::{IdentityFieldError, IdentityResult};
use crate::identity::values::{check_length, max_items, non_empty_text};
use crate::policies as types;

/// What is known about a client before limits by identity apply.
#[derive(Clone, Copy)]
pub(super) struct KnownClientFacts {
    pub(super) token: bool,
    pub(super) api_key: bool,
}

/// Counters are named by where the limits are written: all requests that a limit covers share them.
pub(super) fn read_limits(
    written: &[types::RateLimit],
    counted_as: &str,
    known: KnownClientFacts,
) -> IdentityResult<Vec<RateLimit>> {
    check_length("rateLimits", written, max_items::LIMITS)?;
    let read = |(index, limit): (usize, &types::RateLimit)| {
        let at = format!("rateLimits[{index}]");
        let field = |name: &str| format!("{at}.{name}");
        let exempt = limit.exempt.iter().map(|range| {
            text::parse_range(range).map_err(|wrong| {
                let problem = format!("\"{wrong}\" is neither an address nor a range of addresses");
                IdentityFieldError::new(field("exempt"), problem)
            })
        });
        let mut exempt = exempt.collect::<IdentityResult<Vec<_>>>()?;
        exempt.sort();
        exempt.dedup();
        let requests = u32::try_from(limit.requests).ok().filter(|requests| *requests > 0);
        let out_of_range =
            |name, number: i64| IdentityFieldError::new(field(name), format!("{number} is out of range"));
        Ok(RateLimit {
            key: key(&at, limit, known)?,
            policy: format!("{counted_as}/rateLimits/{index}").into(),
            requests: requests.ok_or_else(|| out_of_range("requests", limit.requests))?,
            per: read_period(&field("per"), limit.per.as_deref())?,
            burst: match limit.burst {
                None => 0,
                Some(burst) => burst.try_into().map_err(|_| out_of_range("burst", burst))?,
            },
            status: match limit.status {
                None => 429,
                Some(status @ 400..=599) => status as u16,
                Some(status) => {
                    return Err(IdentityFieldError::new(
                        field("status"),
                        format!("{status} is none of 400 to 599"),
                    ));
                }
            },
            exempt,
            scope: limit_scope(&field("scope"), limit.scope.as_deref())?,
        })
    };
    written.iter().enumerate().map(read).collect()
}

fn read_period(field: &str, written: Option<&str>) -> IdentityResult<Duration> {
    let Some(text) = written else { return Ok(Duration::from_secs(1)) };
    match duration::read(text) {
        None => Err(IdentityFieldError::new(field, format!("\"{text}\" is no duration such as 1m30s"))),
        Some(Duration::ZERO) => Err(IdentityFieldError::new(field, "0s is too short")),
        Some(per) => Ok(per),
    }
}

fn limit_scope(field: &str, written: Option<&str>) -> IdentityResult<LimitScope> {
    match written.unwrap_or_default() {
        "" | "Replica" => Ok(LimitScope::Replica),
        "Fleet" => Ok(LimitScope::Fleet),
        other => Err(IdentityFieldError::new(field, format!("\"{other}\" is none of Replica, Fleet"))),
    }
}

/// Which requests a limit counts together; by address unless configured otherwise.
fn key(at: &str, limit: &types::RateLimit, known: KnownClientFacts) -> IdentityResult<LimitKey> {
    let (by, claim) = (format!("{at}.by"), format!("{at}.claim"));
    let named = limit.claim.as_deref().filter(|claim| !claim.is_empty());
    let key = match (limit.by.as_deref().unwrap_or_default(), named) {
        ("" | "ClientAddress", None) => LimitKey::Address,
        ("ApiKeyClient", None) if known.api_key => LimitKey::ApiClient,
        ("ApiKeyClient", None) => {
            return Err(IdentityFieldError::new(by, "nothing is known of a client without apiKey"));
        }
        ("Claim", None) => return Err(IdentityFieldError::new(claim, "no claim is named")),
        ("Claim", Some(_)) if !known.token => {
            return Err(IdentityFieldError::new(by, "nothing is known of a token without jwt or oidc"));
        }
        ("Claim", Some(named)) => LimitKey::Claim(non_empty_text(&claim, named)?),
        ("" | "ClientAddress" | "ApiKeyClient", Some(_)) => {
            return Err(IdentityFieldError::new(claim, "it needs the word Claim in by"));
        }
        (other, _) => {
            let problem = format!("\"{other}\" is none of ClientAddress, Claim, ApiKeyClient");
            return Err(IdentityFieldError::new(by, problem));
        }
    };
    Ok(key)
}
