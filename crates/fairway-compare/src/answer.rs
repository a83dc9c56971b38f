//! What a probe saw, cut into parts that are compared one by one. Owns which parts there are and what is never compared.

use std::collections::BTreeMap;
use std::fmt;

use http::response::Parts;
use http::{HeaderMap, header};
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::probe::{Ask, Probe};

/// Fields that belong to one connection or one moment, or repeat how long the body is.
const NOT_COMPARED: [&str; 7] = [
    "connection",
    "content-length",
    "date",
    "keep-alive",
    "proxy-connection",
    "set-cookie",
    "transfer-encoding",
];

/// What stands for the body of an error or a redirect that a controller makes itself. Their texts differ and matter to nobody.
const OWN_PAGE: &str = "a page of the controller itself";

/// How what is said of an answer begins that did not come in time.
pub(crate) const LATE: &str = "no answer within";
/// What is said of a probe that was not sent because others were late.
pub(crate) const NOT_ASKED: &str = "not asked: others on this host were not answered in time";

/// A part of an answer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Whether there was an answer at all.
    Exchange,
    /// The status.
    Status,
    /// The certificate: its digest.
    Certificate,
    /// The names of the certificate.
    CertificateNames,
    /// Whether the certificate is one that clients trust.
    CertificateTrust,
    /// All values of a field.
    Field(String),
    /// The value or an attribute of a cookie that is set.
    Cookie {
        /// The cookie.
        name: String,
        /// The attribute in lower case; empty is the value.
        attribute: String,
    },
    /// The digest of the body.
    Body,
    /// What an echo backend saw: `method`, `path`, `host` or `service`.
    Seen(&'static str),
    /// A field that an echo backend saw.
    SeenField(String),
}

/// The parts of an answer with their values.
pub(crate) type Answer = BTreeMap<Part, String>;

/// The body of an answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Body {
    /// What it is compared by.
    pub(crate) digest: String,
    /// Its beginning.
    pub(crate) start: Vec<u8>,
}

/// The parts of a response.
pub(crate) fn answer(probe: &Probe, head: &Parts, body: &Body) -> Answer {
    let mut parts = Answer::new();
    parts.insert(Part::Exchange, "answered".to_owned());
    parts.insert(Part::Status, head.status.as_u16().to_string());
    for name in head.headers.keys().filter(|name| !NOT_COMPARED.contains(&name.as_str())) {
        parts.insert(Part::Field(name.as_str().to_owned()), values(&head.headers, name.as_str()));
    }
    for cookie in head.headers.get_all(header::SET_COOKIE) {
        cookie_parts(&String::from_utf8_lossy(cookie.as_bytes()), &mut parts);
    }
    let of_type = Part::Field("content-type".to_owned());
    if let Some(seen) = seen(head, body) {
        parts.extend(seen);
    } else if is_own_page(head, body) {
        parts.remove(&of_type);
        parts.insert(Part::Body, OWN_PAGE.to_owned());
    } else if probe.ask != Ask::Head {
        parts.insert(Part::Body, body.digest.clone());
    } else if head.status.as_u16() >= 300 {
        // Whose page it would be, an answer to HEAD does not say.
        parts.remove(&of_type);
    }
    parts
}

/// What stands for an answer that did not come.
pub(crate) fn without(failure: &str) -> Answer {
    Answer::from([(Part::Exchange, failure.to_owned())])
}

fn values(fields: &HeaderMap, name: &str) -> String {
    let all = fields.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
    all.collect::<Vec<_>>().join(" | ")
}

/// RFC 6265 §5.2.
fn cookie_parts(cookie: &str, parts: &mut Answer) {
    let mut pairs = cookie.split(';').map(|pair| pair.trim().split_once('=').unwrap_or((pair.trim(), "")));
    let Some((name, value)) = pairs.next() else { return };
    let mut put = |attribute: String, value: &str| {
        parts.insert(Part::Cookie { name: name.to_owned(), attribute }, value.to_owned());
    };
    put(String::new(), value);
    for (attribute, value) in pairs.filter(|(attribute, _)| !attribute.is_empty()) {
        put(attribute.to_ascii_lowercase(), value);
    }
}

/// The request as `fairway echo`, or the echo server of the Gateway API's suite, saw it.
fn seen(head: &Parts, body: &Body) -> Option<Answer> {
    let of_type = head.headers.get(header::CONTENT_TYPE)?.as_bytes();
    if !of_type.starts_with(b"application/json") {
        return None;
    }
    let echo: Value = serde_json::from_slice(&body.start).ok()?;
    let text = |name: &str| echo.get(name).and_then(Value::as_str).map(str::to_owned);
    let fields = echo.get("headers")?.as_object()?;
    let (path, method, host) = (text("path")?, text("method")?, text("host")?);
    let service = text("service").unwrap_or_default();
    let mut parts = Answer::from([
        (Part::Seen("path"), path),
        (Part::Seen("method"), method),
        (Part::Seen("host"), host),
        (Part::Seen("service"), service),
    ]);
    for (name, value) in fields {
        let name = name.to_ascii_lowercase();
        if NOT_COMPARED.contains(&name.as_str()) {
            continue;
        }
        let value = match value {
            Value::Array(values) => {
                values.iter().map(|it| it.as_str().unwrap_or_default()).collect::<Vec<_>>().join(" | ")
            }
            Value::String(value) => value.clone(),
            other => other.to_string(),
        };
        parts.insert(Part::SeenField(name), value);
    }
    Some(parts)
}

/// nginx and Fairway make short pages that say the status.
fn is_own_page(head: &Parts, body: &Body) -> bool {
    let status = head.status.as_u16();
    if status < 300 || body.start.len() > 1024 {
        return false;
    }
    let text = String::from_utf8_lossy(&body.start);
    let of_nginx = text.starts_with(&format!("<html>\r\n<head><title>{status} "))
        && (text.contains("<center>nginx") || text.contains("<center>openresty"));
    let of_fairway = text.starts_with(&format!("{status} "))
        && text.ends_with('\n')
        && text.lines().count() == 1
        && head
            .headers
            .get(header::CONTENT_TYPE)
            .is_some_and(|it| it.as_bytes() == b"text/plain; charset=utf-8");
    of_nginx || of_fairway
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exchange => f.write_str("answer"),
            Self::Status => f.write_str("status"),
            Self::Certificate => f.write_str("certificate"),
            Self::CertificateNames => f.write_str("names of the certificate"),
            Self::CertificateTrust => f.write_str("trust in the certificate"),
            Self::Field(name) => write!(f, "header {name}"),
            Self::Cookie { name, attribute } if attribute.is_empty() => {
                write!(f, "value of the cookie {name}")
            }
            Self::Cookie { name, attribute } => write!(f, "attribute {attribute} of the cookie {name}"),
            Self::Body => f.write_str("body"),
            Self::Seen(what) => write!(f, "{what} that the backend saw"),
            Self::SeenField(name) => write!(f, "header {name} that the backend saw"),
        }
    }
}

impl Serialize for Part {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::Response;

    use super::*;
    use crate::probe::{Purpose, Scheme};

    fn of(ask: Ask, status: u16, fields: &[(&str, &str)], body: &str) -> Answer {
        let mut response = Response::builder().status(status);
        for (name, value) in fields {
            response = response.header(*name, *value);
        }
        let (head, ()) = response.body(()).unwrap().into_parts();
        let host: Arc<str> = "a.test".into();
        let probe = Probe::request(Scheme::Http, &host, ask, "/", Purpose::Path);
        answer(&probe, &head, &Body { digest: format!("digest of {body}"), start: body.as_bytes().to_vec() })
    }

    fn field(name: &str) -> Part {
        Part::Field(name.to_owned())
    }

    #[test]
    fn pages_of_the_controllers_are_alike_and_others_are_not() {
        let nginx = "<html>\r\n<head><title>404 Not Found</title></head>\r\n<body>\r\n<center><h1>404 Not Found</h1></center>\r\n\
                     <hr><center>nginx</center>\r\n</body>\r\n</html>\r\n";
        let plain = [("content-type", "text/plain; charset=utf-8")];
        let from = of(Ask::Get, 404, &[("content-type", "text/html")], nginx);
        let to = of(Ask::Get, 404, &plain, "404 Not Found\n");
        assert_eq!(from, to);
        assert_eq!(from[&Part::Body], OWN_PAGE);
        assert_ne!(of(Ask::Get, 404, &plain, "404 page not found\nhere"), to);
        assert_ne!(of(Ask::Get, 200, &plain, "200 bottles\n")[&Part::Body], OWN_PAGE);
        assert_eq!(of(Ask::Head, 404, &plain, ""), of(Ask::Head, 404, &[("content-type", "text/html")], ""));
    }

    #[test]
    fn a_cookie_is_its_value_and_its_attributes() {
        let parts = of(Ask::Get, 200, &[("set-cookie", "route=abc|1; Path=/; HttpOnly; SameSite=Lax")], "");
        let of = |attribute: &str| {
            let part = Part::Cookie { name: "route".to_owned(), attribute: attribute.to_owned() };
            parts.get(&part).map(String::as_str)
        };
        assert_eq!(
            [of(""), of("path"), of("httponly"), of("samesite"), of("secure")],
            [Some("abc|1"), Some("/"), Some(""), Some("Lax"), None]
        );
        assert!(!parts.contains_key(&field("set-cookie")));
    }

    #[test]
    fn an_echo_is_what_the_backend_saw_and_not_a_body() {
        let echo = r#"{"path":"/a","host":"a.test","method":"GET","proto":"HTTP/1.1","headers":{"X-Real-Ip":["10.0.0.1"],
                       "Connection":["close"]},"service":"web","pod":"web-1"}"#;
        let parts = of(Ask::Get, 200, &[("content-type", "application/json")], echo);
        assert_eq!(parts[&Part::Seen("service")], "web");
        assert_eq!(parts[&Part::SeenField("x-real-ip".to_owned())], "10.0.0.1");
        assert!(!parts.contains_key(&Part::Body));
        assert!(!parts.contains_key(&Part::SeenField("connection".to_owned())));
        let other = of(Ask::Get, 200, &[("content-type", "application/json")], r#"{"path":"/a"}"#);
        assert!(other.contains_key(&Part::Body));
    }

    #[test]
    fn fields_of_the_moment_are_not_compared_and_several_values_are_one() {
        let parts =
            of(Ask::Get, 200, &[("date", "now"), ("vary", "a"), ("vary", "b"), ("content-length", "0")], "");
        assert_eq!(parts[&field("vary")], "a | b");
        assert!(!parts.contains_key(&field("date")) && !parts.contains_key(&field("content-length")));
    }
}
