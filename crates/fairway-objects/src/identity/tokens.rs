//! JSON Web Tokens.

use std::time::Duration;

use fairway_model::{ClaimHeader, CredentialLocation, JwtAuth, JwtIssuer};

use crate::duration;
use crate::identity::context::Context;
use crate::identity::credential_locations::read_locations;
use crate::identity::errors::{IdentityFieldError, IdentityResult};
use crate::identity::headers::{is_same_header, written_header};
use crate::identity::keys::{KeyFindings, read_keys};
use crate::identity::values::{
    check_length, check_not_empty, max_items, non_empty_text, read_claims, read_scopes, read_texts,
};
use crate::policies as types;

const MAX_CLOCK_SKEW: Duration = Duration::from_secs(600);

const DEFAULT_CLOCK_SKEW: Duration = Duration::from_secs(30);

const DEFAULT_REALM: &str = "fairway";

pub(super) fn read_jwt(
    jwt: &types::Jwt,
    context: Context<'_>,
    found: &mut KeyFindings,
) -> IdentityResult<JwtAuth> {
    let realm = jwt.realm.as_deref().unwrap_or(DEFAULT_REALM);
    let plain = |byte: u8| (byte.is_ascii_graphic() || byte == b' ') && byte != b'"' && byte != b'\\';
    if realm.is_empty() || !realm.bytes().all(plain) {
        let problem = "it is empty, or has something besides visible ASCII, a quote or a backslash";
        return Err(IdentityFieldError::new("jwt.realm", problem));
    }
    let skew = clock_skew("jwt.clockSkew", jwt.clock_skew.as_deref())?;
    let default = CredentialLocation::Header { name: "Authorization".into(), prefix: "Bearer ".into() };
    let locations = read_locations("jwt.from", &jwt.from, default)?;
    let field = "jwt.issuers";
    check_not_empty(field, &jwt.issuers, max_items::ISSUERS)?;
    let mut issuers: Vec<JwtIssuer> = Vec::with_capacity(jwt.issuers.len());
    for (index, it) in jwt.issuers.iter().enumerate() {
        let at = format!("{field}[{index}]");
        let issuer = read_issuer(&at, it, context, found)?;
        if issuers.iter().any(|other| other.issuer == issuer.issuer) {
            return Err(IdentityFieldError::new(format!("{at}.issuer"), "the issuer is listed twice"));
        }
        issuers.push(issuer);
    }
    Ok(JwtAuth { realm: realm.into(), locations, skew, issuers })
}

/// The allowed difference between clocks.
pub(super) fn clock_skew(field: &str, written: Option<&str>) -> IdentityResult<Duration> {
    written.map_or(Ok(DEFAULT_CLOCK_SKEW), |text| {
        duration::read(text).filter(|skew| *skew <= MAX_CLOCK_SKEW).ok_or_else(|| {
            IdentityFieldError::new(field, format!("\"{text}\" is no duration from 0s to 10m such as 30s"))
        })
    })
}

fn read_issuer(
    at: &str,
    source: &types::JwtIssuer,
    context: Context<'_>,
    found: &mut KeyFindings,
) -> IdentityResult<JwtIssuer> {
    let issuer = non_empty_text(&format!("{at}.issuer"), &source.issuer)?;
    let audiences = read_texts(&format!("{at}.audiences"), &source.audiences, max_items::AUDIENCES)?;
    let claims = read_claims(&format!("{at}.requiredClaims"), &source.required_claims)?;
    let scopes = read_scopes(&format!("{at}.requiredScopes"), &source.required_scopes)?;
    let headers = claim_headers(&format!("{at}.claimsToHeaders"), &source.claims_to_headers)?;
    let keys = read_keys(&format!("{at}.keys"), &source.keys, context, found)?;
    Ok(JwtIssuer { issuer, audiences, keys, claims, scopes, headers })
}

pub(super) fn claim_headers(field: &str, written: &[types::ClaimHeader]) -> IdentityResult<Vec<ClaimHeader>> {
    check_length(field, written, max_items::CLAIMS)?;
    let mut headers: Vec<ClaimHeader> = Vec::with_capacity(written.len());
    for (index, it) in written.iter().enumerate() {
        let at = format!("{field}[{index}]");
        let claim = non_empty_text(&format!("{at}.claim"), &it.claim)?;
        let header = written_header(&format!("{at}.header"), &it.header)?;
        if headers.iter().any(|other| is_same_header(&other.header, &header)) {
            return Err(IdentityFieldError::new(
                format!("{at}.header"),
                "another claim is written to it, too",
            ));
        }
        headers.push(ClaimHeader { claim, header });
    }
    Ok(headers)
}
