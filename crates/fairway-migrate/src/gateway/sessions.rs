//! Sessions by cookie as `sessionCookie` of a BackendTrafficPolicy, which says all that the annotations say; `sessionPersistence` of a
//! route has no fields for most of it.

use fairway_model::{Backend, SameSite, SecureCookie, SessionCookie, SessionKey, Stickiness, StickyFailure};
use fairway_objects::policies;

use crate::gateway::remark::Remark;

const COOKIE: &[&str] = &["affinity"];
const PATH: &[&str] = &["session-cookie-path"];
const EXPIRES: &[&str] = &["session-cookie-expires"];
const SAME_SITE: &[&str] = &["session-cookie-conditional-samesite-none"];
const CANARY: &[&str] = &["affinity-canary-behavior"];

/// The cookie of a backend's sessions, where it has some.
pub(crate) fn cookie(of: &Backend) -> Option<policies::SessionCookie> {
    let SessionKey::Cookie(cookie) = of.session.as_ref()? else { return None };
    Some(in_policy(cookie))
}

/// What is otherwise for sessions of a backend, which is one of `count` that share the requests of a rule.
pub(crate) fn remarks(of: &Backend, count: usize) -> Vec<Remark> {
    let Some(SessionKey::Cookie(cookie)) = &of.session else { return Vec::new() };
    let mut said = Vec::new();
    let mut differs = |about, what| said.push(Remark::differs(about, what));
    if cookie.path.is_none() {
        differs(PATH, "the path of the cookie is /, not that of the rule");
    }
    if cookie.expires.is_some() {
        differs(EXPIRES, "the cookie has Max-Age in place of Expires");
    }
    if cookie.same_site == SameSite::NoneIfKnown {
        differs(SAME_SITE, "browsers that reject SameSite=None get it, too");
    }
    if count > 1 {
        differs(CANARY, "a session may move between the main Service and the canary");
    }
    if [cookie.max_age, cookie.expires].into_iter().flatten().any(|seconds| seconds <= 0) {
        differs(
            COOKIE,
            "the cookie lasts for the session of the browser: a policy has no time below a second",
        );
    }
    said
}

fn in_policy(of: &SessionCookie) -> policies::SessionCookie {
    let word = |it: &str| Some(it.to_owned());
    let age = of.max_age.or(of.expires).filter(|seconds| *seconds > 0);
    policies::SessionCookie {
        name: of.name.to_string(),
        path: of.path.as_deref().filter(|path| *path != "/").map(str::to_owned),
        domain: of.domain.as_deref().map(str::to_owned),
        max_age: age.map(duration),
        secure: (of.secure == SecureCookie::Always).then(|| "Always".to_owned()),
        same_site: match of.same_site {
            SameSite::Absent => None,
            SameSite::None | SameSite::NoneIfKnown => word("None"),
            SameSite::Lax => word("Lax"),
            SameSite::Strict => word("Strict"),
        },
        stickiness: (of.stickiness == Stickiness::Persistent).then(|| "Persistent".to_owned()),
        on_failure: (of.on_failure == StickyFailure::Moves).then(|| "Move".to_owned()),
    }
}

/// GEP-2257: five digits at most for a unit.
fn duration(seconds: i64) -> String {
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
    fn a_policy_has_what_annotations_say_and_nothing_that_is_usual() {
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
        let said = in_policy(&all);
        assert_eq!((said.path.as_deref(), said.domain.as_deref()), (Some("/shop"), Some("a.test")));
        assert_eq!((said.max_age.as_deref(), said.secure.as_deref()), (Some("48h0m0s"), Some("Always")));
        assert_eq!(
            (said.same_site.as_deref(), said.stickiness.as_deref()),
            (Some("None"), Some("Persistent"))
        );
        assert_eq!(said.on_failure.as_deref(), Some("Move"));
    }
}
