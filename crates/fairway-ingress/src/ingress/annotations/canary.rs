//! Canary Ingresses, which take some requests of another Ingress: `canary*`. [`crate::ingress::canary`] decides which
//! requests.

use std::sync::Arc;

use fairway_pattern::{Anchor, Pattern};

use crate::ingress::annotations::family::{Family, KnownAnnotation, supported};
use crate::ingress::canary::{Canary, CanarySessions, HeaderChoice};
use crate::ingress::contributions::IngressRole;
use crate::ingress::reader::Reader;

/// The family.
pub(crate) const FAMILY: Family = Family::new(ANNOTATIONS, |reader, _, contributions| {
    if reader.switch("canary", false) {
        contributions.role = IngressRole::Canary(canary(reader));
    }
    Ok(())
});

const ANNOTATIONS: &[KnownAnnotation] = &[
    supported("affinity-canary-behavior"),
    supported("canary"),
    supported("canary-by-cookie"),
    supported("canary-by-header"),
    supported("canary-by-header-pattern"),
    supported("canary-by-header-value"),
    supported("canary-weight"),
    supported("canary-weight-total"),
];

/// ingress-nginx: default and minimum of `canary-weight-total`.
const DEFAULT_WEIGHT_TOTAL: u32 = 100;

fn canary(reader: &mut Reader<'_>) -> Canary {
    let name = token(reader, "canary-by-header").map(|name| name.to_ascii_lowercase().into());
    let number = |reader: &mut Reader<'_>, name| {
        let number = reader.number(name, 0..=u64::from(u32::MAX));
        number.map(|number| u32::try_from(number).unwrap_or(u32::MAX))
    };
    let total =
        number(reader, "canary-weight-total").unwrap_or(DEFAULT_WEIGHT_TOTAL).max(DEFAULT_WEIGHT_TOTAL);
    Canary {
        header: name.map(|name| (name, header_choice(reader))),
        cookie: token(reader, "canary-by-cookie").map(Arc::from),
        weight: number(reader, "canary-weight").unwrap_or(0).min(total),
        total,
        sessions: canary_sessions(reader),
    }
}

fn canary_sessions(reader: &mut Reader<'_>) -> CanarySessions {
    let name = "affinity-canary-behavior";
    match reader.value(name) {
        None | Some("" | "sticky") => CanarySessions::OfMain,
        Some("legacy") => CanarySessions::Own,
        Some(other) => {
            let problem = format!("\"{other}\" is neither sticky nor legacy");
            reader.invalid(name, problem, "it counts as sticky");
            CanarySessions::OfMain
        }
    }
}

/// The required header value.
fn header_choice(reader: &mut Reader<'_>) -> HeaderChoice {
    if let Some(value) = reader.value("canary-by-header-value").filter(|value| !value.is_empty()) {
        return HeaderChoice::Value(value.into());
    }
    let name = "canary-by-header-pattern";
    let Some(pattern) = reader.value(name).filter(|pattern| !pattern.is_empty()) else {
        return HeaderChoice::Always;
    };
    // Matches anywhere in the value.
    let pattern: Arc<str> = format!(".*(?:{pattern}).*").into();
    match Pattern::shared(&pattern, Anchor::Both, false) {
        Ok(_) => HeaderChoice::Pattern(pattern),
        Err(why) => {
            let problem = format!("the regular expression {why}");
            reader.invalid(name, problem, "requests with the header go to the main Ingress");
            HeaderChoice::Unusable
        }
    }
}

/// A header or cookie name (RFC 9110 §5.6.2).
fn token<'a>(reader: &mut Reader<'a>, name: &str) -> Option<&'a str> {
    let value = reader.value(name).filter(|value| !value.is_empty())?;
    if value.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b)) {
        return Some(value);
    }
    reader.invalid(name, format!("\"{value}\" is no name"), "it chooses no request");
    None
}
