//! Renders templates with values of the request.

use std::io::Write;
use std::time::SystemTime;

use fairway_http::bytes::push_escape;
use fairway_http::{FieldRef, Head, Known, Version};
use fairway_model::{RuleLabel, RuleLabels, Template, TemplatePart};

use super::{basic_user, cookie};
use crate::buffers::Buffers;
use crate::log::argument;
use crate::request::client::Client;
use crate::request::validation::Intake;

/// The sources of template values, in addition to the buffers.
#[derive(Clone, Copy)]
pub(crate) struct Sources<'a> {
    pub(crate) intake: &'a Intake,
    pub(crate) client: &'a Client,
    /// The labels of the rule.
    pub(crate) labels: &'a RuleLabels,
}

/// Renders a template for the request in the buffers.
pub(crate) fn render(template: &Template, sources: Sources<'_>, buffers: &Buffers) -> Vec<u8> {
    let mut text = Vec::new();
    render_into(template, sources, buffers, &mut text);
    text
}

/// Appends the rendered template to `text`.
pub(super) fn render_into(template: &Template, sources: Sources<'_>, buffers: &Buffers, text: &mut Vec<u8>) {
    template.0.iter().for_each(|part| write_part(part, sources, buffers, text));
}

/// A text that is equal only if every part of the template is: parts cannot run into each other. `None` if the template
/// contains headers or cookies and the request has none of them, because all such requests would share one text.
pub(crate) fn cache_key(template: &Template, sources: Sources<'_>, buffers: &Buffers) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let (mut compares_fields, mut has_field) = (false, false);
    for part in &template.0 {
        let start = text.len();
        write_part(part, sources, buffers, &mut text);
        if matches!(part, TemplatePart::BasicUser | TemplatePart::Header(_) | TemplatePart::Cookie(_)) {
            compares_fields = true;
            has_field |= text.len() > start;
        }
        // Header values contain no line feed (RFC 9110 §5.5), and a user name stands for its whole header.
        text.push(b'\n');
    }
    (has_field || !compares_fields).then_some(text)
}

fn write_part(part: &TemplatePart, sources: Sources<'_>, buffers: &Buffers, text: &mut Vec<u8>) {
    let Sources { intake, client, labels } = sources;
    match part {
        TemplatePart::Text(part) => text.extend_from_slice(part.as_bytes()),
        TemplatePart::Scheme => text.extend_from_slice(client.scheme.as_str().as_bytes()),
        TemplatePart::Host => text.extend_from_slice(buffers.host.as_bytes()),
        TemplatePart::HttpHost => text.extend_from_slice(received_host(buffers)),
        TemplatePart::RequestUri => text.extend_from_slice(intake.received(buffers)),
        TemplatePart::EscapedRequestUri => escape(intake.received(buffers), text),
        TemplatePart::Method => text.extend_from_slice(buffers.request.method_bytes()),
        TemplatePart::Address => client.write_address(text),
        TemplatePart::Path => text.extend_from_slice(intake.decoded_path(buffers)),
        TemplatePart::Query => text.extend_from_slice(intake.query(buffers)),
        TemplatePart::QueryMark if intake.query(buffers).is_empty() => {}
        TemplatePart::QueryMark => text.push(b'?'),
        TemplatePart::Argument(name) => {
            text.extend_from_slice(argument(intake.query(buffers), name).unwrap_or_default());
        }
        TemplatePart::Protocol => text.extend_from_slice(match intake.version {
            Version::Http10 => b"HTTP/1.0",
            Version::Http11 => b"HTTP/1.1",
            Version::Http2 => b"HTTP/2.0",
            Version::Http3 => b"HTTP/3.0",
        }),
        TemplatePart::Port => write_display(text, client.port),
        TemplatePart::ServerName => text.extend_from_slice(&buffers.extras.read().server_name),
        TemplatePart::Now => {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            write_display(text, format_args!("{}.{:03}", now.as_secs(), now.subsec_millis()));
        }
        TemplatePart::Geo(field) => {
            let location = buffers.extras.read().location.as_deref();
            text.extend_from_slice(location.and_then(|it| it.value(*field)).unwrap_or_default());
        }
        TemplatePart::Label(label) => {
            let label = match label {
                RuleLabel::Namespace => &labels.namespace,
                RuleLabel::Ingress => &labels.ingress,
                RuleLabel::Service => &labels.service,
                RuleLabel::ServicePort => &labels.service_port,
            };
            text.extend_from_slice(label.as_bytes());
        }
        TemplatePart::RequestId
        | TemplatePart::BasicUser
        | TemplatePart::Header(_)
        | TemplatePart::Cookie(_) => write_field(part, buffers, text),
    }
}

/// Writes the value of a request header, even if `Connection` lists it: a client must not bypass a condition that way.
fn write_field(part: &TemplatePart, buffers: &Buffers, text: &mut Vec<u8>) {
    let request = &buffers.request;
    match part {
        TemplatePart::RequestId => {
            text.extend_from_slice(request.first(Known::XRequestId).unwrap_or_default());
        }
        TemplatePart::BasicUser => {
            let user = received(request, b"Authorization").next().and_then(basic_user::find);
            text.extend_from_slice(&user.unwrap_or_default());
        }
        TemplatePart::Header(name) => {
            let named = |field: &FieldRef<'_>| is_variable(field.name, name.as_bytes());
            // nginx joins `Cookie` lines as HTTP/2 does (RFC 9113 §8.2.3).
            let between: &[u8] = if **name == *"cookie" { b"; " } else { b", " };
            for (number, field) in request.received_fields().filter(named).enumerate() {
                text.extend_from_slice(if number > 0 { between } else { b"" });
                text.extend_from_slice(field.value);
            }
        }
        TemplatePart::Cookie(name) => {
            let cookie = cookie::find(received(request, b"Cookie"), name.as_bytes());
            text.extend_from_slice(cookie.unwrap_or_default());
        }
        _ => {}
    }
}

fn received<'r>(request: &'r Head, name: &'static [u8]) -> impl Iterator<Item = &'r [u8]> {
    request.received_fields().filter(|field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value)
}

/// `Host` as the client sent it, before any step changed it.
fn received_host(buffers: &Buffers) -> &[u8] {
    let original_host = &buffers.extras.read().host;
    if original_host.is_empty() {
        buffers.request.first(Known::Host).unwrap_or_default()
    } else {
        original_host
    }
}

fn write_display(text: &mut Vec<u8>, value: impl std::fmt::Display) {
    write!(text, "{value}").expect("a vector takes every write");
}

/// Whether a variable with this name stands for a header.
fn is_variable(field: &[u8], name: &[u8]) -> bool {
    let canonical = |byte: &u8| if *byte == b'-' { b'_' } else { byte.to_ascii_lowercase() };
    field.len() == name.len() && field.iter().map(canonical).eq(name.iter().copied())
}

/// Percent-encodes all but the unreserved characters (RFC 3986 §2.3).
fn escape(text: &[u8], into: &mut Vec<u8>) {
    for &byte in text {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            into.push(byte);
        } else {
            push_escape(byte, into);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_escaped_as_recorded() {
        let mut escaped = Vec::new();
        escape(b"/a?b=1&c=d%20e-._~\xff", &mut escaped);
        assert_eq!(escaped, b"%2Fa%3Fb%3D1%26c%3Dd%2520e-._~%FF");
    }

    /// The results of nginx 1.30.6, except for pairs after a comma ([`cookie::find`]).
    #[test]
    fn a_cookie_is_read_as_in_nginx() {
        let cases: [(&[&str], &str); 35] = [
            (&["ADMIN=1"], "1"),
            (&["x=2;admin=1"], "1"),
            (&["admin=\"1\""], "\"1\""),
            (&["a admin=1"], ""),
            (&["a, admin=1"], ""),
            (&["admin =1"], "1"),
            (&["admin= 1"], "1"),
            (&["admin  =  1 ;x"], "1 "),
            (&["admin\t=1"], ""),
            (&["admin=\t1"], "\t1"),
            (&["x;\tadmin=1"], ""),
            (&["xadmin=1; admin=2"], "2"),
            (&["adminx=1; admin=2"], "2"),
            (&["admin x;admin=2"], "2"),
            (&["admin"], ""),
            (&["admin="], ""),
            (&["admin=; admin=7"], ""),
            (&["admin=1;"], "1"),
            (&["admin=a=b"], "a=b"),
            (&["admin=1,2; x=3"], "1,2"),
            (&["x=admin=1"], ""),
            (&["x=a,admin=1"], ""),
            (&["x=\"a;admin=1\""], "1\""),
            (&[",,;; admin=1"], "1"),
            (&["adminadmin=1"], ""),
            // The byte after the name is skipped with it, even if it ends the pair.
            (&["admin;admin=2"], ""),
            (&["admin,admin=3"], ""),
            (&["admin;;admin=3"], "3"),
            (&["x=1", "admin=2"], "2"),
            (&["admin", "admin=3"], "3"),
            (&["x=1;admi", "admin=9"], "9"),
            (&["admin=4", "admin=5"], "4"),
            (&["", "admin=6"], "6"),
            (&[""], ""),
            (&[], ""),
        ];
        for (lines, value) in cases {
            let mut buffers = Buffers::default();
            buffers.request.start_request(b"GET", b"/");
            lines.iter().for_each(|line| buffers.request.append(b"Cookie", line.as_bytes()));
            let mut text = Vec::new();
            write_field(&TemplatePart::Cookie("Admin".into()), &buffers, &mut text);
            assert_eq!(String::from_utf8_lossy(&text), value, "{lines:?}");
        }
    }
}
