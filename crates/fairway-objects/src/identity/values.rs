//! Parsers for lists and texts that occur in several places.

use std::sync::Arc;

use fairway_model::ClaimMatch;

use crate::identity::errors::{IdentityFieldError, IdentityResult};
use crate::policies as types;

/// The maximum lengths of lists, as in the CRD.
pub(super) mod max_items {
    pub(in crate::identity) const CREDENTIAL_SOURCES: usize = 8;
    pub(in crate::identity) const ISSUERS: usize = 8;
    pub(in crate::identity) const AUDIENCES: usize = 16;
    pub(in crate::identity) const AUTHORITIES: usize = 8;
    pub(in crate::identity) const CLAIMS: usize = 16;
    pub(in crate::identity) const VALUES: usize = 64;
    pub(in crate::identity) const SCOPES: usize = 16;
    pub(in crate::identity) const SECRETS: usize = 16;
    pub(in crate::identity) const RULES: usize = 64;
    pub(in crate::identity) const RANGES: usize = 256;
    pub(in crate::identity) const COUNTRIES: usize = 256;
    pub(in crate::identity) const ASNS: usize = 256;
    pub(in crate::identity) const METHODS: usize = 16;
    pub(in crate::identity) const CLIENTS: usize = 64;
    pub(in crate::identity) const HEADERS: usize = 16;
    pub(in crate::identity) const HOSTS: usize = 4;
    pub(in crate::identity) const PARAMETERS: usize = 8;
    pub(in crate::identity) const LIMITS: usize = 4;
}

pub(super) fn check_not_empty<T>(field: &str, list: &[T], limit: usize) -> IdentityResult<()> {
    match list.is_empty() {
        true => Err(IdentityFieldError::new(field, "it is empty")),
        false => check_length(field, list, limit),
    }
}

pub(super) fn check_length<T>(field: &str, list: &[T], limit: usize) -> IdentityResult<()> {
    match list.len() > limit {
        true => Err(IdentityFieldError::new(
            field,
            format!("it has {} members, and may have {limit}", list.len()),
        )),
        false => Ok(()),
    }
}

pub(super) fn read_texts(field: &str, written: &[String], limit: usize) -> IdentityResult<Vec<Arc<str>>> {
    check_length(field, written, limit)?;
    written.iter().map(|text| non_empty_text(field, text)).collect()
}

/// A non-empty text without control characters.
pub(super) fn non_empty_text(field: &str, text: &str) -> IdentityResult<Arc<str>> {
    match !text.is_empty() && !text.chars().any(char::is_control) {
        true => Ok(text.into()),
        false => Err(IdentityFieldError::new(field, "it is empty, or has a control character")),
    }
}

pub(super) fn read_claims(field: &str, written: &[types::ClaimValues]) -> IdentityResult<Vec<ClaimMatch>> {
    check_length(field, written, max_items::CLAIMS)?;
    let read = |(index, it): (usize, &types::ClaimValues)| {
        let values = format!("{field}[{index}].values");
        check_not_empty(&values, &it.values, max_items::VALUES)?;
        Ok(ClaimMatch {
            claim: non_empty_text(&format!("{field}[{index}].name"), &it.name)?,
            values: it.values.iter().map(|value| value.as_str().into()).collect(),
        })
    };
    written.iter().enumerate().map(read).collect()
}

/// RFC 6749 §3.3.
pub(super) fn read_scopes(field: &str, written: &[String]) -> IdentityResult<Vec<Arc<str>>> {
    let good = |scope: &str| {
        !scope.is_empty() && scope.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"\\".contains(&byte))
    };
    check_length(field, written, max_items::SCOPES)?;
    let read = |scope: &String| match good(scope) {
        true => Ok(scope.as_str().into()),
        false => {
            Err(IdentityFieldError::new(field, format!("{scope:?} is no scope; list each one by itself")))
        }
    };
    written.iter().map(read).collect()
}
