//! Converts cookie sessions to `sessionCookie` of a BackendTrafficPolicy. `sessionPersistence` of a route lacks fields for most of
//! the annotations.

use fairway_model::{Backend, SameSite, SecureCookie, SessionCookie, SessionKey, Stickiness, StickyFailure};
use fairway_objects::policies;

use crate::gateway::remark::Remark;

const AFFINITY_ANNOTATIONS: &[&str] = &["affinity"];
const COOKIE_PATH_ANNOTATIONS: &[&str] = &["session-cookie-path"];
const COOKIE_EXPIRY_ANNOTATIONS: &[&str] = &["session-cookie-expires"];
const SAME_SITE: &[&str] = &["session-cookie-conditional-samesite-none"];
const CANARY_BEHAVIOR_ANNOTATIONS: &[&str] = &["affinity-canary-behavior"];

/// The session cookie of a backend, if it has one.
pub(crate) fn cookie(backend: &Backend) -> Option<policies::SessionCookie> {
    let SessionKey::Cookie(cookie) = backend.session.as_ref()? else { return None };
    Some(in_policy(cookie))
}

/// Remarks on the sessions of a backend, which is one of `count` backends of a rule.
pub(crate) fn remarks(backend: &Backend, count: usize) -> Vec<Remark> {
    let Some(SessionKey::Cookie(cookie)) = &backend.session else { return Vec::new() };
    let mut remarks = Vec::new();
    let mut differs = |about, what| remarks.push(Remark::differs(about, what));
    if cookie.path.is_none() {
        differs(COOKIE_PATH_ANNOTATIONS, "the path of the cookie is /, not that of the rule");
    }
    if cookie.expires.is_some() {
        differs(COOKIE_EXPIRY_ANNOTATIONS, "the cookie has Max-Age in place of Expires");
    }
    if cookie.same_site == SameSite::NoneIfKnown {
        differs(SAME_SITE, "browsers that reject SameSite=None also get it");
    }
    if count > 1 {
        differs(CANARY_BEHAVIOR_ANNOTATIONS, "a session may move between the main Service and the canary");
    }
    if [cookie.max_age, cookie.expires].into_iter().flatten().any(|seconds| seconds <= 0) {
        differs(
            AFFINITY_ANNOTATIONS,
            "the cookie lasts for the session of the browser: a policy has no time below a second",
        );
    }
    remarks
}

fn in_policy(cookie: &SessionCookie) -> policies::SessionCookie {
    let word = |it: &str| Some(it.to_owned());
    let age = cookie.max_age.or(cookie.expires).filter(|seconds| *seconds > 0);
    policies::SessionCookie {
        name: cookie.name.to_string(),
        path: cookie.path.as_deref().filter(|path| *path != "/").map(str::to_owned),
        domain: cookie.domain.as_deref().map(str::to_owned),
        max_age: age.map(duration_text),
        secure: (cookie.secure == SecureCookie::Always).then(|| "Always".to_owned()),
        same_site: match cookie.same_site {
            SameSite::Absent => None,
            SameSite::None | SameSite::NoneIfKnown => word("None"),
            SameSite::Lax => word("Lax"),
            SameSite::Strict => word("Strict"),
        },
        stickiness: (cookie.stickiness == Stickiness::Persistent).then(|| "Persistent".to_owned()),
        on_failure: (cookie.on_failure == StickyFailure::Moves).then(|| "Move".to_owned()),
    }
}

/// Formats a duration. GEP-2257 allows at most five digits per unit.
fn duration_text(seconds: i64) -> String {
    match seconds {
        ..=99_999 => format!("{seconds}s"),
        _ => format!("{}h{}m{}s", (seconds / 3600).min(99_999), seconds / 60 % 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use fairway_model::{SessionCarrier, SessionLifetime, SessionStart};

    use super::*;

    #[test]
    fn a_policy_has_the_values_of_annotations_without_defaults() {
        let plain = SessionCookie {
            name: "INGRESSCOOKIE".into(),
            backend: "".into(),
            stickiness: Stickiness::Balanced,
            path: None,
            domain: None,
            expires: None,
            max_age: None,
            secure: SecureCookie::OverTls,
            same_site: SameSite::Absent,
            on_failure: StickyFailure::Returns,
            begins: SessionStart::Here,
            carrier: SessionCarrier::Cookie,
            lifetime: SessionLifetime::default(),
        };
        let usual = policies::SessionCookie { name: "INGRESSCOOKIE".to_owned(), ..Default::default() };
        assert_eq!(in_policy(&plain), usual);
        let all = SessionCookie {
            stickiness: Stickiness::Persistent,
            path: Some("/shop".into()),
            domain: Some("a.test".into()),
            expires: Some(5),
            max_age: Some(172_800),
            secure: SecureCookie::Always,
            same_site: SameSite::NoneIfKnown,
            on_failure: StickyFailure::Moves,
            ..plain
        };
        let remarks = in_policy(&all);
        assert_eq!((remarks.path.as_deref(), remarks.domain.as_deref()), (Some("/shop"), Some("a.test")));
        assert_eq!(
            (remarks.max_age.as_deref(), remarks.secure.as_deref()),
            (Some("48h0m0s"), Some("Always"))
        );
        assert_eq!(
            (remarks.same_site.as_deref(), remarks.stickiness.as_deref()),
            (Some("None"), Some("Persistent"))
        );
        assert_eq!(remarks.on_failure.as_deref(), Some("Move"));
    }
}
