//! Texts with parts of the request in them.

use std::io::Write;

use fairway_guards::Claim;
use fairway_message::{FieldRef, Known};
use fairway_model::{Template, TemplatePart};

use crate::buffers::Buffers;
use crate::request::client::Client;
use crate::request::intake::Intake;
use fairway_session::cookie_of;

/// The text of a template for the request in the buffers.
pub(super) fn text(template: &Template, of: (&Intake, &Client), buffers: &Buffers) -> Vec<u8> {
    let mut text = Vec::new();
    template.0.iter().for_each(|part| write_part(part, of, buffers, &mut text));
    text
}

/// A text that is equal only where each part of the template is: no value of a part ends where another begins.
pub(super) fn compared(template: &Template, of: (&Intake, &Client), buffers: &Buffers) -> Vec<u8> {
    let mut text = Vec::new();
    for part in &template.0 {
        write_part(part, of, buffers, &mut text);
        // No value of a field has one (RFC 9110 §5.5), and the name of a user stands for the whole of its field.
        text.push(b'\n');
    }
    text
}

fn write_part(
    part: &TemplatePart,
    (intake, client): (&Intake, &Client),
    buffers: &Buffers,
    text: &mut Vec<u8>,
) {
    match part {
        TemplatePart::Text(part) => text.extend_from_slice(part.as_bytes()),
        TemplatePart::Scheme => text.extend_from_slice(client.scheme.as_str().as_bytes()),
        TemplatePart::Host => text.extend_from_slice(buffers.host.as_bytes()),
        TemplatePart::HttpHost => {
            text.extend_from_slice(buffers.request.first(Known::Host).unwrap_or_default());
        }
        TemplatePart::RequestUri => text.extend_from_slice(intake.received(buffers)),
        TemplatePart::EscapedRequestUri => escape(intake.received(buffers), text),
        TemplatePart::Method => text.extend_from_slice(buffers.request.method_bytes()),
        TemplatePart::Address => {
            write!(text, "{}", client.address).expect("a vector takes every write");
        }
        TemplatePart::BasicUser => {
            let claim = buffers.request.named(b"Authorization").and_then(Claim::read);
            text.extend_from_slice(claim.as_ref().map(Claim::user).unwrap_or_default().as_bytes());
        }
        TemplatePart::Field(name) => {
            let named = |field: &FieldRef<'_>| is_variable(field.name, name.as_bytes());
            for (number, field) in buffers.request.fields().filter(named).enumerate() {
                text.extend_from_slice(if number > 0 { b", " } else { b"" });
                text.extend_from_slice(field.value);
            }
        }
        TemplatePart::Cookie(name) => {
            text.extend_from_slice(cookie_of(&buffers.request, name.as_bytes()).unwrap_or_default());
        }
    }
}

/// Whether a variable with this name stands for a field.
fn is_variable(field: &[u8], name: &[u8]) -> bool {
    let canonical = |byte: &u8| if *byte == b'-' { b'_' } else { byte.to_ascii_lowercase() };
    field.len() == name.len() && field.iter().map(canonical).eq(name.iter().copied())
}

/// Percent-encodes all but the unreserved characters (RFC 3986 §2.3).
fn escape(text: &[u8], into: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in text {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            into.push(byte);
        } else {
            into.extend([b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
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
}
