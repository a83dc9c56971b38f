//! Cross-origin resource sharing: `enable-cors` and `cors-*` with the defaults of ingress-nginx.

use std::sync::Arc;

use fairway_model::{Cors, CorsMode, CorsOrigin, redact_url};

use crate::ingress::annotations::family::{Family, KnownAnnotation, differs, supported};
use crate::ingress::reader::Reader;

/// The family.
pub(crate) const FAMILY: Family = Family::new(ANNOTATIONS, |reader, _, contributions| {
    if let Some(cors) = cors(reader) {
        contributions.added.add(cors);
    }
    Ok(())
});

const ANNOTATIONS: &[KnownAnnotation] = &[
    supported("cors-allow-credentials"),
    supported("cors-allow-headers"),
    supported("cors-allow-methods"),
    differs("cors-allow-origin", "an invalid origin is not allowed (ingress-nginx: allows all)"),
    supported("cors-expose-headers"),
    supported("cors-max-age"),
    supported("enable-cors"),
];

const DEFAULT_METHODS: &str = "GET, PUT, POST, DELETE, PATCH, OPTIONS";
const DEFAULT_HEADERS: &str = "DNT,Keep-Alive,User-Agent,X-Requested-With,If-Modified-Since,Cache-Control,Content-Type,Range,\
                       Authorization";
const DEFAULT_MAX_AGE: u32 = 1_728_000;

/// Reads the annotations; `None` if CORS is disabled.
fn cors(reader: &mut Reader<'_>) -> Option<Cors> {
    if !reader.switch("enable-cors", false) {
        return None;
    }
    let are_methods = |text: &str| is_name_list(text, |c| c.is_ascii_alphabetic());
    let are_headers = |text: &str| text.chars().all(|c| is_header_char(c) || matches!(c, ',' | ' '));
    let are_exposed = |text: &str| is_name_list(text, |c| is_header_char(c) || c == '*');
    Some(Cors {
        origins: origins(reader),
        methods: names(reader, "cors-allow-methods", DEFAULT_METHODS, are_methods),
        headers: names(reader, "cors-allow-headers", DEFAULT_HEADERS, are_headers),
        expose: names(reader, "cors-expose-headers", "", are_exposed),
        credentials: reader.switch("cors-allow-credentials", true),
        max_age: max_age(reader),
        manner: CorsMode::IngressNginx,
    })
}

/// The origins, or `*` if there are none. An invalid origin is skipped; ingress-nginx would allow every origin
/// instead.
fn origins(reader: &mut Reader<'_>) -> Vec<CorsOrigin> {
    let name = "cors-allow-origin";
    let Some(value) = reader.value(name) else { return vec![CorsOrigin::Any] };
    let mut origins = Vec::new();
    for text in value.split(',').map(str::trim).filter(|text| !text.is_empty()) {
        match origin(text) {
            Some(CorsOrigin::Any) => return vec![CorsOrigin::Any],
            Some(origin) => origins.push(origin),
            None => reader.invalid(
                name,
                format!(
                    "\"{}\" is no origin (scheme://host[:port], with *. for one label, null or *)",
                    redact_url(text)
                ),
                "it is not allowed",
            ),
        }
    }
    origins
}

fn origin(text: &str) -> Option<CorsOrigin> {
    if text == "*" {
        return Some(CorsOrigin::Any);
    }
    if text == "null" {
        return Some(CorsOrigin::Exact(text.into()));
    }
    let (scheme, authority) = text.split_once("://")?;
    let (star, rest) = match authority.strip_prefix("*.") {
        Some(_) => (true, &authority[1..]),
        None => (false, authority),
    };
    let good_scheme = scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
    if scheme.is_empty() || !good_scheme || !is_host_and_port(rest.strip_prefix('.').unwrap_or(rest)) {
        return None;
    }
    Some(if star {
        // Both are compared in lower case.
        let before = format!("{}://", scheme.to_ascii_lowercase());
        CorsOrigin::OneLabel { before: before.into(), after: rest.to_ascii_lowercase().into() }
    } else {
        CorsOrigin::Exact(text.into())
    })
}

fn is_host_and_port(text: &str) -> bool {
    let (host, port) = text.rsplit_once(':').map_or((text, None), |(host, port)| (host, Some(port)));
    let good_port = port.is_none_or(|port| port.parse::<u16>().is_ok());
    let good_host = host.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_'));
    !host.is_empty() && good_host && good_port
}

/// A list of names as it is sent; `default` if it is absent or invalid.
fn names(reader: &mut Reader<'_>, name: &str, default: &str, is_list: impl Fn(&str) -> bool) -> Arc<str> {
    let Some(value) = reader.value(name) else { return default.into() };
    if !value.is_empty() && is_list(value) {
        return value.into();
    }
    let sent = if default.is_empty() { "none is sent".to_owned() } else { format!("\"{default}\" is sent") };
    reader.invalid(name, format!("\"{value}\" is not a list of names"), sent);
    default.into()
}

fn is_header_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_')
}

/// ingress-nginx: `^([names]+,?\s?)+$`. Names may be followed by a comma, a space, or both.
fn is_name_list(text: &str, is_of_name: impl Fn(char) -> bool) -> bool {
    let mut rest = text;
    while !rest.is_empty() {
        let behind = rest.trim_start_matches(&is_of_name);
        if behind.len() == rest.len() {
            return false;
        }
        let behind = behind.strip_prefix(',').unwrap_or(behind);
        rest = behind.strip_prefix([' ', '\t']).unwrap_or(behind);
    }
    true
}

/// ingress-nginx accepts any integer. Browsers treat negative values as 0 and cache nothing.
fn max_age(reader: &mut Reader<'_>) -> u32 {
    let name = "cors-max-age";
    let Some(value) = reader.value(name) else { return DEFAULT_MAX_AGE };
    let Ok(seconds) = value.parse::<i64>() else {
        reader.invalid(name, format!("\"{value}\" is not a whole number"), "the default is used");
        return DEFAULT_MAX_AGE;
    };
    u32::try_from(seconds.max(0)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_may_have_one_star_label_and_a_port() {
        assert_eq!(origin("*"), Some(CorsOrigin::Any));
        assert_eq!(origin("https://a.test:8443"), Some(CorsOrigin::Exact("https://a.test:8443".into())));
        assert_eq!(
            origin("https://*.a.test:8443"),
            Some(CorsOrigin::OneLabel { before: "https://".into(), after: ".a.test:8443".into() })
        );
        assert_eq!(
            origin("HTTPS://*.A.test"),
            Some(CorsOrigin::OneLabel { before: "https://".into(), after: ".a.test".into() })
        );
        for bad in ["https://", "https://a b", "https://a/b", "https://*a.test", "https://a:x", "ht tp://a"] {
            assert_eq!(origin(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_origin_has_a_scheme() {
        assert_eq!(origin("null"), Some(CorsOrigin::Exact("null".into())));
        for bad in ["a.test", "a.test:8080", "*.a.test", "//a.test", "://a.test"] {
            assert_eq!(origin(bad), None, "{bad}");
        }
    }

    #[test]
    fn names_are_separated_by_a_comma_a_space_or_both() {
        let are_methods = |text: &str| is_name_list(text, |c| c.is_ascii_alphabetic());
        for good in ["GET", "GET, PUT", "GET,PUT,", "GET PUT", "GET, "] {
            assert!(are_methods(good), "{good}");
        }
        for bad in [",GET", "GET,,PUT", "GET,  PUT", "GET ,PUT", "GET;PUT", "GET2", "GET\nPUT"] {
            assert!(!are_methods(bad), "{bad}");
        }
    }
}
