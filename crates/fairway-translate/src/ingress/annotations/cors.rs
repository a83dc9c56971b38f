//! Cross-origin resource sharing: `enable-cors` and `cors-*` with the defaults of ingress-nginx.

use std::sync::Arc;

use fairway_model::{Cors, CorsManner, CorsOrigin, Filter};

use crate::ingress::annotations::family::{Family, Known, differs, done};
use crate::ingress::contributions::Phase;
use crate::ingress::reader::Reader;

/// The family.
pub(crate) const FAMILY: Family = Family::new(ANNOTATIONS, |reader, _, contributions| {
    if let Some(cors) = cors(reader) {
        contributions.filters.push(Phase::Preflight, Filter::Cors(cors));
    }
    Ok(())
});

const ANNOTATIONS: &[Known] = &[
    done("cors-allow-credentials"),
    done("cors-allow-headers"),
    done("cors-allow-methods"),
    differs("cors-allow-origin", "an invalid origin is not allowed; ingress-nginx would allow every origin"),
    done("cors-expose-headers"),
    done("cors-max-age"),
    done("enable-cors"),
];

const METHODS: &str = "GET, PUT, POST, DELETE, PATCH, OPTIONS";
const HEADERS: &str = "DNT,Keep-Alive,User-Agent,X-Requested-With,If-Modified-Since,Cache-Control,Content-Type,Range,\
                       Authorization";
const MAX_AGE: u32 = 1_728_000;

/// Reads the annotations; `None` where CORS is not switched on.
fn cors(reader: &mut Reader<'_>) -> Option<Cors> {
    if !reader.switch("enable-cors", false) {
        return None;
    }
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    Some(Cors {
        origins: origins(reader),
        methods: names(reader, "cors-allow-methods", METHODS, |c| c.is_ascii_alphabetic()),
        headers: names(reader, "cors-allow-headers", HEADERS, word),
        expose: names(reader, "cors-expose-headers", "", |c| word(c) || c == '*'),
        credentials: reader.switch("cors-allow-credentials", true),
        max_age: reader
            .number("cors-max-age", 0..=u64::from(u32::MAX))
            .map_or(MAX_AGE, |seconds| u32::try_from(seconds).expect("the range says so")),
        manner: CorsManner::IngressNginx,
    })
}

/// The origins, `*` where none is written. A wrong one is left out: ingress-nginx would allow every origin instead.
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
                format!("\"{text}\" is no origin (scheme://host[:port], with *. for one label, null or *)"),
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
    let authority_at = text.find("://").map_or(0, |at| at + 3);
    let (scheme, authority) = text.split_at(authority_at);
    let (star, rest) = match authority.strip_prefix("*.") {
        Some(_) => (true, &authority[1..]),
        None => (false, authority),
    };
    let scheme_name = scheme.trim_end_matches("://");
    let good_scheme =
        scheme_name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
    if !good_scheme || !is_host_and_port(rest.strip_prefix('.').unwrap_or(rest)) {
        return None;
    }
    Some(if star {
        CorsOrigin::OneLabel { before: scheme.into(), after: rest.into() }
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

/// A list of names as it is sent, `default` where it is absent or has another character in a name.
fn names(reader: &mut Reader<'_>, name: &str, default: &str, allowed: impl Fn(char) -> bool) -> Arc<str> {
    let Some(value) = reader.value(name) else { return default.into() };
    let good = |part: &str| !part.is_empty() && part.chars().all(&allowed);
    if value.split(',').map(str::trim).all(good) {
        return value.into();
    }
    let sent = if default.is_empty() { "none is sent".to_owned() } else { format!("\"{default}\" is sent") };
    reader.invalid(name, format!("\"{value}\" is not a list of names"), sent);
    default.into()
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
            origin("*.a.test"),
            Some(CorsOrigin::OneLabel { before: "".into(), after: ".a.test".into() })
        );
        for bad in ["https://", "https://a b", "https://a/b", "https://*a.test", "https://a:x", "ht tp://a"] {
            assert_eq!(origin(bad), None, "{bad}");
        }
    }
}
