//! Session affinity: `affinity*`, `session-cookie-*`.

use std::sync::Arc;

use fairway_model::{
    SameSite, SecureCookie, SessionCarrier, SessionCookie, SessionLifetime, SessionStart, Stickiness,
    StickyFailure,
};

use crate::ingress::annotations::family::{Family, KnownAnnotation, supported};
use crate::ingress::reader::Reader;

/// The family. It runs after `balancing`, whose hash it overrides.
pub(crate) const FAMILY: Family = Family::new(ANNOTATIONS, |reader, _, contributions| {
    let upstream = &mut contributions.upstream;
    if let Some(cookie) = session_cookie(reader) {
        upstream.mode = stickiness(reader);
        let stickiness = upstream.mode.unwrap_or_default();
        upstream.balance.cookie = Some(Arc::new(SessionCookie { stickiness, ..cookie }));
    }
    Ok(())
});

const ANNOTATIONS: &[KnownAnnotation] = &[
    supported("affinity"),
    supported("affinity-mode"),
    supported("session-cookie-change-on-failure"),
    supported("session-cookie-conditional-samesite-none"),
    supported("session-cookie-domain"),
    supported("session-cookie-expires"),
    supported("session-cookie-max-age"),
    supported("session-cookie-name"),
    supported("session-cookie-path"),
    supported("session-cookie-samesite"),
    supported("session-cookie-secure"),
];

/// ingress-nginx: default of `session-cookie-name`.
const DEFAULT_COOKIE_NAME: &str = "INGRESSCOOKIE";

/// Reads the cookie, if enabled.
fn session_cookie(reader: &mut Reader<'_>) -> Option<SessionCookie> {
    match reader.value("affinity") {
        None | Some("") => return None,
        Some("cookie") => {}
        Some(other) => {
            let problem = format!("\"{other}\" is not cookie");
            reader.invalid("affinity", problem, "the requests of a session go to all endpoints");
            return None;
        }
    }
    let name = word(reader, "session-cookie-name", "-._~/:").unwrap_or_else(|| DEFAULT_COOKIE_NAME.into());
    Some(SessionCookie {
        name,
        backend: "".into(),
        stickiness: Stickiness::default(),
        path: word(reader, "session-cookie-path", "-._~/:,?&="),
        domain: word(reader, "session-cookie-domain", "-._~/:"),
        expires: seconds(reader, "session-cookie-expires"),
        max_age: seconds(reader, "session-cookie-max-age"),
        secure: match reader.switch("session-cookie-secure", false) {
            true => SecureCookie::Always,
            false => SecureCookie::OverTls,
        },
        same_site: same_site(reader),
        on_failure: match reader.switch("session-cookie-change-on-failure", false) {
            true => StickyFailure::Moves,
            false => StickyFailure::Returns,
        },
        begins: SessionStart::Here,
        carrier: SessionCarrier::Cookie,
        lifetime: SessionLifetime::default(),
    })
}

/// Reads `affinity-mode`; `None` if absent.
fn stickiness(reader: &mut Reader<'_>) -> Option<Stickiness> {
    match reader.value("affinity-mode") {
        None | Some("") => None,
        Some("balanced") => Some(Stickiness::Balanced),
        Some("persistent") => Some(Stickiness::Persistent),
        Some(other) => {
            let problem = format!("\"{other}\" is neither balanced nor persistent");
            reader.invalid("affinity-mode", problem, "sessions are balanced");
            None
        }
    }
}

fn same_site(reader: &mut Reader<'_>) -> SameSite {
    let conditional = reader.switch("session-cookie-conditional-samesite-none", false);
    let Some(value) = reader.value("session-cookie-samesite") else { return SameSite::Absent };
    match value.to_ascii_lowercase().as_str() {
        "" => SameSite::Absent,
        "none" if conditional => SameSite::NoneIfKnown,
        "none" => SameSite::None,
        "lax" => SameSite::Lax,
        "strict" => SameSite::Strict,
        _ => {
            let problem = format!("\"{value}\" is neither None, Lax nor Strict");
            reader.invalid("session-cookie-samesite", problem, "the cookie has no SameSite");
            SameSite::Absent
        }
    }
}

/// A value of letters, digits and `others`.
fn word(reader: &mut Reader<'_>, name: &str, others: &str) -> Option<Arc<str>> {
    let value = reader.value(name).filter(|value| !value.is_empty())?;
    if value.chars().all(|c| c.is_ascii_alphanumeric() || others.contains(c)) {
        return Some(value.into());
    }
    reader.invalid(name, format!("\"{value}\" has characters that it may not have"), "the default is used");
    None
}

/// A number of seconds, which may be negative.
fn seconds(reader: &mut Reader<'_>, name: &str) -> Option<i64> {
    let value = reader.value(name).filter(|value| !value.is_empty())?;
    let seconds = value.parse::<i32>().ok().map(i64::from);
    if seconds.is_none() {
        reader.invalid(name, format!("\"{value}\" is no number of seconds"), "the cookie has no such limit");
    }
    seconds
}
