//! Authorization rules.

use std::sync::Arc;

use fairway_model::{
    ApiKeyAuth, Authorization, AuthorizationRule, CountryCode, Decision, NamedValueMatch, TextMatch,
};
use fairway_pattern::{Anchor, Pattern};
use ipnet::IpNet;

use crate::annotations::text::parse_range;
use crate::identity::errors::{IdentityFieldError, IdentityResult, IdentityWarning};
use crate::identity::headers::request_header;
use crate::identity::values::{check_not_empty, max_items, read_claims, read_scopes, read_texts};
use crate::policies as types;

/// The credentials that are verified before.
#[derive(Clone, Copy)]
pub(super) struct KnownCredentials<'a> {
    pub(super) has_jwt: bool,
    pub(super) has_oidc: bool,
    pub(super) api_key: Option<&'a ApiKeyAuth>,
}

pub(super) fn read_authorization(
    authorization: &types::Authorization,
    known: KnownCredentials<'_>,
    doubts: &mut Vec<IdentityWarning>,
) -> IdentityResult<Authorization> {
    let field = "authorization.rules";
    check_not_empty(field, &authorization.rules, max_items::RULES)?;
    let rules = authorization.rules.iter().enumerate();
    let rules = rules.map(|(index, rule)| read_rule(&format!("{field}[{index}]"), rule, known, doubts));
    Ok(Authorization { rules: rules.collect::<IdentityResult<_>>()? })
}

fn read_rule(
    at: &str,
    rule: &types::AuthorizationRule,
    known: KnownCredentials<'_>,
    doubts: &mut Vec<IdentityWarning>,
) -> IdentityResult<AuthorizationRule> {
    let decision = match &*rule.action {
        "Allow" => Decision::Allow,
        "Deny" => Decision::Deny,
        other => {
            let problem = format!("\"{other}\" is none of Allow, Deny");
            return Err(IdentityFieldError::new(format!("{at}.action"), problem));
        }
    };
    let sources = read_condition(at, "sources", rule.sources.as_deref(), max_items::RANGES, ranges)?;
    let countries =
        read_condition(at, "countries", rule.countries.as_deref(), max_items::COUNTRIES, countries)?;
    let asns = read_condition(at, "asns", rule.asns.as_deref(), max_items::ASNS, asns)?;
    let methods = read_condition(at, "methods", rule.methods.as_deref(), max_items::METHODS, methods)?;
    let claims = read_condition(at, "claims", rule.claims.as_deref(), max_items::CLAIMS, read_claims)?;
    let scopes = read_condition(at, "scopes", rule.scopes.as_deref(), max_items::SCOPES, read_scopes)?;
    let clients = rule.api_key_clients.as_deref();
    let clients = read_condition(at, "apiKeyClients", clients, max_items::CLIENTS, |field, all| {
        read_texts(field, all, max_items::CLIENTS)
    })?;
    let headers =
        read_condition(at, "headers", rule.headers.as_deref(), max_items::HEADERS, header_conditions)?;
    if !claims.is_empty() && !known.has_jwt && !known.has_oidc {
        return Err(IdentityFieldError::new(
            format!("{at}.claims"),
            "nothing is known of a token without jwt or oidc",
        ));
    }
    if !scopes.is_empty() && !known.has_jwt {
        return Err(IdentityFieldError::new(
            format!("{at}.scopes"),
            "nothing is known of a token without jwt",
        ));
    }
    if !clients.is_empty() {
        let field = format!("{at}.apiKeyClients");
        let Some(auth) = known.api_key else {
            return Err(IdentityFieldError::new(field, "nothing is known of a client without apiKey"));
        };
        let is_known = |name: &Arc<str>| auth.keys.iter().any(|(_, client)| client == name);
        if let Some(unknown) = clients.iter().find(|name| !is_known(name)) {
            let problem = format!("no API key is of a client \"{unknown}\"");
            let consequence = "no request is by this client";
            doubts.push(IdentityWarning { code: "unknown-api-key-client", field, problem, consequence });
        }
    }
    Ok(AuthorizationRule { decision, sources, countries, asns, methods, claims, scopes, clients, headers })
}

/// A condition. An empty list is an error: the rule would match more requests than its author may expect.
fn read_condition<W, T>(
    at: &str,
    name: &str,
    written: Option<&[W]>,
    most: usize,
    read: impl FnOnce(&str, &[W]) -> IdentityResult<Vec<T>>,
) -> IdentityResult<Vec<T>> {
    let Some(written) = written else { return Ok(Vec::new()) };
    let field = format!("{at}.{name}");
    check_not_empty(&field, written, most)?;
    read(&field, written)
}

fn ranges(field: &str, written: &[String]) -> IdentityResult<Vec<IpNet>> {
    let read = |text: &String| {
        parse_range(text).map_err(|wrong| {
            let problem = format!("\"{wrong}\" is neither an address nor a range of addresses");
            IdentityFieldError::new(field, problem)
        })
    };
    let mut ranges = written.iter().map(read).collect::<IdentityResult<Vec<_>>>()?;
    ranges.sort();
    ranges.dedup();
    Ok(ranges)
}

/// A lower-case code would never match: databases have upper-case ones.
fn countries(field: &str, written: &[String]) -> IdentityResult<Vec<CountryCode>> {
    let read = |text: &String| {
        text.parse().map_err(|_| {
            IdentityFieldError::new(
                field,
                format!("\"{text}\" is no code of a country; they are two capital letters"),
            )
        })
    };
    let mut codes = written.iter().map(read).collect::<IdentityResult<Vec<_>>>()?;
    codes.sort();
    codes.dedup();
    Ok(codes)
}

fn asns(field: &str, written: &[u32]) -> IdentityResult<Vec<u32>> {
    if written.contains(&0) {
        return Err(IdentityFieldError::new(field, "0 is the number of no autonomous system"));
    }
    let mut numbers = written.to_vec();
    numbers.sort_unstable();
    numbers.dedup();
    Ok(numbers)
}

/// Methods are case-sensitive (RFC 9110 §9.1); clients send none in lower case.
fn methods(field: &str, written: &[String]) -> IdentityResult<Vec<Arc<str>>> {
    let good = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_uppercase() || b"-_".contains(&byte))
    };
    let read = |name: &String| match good(name) {
        true => Ok(name.as_str().into()),
        false => {
            Err(IdentityFieldError::new(field, format!("\"{name}\" is no method; they are in upper case")))
        }
    };
    written.iter().map(read).collect()
}

fn header_conditions(
    field: &str,
    written: &[types::HeaderCondition],
) -> IdentityResult<Vec<NamedValueMatch>> {
    let read = |(index, it): (usize, &types::HeaderCondition)| {
        let at = format!("{field}[{index}]");
        let name = request_header(&format!("{at}.name"), &it.name)?;
        let value = match it.type_.as_deref() {
            None | Some("" | "Exact") => TextMatch::Exact(it.value.as_str().into()),
            Some("RegularExpression") => {
                Pattern::shared(&it.value, Anchor::Both, false).map_err(|why| {
                    IdentityFieldError::new(format!("{at}.value"), format!("the regular expression {why}"))
                })?;
                TextMatch::Regex(it.value.as_str().into())
            }
            Some(other) => {
                let problem = format!("\"{other}\" is none of Exact, RegularExpression");
                return Err(IdentityFieldError::new(format!("{at}.type"), problem));
            }
        };
        Ok(NamedValueMatch { name: name.to_ascii_lowercase().into(), value })
    };
    written.iter().enumerate().map(read).collect()
}
