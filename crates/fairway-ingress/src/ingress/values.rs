//! Values that default to the settings ConfigMap's key of the annotation's name, and their parsers.

use std::collections::BTreeMap;
use std::sync::Arc;

use fairway_model::{CipherList, CipherSuite, Http1Version, Replacement};
use fairway_objects::annotations::text;

use crate::ingress::reader::Reader;

/// Valid keys of the ConfigMap by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Values(BTreeMap<&'static str, Arc<str>>);

/// A key that is also an annotation.
struct KnownKey {
    name: &'static str,
    /// The required value.
    description: &'static str,
    is_good: fn(&str) -> bool,
}

const PAIR_OF_DOMAINS: &str = "two domains, or off";
const PAIR_OF_PATHS: &str = "two paths, or off";
const URL: &str = "the beginning of a URL without variables, or off";

const CIPHERS: &str = "a list that leaves a cipher suite of TLS 1.2 that is spoken";
const FAILURES: &str = "off, or a list of error, timeout, invalid_header, non_idempotent and http_ with 403, 404, 429, 500, \
                        502, 503 or 504";
const ON_OR_OFF: &str = "on or off";
const NUMBER: &str = "a whole number";
const RISK: &str = "Critical, High, Medium or Low";
const SIZE: &str = "a size such as 8, 8k or 8m";

const KNOWN_KEYS: &[KnownKey] = &[
    KnownKey { name: "annotations-risk-level", description: RISK, is_good: |it| is_risk(it) },
    KnownKey {
        name: "client-body-buffer-size",
        description: SIZE,
        is_good: |it| text::parse_size(it).is_some(),
    },
    KnownKey { name: "limit-rate", description: NUMBER, is_good: |it| kibibytes(it).is_some() },
    KnownKey { name: "limit-rate-after", description: NUMBER, is_good: |it| kibibytes(it).is_some() },
    KnownKey { name: "proxy-buffer-size", description: SIZE, is_good: |it| text::parse_size(it).is_some() },
    KnownKey { name: "proxy-buffering", description: ON_OR_OFF, is_good: |it| is_on(it).is_some() },
    KnownKey { name: "proxy-buffers-number", description: NUMBER, is_good: |it| count(it).is_some() },
    KnownKey {
        name: "proxy-cookie-domain",
        description: PAIR_OF_DOMAINS,
        is_good: |it| domains(it).is_some(),
    },
    KnownKey { name: "proxy-cookie-path", description: PAIR_OF_PATHS, is_good: |it| paths(it).is_some() },
    KnownKey {
        name: "proxy-http-version",
        description: "1.0 or 1.1",
        is_good: |it| http_version(it).is_some(),
    },
    KnownKey {
        name: "proxy-max-temp-file-size",
        description: SIZE,
        is_good: |it| text::parse_size(it).is_some(),
    },
    KnownKey { name: "proxy-next-upstream", description: FAILURES, is_good: |it| failures(it).is_some() },
    KnownKey { name: "proxy-next-upstream-timeout", description: NUMBER, is_good: |it| count(it).is_some() },
    KnownKey { name: "proxy-next-upstream-tries", description: NUMBER, is_good: |it| count(it).is_some() },
    KnownKey { name: "proxy-redirect-from", description: URL, is_good: |it| url(it).is_some() },
    KnownKey { name: "proxy-redirect-to", description: URL, is_good: |it| url(it).is_some() },
    KnownKey { name: "proxy-request-buffering", description: ON_OR_OFF, is_good: |it| is_on(it).is_some() },
    KnownKey { name: "ssl-ciphers", description: CIPHERS, is_good: |it| ciphers(it).is_some() },
    KnownKey {
        name: "service-upstream",
        description: "true or false",
        is_good: |it| text::parse_bool(it).is_some(),
    },
];

impl Values {
    /// Reads a key of the ConfigMap; `None` for any other. The error is the required value.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Option<Result<(), &'static str>> {
        let known = KNOWN_KEYS.iter().find(|known| known.name == name)?;
        if !(known.is_good)(value) {
            return Some(Err(known.description));
        }
        self.0.insert(known.name, value.into());
        Some(Ok(()))
    }

    /// The parsed value of a key.
    pub(crate) fn get<T>(&self, name: &str, parse: fn(&str) -> Option<T>) -> Option<T> {
        self.0.get(name).and_then(|value| parse(value))
    }
}

/// The value of an annotation, or of the key of the same name if it is absent or invalid.
pub(crate) fn value<T>(
    reader: &mut Reader<'_>,
    defaults: &Values,
    name: &str,
    parse: fn(&str) -> Option<T>,
) -> Option<T> {
    let default = || defaults.get(name, parse);
    let Some(value) = reader.value(name).filter(|value| !value.is_empty()) else { return default() };
    parse(value).or_else(|| {
        let expectation =
            KNOWN_KEYS.iter().find(|known| known.name == name).map_or("a value", |known| known.description);
        reader.invalid(name, format!("\"{value}\" is not {expectation}"), "the default is used");
        default()
    })
}

/// Two domains, without leading dots; `None` for `off`.
pub(crate) fn domains(text: &str) -> Option<Option<Replacement>> {
    let replacement = pair(text, |domain| {
        let bare = domain.strip_prefix('.').unwrap_or(domain);
        let good = |c: char| c.is_ascii_alphanumeric() || "-._/:".contains(c);
        (!bare.is_empty() && bare.chars().all(good)).then_some(bare)
    });
    replacement.map(Some).or_else(|| is_off(text))
}

/// Two paths; `None` for `off`.
pub(crate) fn paths(text: &str) -> Option<Option<Replacement>> {
    let replacement = pair(text, |path| (!path.is_empty() && is_plain(path)).then_some(path));
    replacement.map(Some).or_else(|| is_off(text))
}

/// A URL prefix; `None` for `off`.
pub(crate) fn url(text: &str) -> Option<Option<Arc<str>>> {
    match text {
        "off" => Some(None),
        _ => (!text.is_empty() && is_plain(text)).then(|| Some(text.into())),
    }
}

/// An integer in KiB, in bytes.
pub(crate) fn kibibytes(text: &str) -> Option<u64> {
    text.parse::<u32>().ok().map(|number| u64::from(number) << 10)
}

/// A whole number.
pub(crate) fn count(text: &str) -> Option<u32> {
    text.parse().ok()
}

/// `on` or `off`; the F5 controller has `true` and `false`.
pub(crate) fn is_on(text: &str) -> Option<bool> {
    match text {
        "on" => Some(true),
        "off" => Some(false),
        _ => text::parse_bool(text),
    }
}

/// A cipher list in OpenSSL syntax that selects at least one supported suite.
pub(crate) fn ciphers(text: &str) -> Option<Vec<CipherSuite>> {
    let suites = CipherList::read(text).suites;
    (!suites.is_empty()).then_some(suites)
}

/// Failures that are retried on another endpoint, besides failures to connect or to respond.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failures {
    /// Not even those.
    None,
    /// Responses with these statuses.
    Statuses(Vec<u16>),
}

/// The failures of nginx's `proxy_next_upstream`.
pub(crate) fn failures(text: &str) -> Option<Failures> {
    let mut statuses = Vec::new();
    let mut none = false;
    for word in text.split_ascii_whitespace() {
        match word {
            "off" => none = true,
            "error" | "timeout" | "invalid_header" | "non_idempotent" => {}
            _ => match word.strip_prefix("http_").and_then(|status| status.parse().ok()) {
                Some(status @ (403 | 404 | 429 | 500 | 502 | 503 | 504)) => statuses.push(status),
                _ => return None,
            },
        }
    }
    Some(if none { Failures::None } else { Failures::Statuses(statuses) })
}

/// A version of HTTP/1.
pub(crate) fn http_version(text: &str) -> Option<Http1Version> {
    match text {
        "1.0" => Some(Http1Version::Http10),
        "1.1" => Some(Http1Version::Http11),
        _ => None,
    }
}

/// ingress-nginx treats any other text as `Low`.
fn is_risk(text: &str) -> bool {
    ["critical", "high", "medium", "low"].iter().any(|level| level.eq_ignore_ascii_case(text))
}

fn is_off<T>(text: &str) -> Option<Option<T>> {
    (text == "off").then_some(None)
}

fn pair(text: &str, part: impl Fn(&str) -> Option<&str>) -> Option<Replacement> {
    let mut words = text.split_ascii_whitespace();
    let (from, to) = (part(words.next()?)?, part(words.next()?)?);
    words.next().is_none().then(|| Replacement { from: from.into(), to: to.into() })
}

/// Text that nginx would not treat as a regular expression or variable, and that does not end a header or attribute.
fn is_plain(text: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || "-._~/:,?&=".contains(c);
    !text.starts_with('~') && text.chars().all(good)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from_and_to(replacement: Option<Option<Replacement>>) -> Option<(Arc<str>, Arc<str>)> {
        replacement.flatten().map(|it| (it.from, it.to))
    }

    #[test]
    fn pairs_are_read_as_nginx_reads_them() {
        assert_eq!(from_and_to(domains(".a.test  b.test")), Some(("a.test".into(), "b.test".into())));
        assert_eq!(from_and_to(paths("/ /app/")), Some(("/".into(), "/app/".into())));
        assert_eq!((domains("off"), paths("off"), url("off")), (Some(None), Some(None), Some(None)));
        for bad in ["", "a.test", "a b c", "~a b", "$host b", "a;x b"] {
            assert_eq!((domains(bad), paths(bad)), (None, None), "{bad}");
        }
        for bad in ["", "~^/x", "http://$host/", "a b"] {
            assert_eq!(url(bad), None, "{bad}");
        }
    }
}
