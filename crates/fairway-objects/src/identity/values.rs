//! Lists and texts that are written in several places.

use std::sync::Arc;

use fairway_model::ClaimMatch;

use crate::identity::mistake::{Checked, Mistake};
use crate::policies as types;

/// The most members of a list, as the CRD has them.
pub(super) mod most {
    pub(in crate::identity) const SOURCES_OF_CREDENTIALS: usize = 8;
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

pub(super) fn filled<T>(field: &str, list: &[T], most: usize) -> Checked<()> {
    match list.is_empty() {
        true => Err(Mistake::new(field, "it is empty")),
        false => at_most(field, list, most),
    }
}

pub(super) fn at_most<T>(field: &str, list: &[T], most: usize) -> Checked<()> {
    match list.len() > most {
        true => Err(Mistake::new(field, format!("it has {} members, and may have {most}", list.len()))),
        false => Ok(()),
    }
}

pub(super) fn texts(field: &str, written: &[String], most: usize) -> Checked<Vec<Arc<str>>> {
    at_most(field, written, most)?;
    written.iter().map(|text| some_text(field, text)).collect()
}

/// A text that is not empty and has no control character.
pub(super) fn some_text(field: &str, text: &str) -> Checked<Arc<str>> {
    match !text.is_empty() && !text.chars().any(char::is_control) {
        true => Ok(text.into()),
        false => Err(Mistake::new(field, "it is empty, or has a control character")),
    }
}

pub(super) fn claims(field: &str, written: &[types::ClaimValues]) -> Checked<Vec<ClaimMatch>> {
    at_most(field, written, most::CLAIMS)?;
    let read = |(index, it): (usize, &types::ClaimValues)| {
        let values = format!("{field}[{index}].values");
        filled(&values, &it.values, most::VALUES)?;
        Ok(ClaimMatch {
            claim: some_text(&format!("{field}[{index}].name"), &it.name)?,
            values: it.values.iter().map(|value| value.as_str().into()).collect(),
        })
    };
    written.iter().enumerate().map(read).collect()
}

/// RFC 6749 §3.3.
pub(super) fn scopes(field: &str, written: &[String]) -> Checked<Vec<Arc<str>>> {
    let good = |scope: &str| {
        !scope.is_empty() && scope.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"\\".contains(&byte))
    };
    at_most(field, written, most::SCOPES)?;
    let read = |scope: &String| match good(scope) {
        true => Ok(scope.as_str().into()),
        false => Err(Mistake::new(field, format!("{scope:?} is no scope; list each one by itself"))),
    };
    written.iter().map(read).collect()
}
