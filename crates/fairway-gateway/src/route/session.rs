//! `sessionPersistence` of HTTPRoute and GRPCRoute rules (GEP-1619), in the form of Gateway API v1.7 and of earlier
//! releases, which have `sessionName`, `cookieConfig` and `idleTimeout`.

use std::num::NonZeroU32;
use std::sync::Arc;

use fairway_model::{
    SameSite, SecureCookie, SessionCarrier, SessionCookie, SessionLifetime, SessionStart, Stickiness,
    StickyFailure,
};
use fairway_objects::duration;
use fairway_objects::gateway_api::{CookieConfig, SessionPersistence};
use fairway_objects::object::ObjectRef;

use crate::policies::backends::is_token;
use crate::rules::RuleBuilder;

/// An invalid field and the problem.
#[derive(Debug, PartialEq, Eq)]
struct InvalidSession {
    field: &'static str,
    problem: String,
}

/// Reads the session persistence of rule `index`. Invalid settings are ignored with a diagnostic, because sessions
/// protect nothing.
pub(super) fn read(
    index: usize,
    name: Option<&str>,
    spec: Option<&SessionPersistence>,
    builder: &mut RuleBuilder<'_>,
) -> Option<Arc<SessionCookie>> {
    match session_cookie(spec?, || default_name(builder.resolver.route, index, name)) {
        Ok(session) => Some(Arc::new(session)),
        Err(InvalidSession { field, problem }) => {
            let at = format!("spec.rules[{index}].sessionPersistence.{field}");
            builder.report_ignored(&at, &problem, "requests of a session go to any endpoint");
            None
        }
    }
}

fn session_cookie(
    spec: &SessionPersistence,
    own_name: impl Fn() -> String,
) -> Result<SessionCookie, InvalidSession> {
    let carrier = match spec.type_.as_deref() {
        None | Some("Cookie") => SessionCarrier::Cookie,
        Some("Header") => SessionCarrier::Header,
        Some(other) => return Err(invalid("type", format!("\"{other}\" is neither Cookie nor Header"))),
    };
    let named = match carrier {
        SessionCarrier::Cookie => ("cookie.name", spec.cookie.as_ref().and_then(|it| it.name.as_deref())),
        SessionCarrier::Header => ("header.name", spec.header.as_ref().map(|it| &*it.name)),
    };
    let (field, name) = match named {
        (_, None) => ("sessionName", spec.session_name.as_deref()),
        named => named,
    };
    let name = name.map_or_else(own_name, str::to_owned);
    if !is_token(&name) {
        return Err(invalid(field, format!("\"{name}\" is no name of a cookie or header")));
    }
    let lifetime = SessionLifetime {
        absolute: seconds("absoluteTimeout", spec.absolute_timeout.as_deref())?,
        idle: seconds("idleTimeout", spec.idle_timeout.as_deref())?,
    };
    // Cookie settings are ignored for headers.
    let cookie = spec.cookie.as_ref().or(spec.cookie_config.as_ref());
    let cookie = cookie.filter(|_| carrier == SessionCarrier::Cookie);
    Ok(SessionCookie {
        name: name.into(),
        backend: "".into(),
        stickiness: Stickiness::Persistent,
        path: Some(path(cookie)?),
        domain: None,
        expires: None,
        max_age: max_age(cookie, lifetime)?,
        secure: SecureCookie::OverTls,
        // GEP-1619 requires secure defaults.
        same_site: SameSite::Strict,
        on_failure: StickyFailure::Moves,
        begins: SessionStart::Here,
        carrier,
        lifetime,
    })
}

/// A session name unique to the rule (FNV-1a, because clients store it). A rule's name keeps it stable when rules are
/// reordered.
fn default_name(route: &ObjectRef, index: usize, name: Option<&str>) -> String {
    let rule = name.map_or_else(|| index.to_string(), |name| format!("={name}"));
    let text = format!("{}/{}/{rule}", route.kind.name(), route.key);
    let step = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    format!("fairway-session-{:016x}", text.bytes().fold(0xcbf2_9ce4_8422_2325, step))
}

/// Whole seconds, rounded up: a session may last longer than requested, but not shorter.
fn seconds(field: &'static str, text: Option<&str>) -> Result<Option<NonZeroU32>, InvalidSession> {
    let Some(text) = text else { return Ok(None) };
    let time = duration::read(text).ok_or_else(|| invalid(field, format!("\"{text}\" is no duration")))?;
    let seconds = u32::try_from(time.as_millis().div_ceil(1000)).unwrap_or(u32::MAX);
    match NonZeroU32::new(seconds) {
        None => Err(invalid(field, format!("\"{text}\" is no time that a session can last"))),
        seconds => Ok(seconds),
    }
}

/// The lifetime of a permanent cookie, which equals that of its session.
fn max_age(cookie: Option<&CookieConfig>, lifetime: SessionLifetime) -> Result<Option<i64>, InvalidSession> {
    match cookie.and_then(|it| it.lifetime_type.as_deref()) {
        None | Some("Session") => Ok(None),
        Some("Permanent") => match lifetime.absolute {
            None => Err(invalid("absoluteTimeout", "a permanent cookie needs it".to_owned())),
            Some(seconds) => Ok(Some(seconds.get().into())),
        },
        Some(other) => {
            let problem = format!("lifetimeType \"{other}\" is neither Session nor Permanent");
            Err(invalid("cookie", problem))
        }
    }
}

/// Defaults to `/`. Browsers ignore a path without a leading slash (RFC 6265 §5.2.4).
fn path(cookie: Option<&CookieConfig>) -> Result<Arc<str>, InvalidSession> {
    let path = cookie.and_then(|it| it.path.as_deref()).unwrap_or("/");
    let good = |byte: u8| byte.is_ascii_graphic() && byte != b';';
    match path.starts_with('/') && path.bytes().all(good) {
        true => Ok(path.into()),
        false => Err(invalid("cookie.path", format!("\"{path}\" is no path of a cookie"))),
    }
}

fn invalid(field: &'static str, problem: String) -> InvalidSession {
    InvalidSession { field, problem }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn parse_spec(spec: Value) -> Result<SessionCookie, InvalidSession> {
        session_cookie(&serde_json::from_value(spec).expect("a spec"), || "own".to_owned())
    }

    #[test]
    fn both_api_forms_are_equivalent() {
        for (new, old) in [
            (json!({}), json!({"type": "Cookie"})),
            (json!({"cookie": {"name": "cart"}}), json!({"sessionName": "cart"})),
            (
                json!({"type": "Header", "header": {"name": "X-Cart"}}),
                json!({"type": "Header", "sessionName": "X-Cart"}),
            ),
            (
                json!({"absoluteTimeout": "1h", "cookie": {"lifetimeType": "Permanent"}}),
                json!({"absoluteTimeout": "60m", "cookieConfig": {"lifetimeType": "Permanent"}}),
            ),
        ] {
            assert_eq!(parse_spec(new).unwrap(), parse_spec(old).unwrap());
        }
    }

    #[test]
    fn cookies_last_for_a_session_unless_they_are_permanent() {
        let plain = parse_spec(json!({"absoluteTimeout": "90s", "idleTimeout": "1500ms"})).unwrap();
        assert_eq!((&*plain.name, plain.path.as_deref(), plain.max_age), ("own", Some("/"), None));
        assert_eq!(plain.lifetime.absolute.map(NonZeroU32::get), Some(90));
        assert_eq!(plain.lifetime.idle.map(NonZeroU32::get), Some(2), "rounded up");
        let permanent =
            json!({"absoluteTimeout": "90s", "cookie": {"lifetimeType": "Permanent", "path": "/a"}});
        let permanent = parse_spec(permanent).unwrap();
        assert_eq!((permanent.path.as_deref(), permanent.max_age), (Some("/a"), Some(90)));
    }

    #[test]
    fn an_unusable_value_names_its_field() {
        for (spec, field) in [
            (json!({"type": "Query"}), "type"),
            (json!({"cookie": {"name": "a b"}}), "cookie.name"),
            (json!({"type": "Header", "header": {"name": ""}}), "header.name"),
            (json!({"sessionName": "a;b"}), "sessionName"),
            (json!({"absoluteTimeout": "soon"}), "absoluteTimeout"),
            (json!({"idleTimeout": "0s"}), "idleTimeout"),
            (json!({"cookie": {"lifetimeType": "Permanent"}}), "absoluteTimeout"),
            (json!({"cookie": {"lifetimeType": "Eternal"}}), "cookie"),
            (json!({"cookie": {"path": "cart"}}), "cookie.path"),
            (json!({"cookie": {"path": "/; Domain=a.test"}}), "cookie.path"),
        ] {
            assert_eq!(parse_spec(spec.clone()).unwrap_err().field, field, "{spec}");
        }
    }

    #[test]
    fn each_rule_has_a_unique_session_name() {
        use fairway_objects::object::{Kind, ObjectKey};
        let route = |kind, name| ObjectRef::new(kind, ObjectKey::new("shop", name));
        let cart = route(Kind::HttpRoute, "cart");
        let names = [
            default_name(&cart, 0, None),
            default_name(&cart, 1, None),
            default_name(&cart, 0, Some("1")),
            default_name(&route(Kind::HttpRoute, "pay"), 0, None),
            default_name(&route(Kind::GrpcRoute, "cart"), 0, None),
        ];
        assert!(names.iter().enumerate().all(|(at, name)| !names[..at].contains(name)), "{names:?}");
        assert_eq!(default_name(&cart, 0, Some("pay")), default_name(&cart, 7, Some("pay")));
        assert!(is_token(&names[0]));
    }
}
