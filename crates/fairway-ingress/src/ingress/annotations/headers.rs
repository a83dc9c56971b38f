//! Request and response headers. `custom-headers` are response headers from a ConfigMap, restricted by
//! `global-allowed-response-headers`; `upstream-vhost` and `x-forwarded-prefix` are sent to the backend.
//!
//! An error in the former closes the paths, as in ingress-nginx: such headers often protect (CSP, frame options).

use std::sync::Arc;

use fairway_model::{HeaderEdit, HeaderField, ResponseEdit, Template, TemplatePart, variables};
use fairway_objects::object::ObjectKey;

use crate::ingress::annotations::family::{Family, KnownAnnotation, differs, supported};
use crate::ingress::annotations::rewrite::has_variable;
use crate::ingress::closed::Closed;
use crate::ingress::context::Context;
use crate::ingress::reader::{Annotations, Reader};

/// The family.
pub(crate) const FAMILY: Family = Family::new(ANNOTATIONS, |reader, context, contributions| {
    if let Some(edit) = custom_headers(reader, context)? {
        contributions.added.add(ResponseEdit::Headers(edit));
    }
    contributions.upstream.host = upstream_host(reader)?;
    // Only used if the path is rewritten.
    contributions.rewrite.prefix = forwarded_prefix(reader);
    Ok(())
})
.with_references(|annotations, referenced| referenced.config_maps.extend(config_map(annotations)));

const ANNOTATIONS: &[KnownAnnotation] = &[
    supported("custom-headers"),
    differs(
        "upstream-vhost",
        "variables: `$namespace`, `$ingress_name`, `$service_name`, `$service_port`, and `$host` or `$http_host` as the whole value; others give 503",
    ),
    supported("x-forwarded-prefix"),
];

/// The ConfigMap that an Ingress references, which may not exist. ingress-nginx ignores a name without a namespace.
fn config_map(annotations: &Annotations<'_>) -> Option<ObjectKey> {
    let (namespace, name) = annotations.value("custom-headers")?.split_once('/')?;
    Some(ObjectKey::new(namespace, name))
}

/// Reads the headers.
fn custom_headers(reader: &mut Reader<'_>, context: &Context<'_>) -> Result<Option<HeaderEdit>, Closed> {
    let name = "custom-headers";
    let Some(value) = reader.value(name).filter(|value| !value.is_empty()) else { return Ok(None) };
    let Some(key) = config_map(&reader.annotations()) else {
        let problem = format!("\"{value}\" has no namespace, without which no ConfigMap is found");
        return Err(Closed::missing(reader, name, problem));
    };
    if key.namespace != reader.key.namespace {
        let problem = format!("ConfigMap {key} is in another namespace");
        return Err(Closed::invalid(reader, name, problem));
    }
    let Some(map) = context.inputs.resources.config_maps.get(&key) else {
        return Err(Closed::missing(reader, name, format!("ConfigMap {key} does not exist")));
    };
    let mut set = Vec::new();
    for (header, value) in map.object.data.iter().flatten() {
        let allowed = &context.defaults.allowed_headers;
        if !is_name(header) || !is_value(value) {
            let problem = format!("ConfigMap {key}: \"{header}\" is no header or its value is none");
            return Err(Closed::invalid(reader, name, problem));
        }
        if !allowed.contains(header) {
            let problem =
                format!("{header} is not in global-allowed-response-headers of the settings ConfigMap");
            return Err(Closed::invalid(reader, name, problem));
        }
        set.push(HeaderField { name: header.as_str().into(), value: value.as_str().into() });
    }
    Ok((!set.is_empty()).then(|| HeaderEdit { set, ..HeaderEdit::default() }))
}

/// Reads `upstream-vhost`: the `Host` for the backend, if it differs from the client's.
fn upstream_host(reader: &mut Reader<'_>) -> Result<Option<Template>, Closed> {
    let name = "upstream-vhost";
    let Some(value) = reader.value(name).filter(|value| !value.is_empty()) else { return Ok(None) };
    let host = variables::header(value)
        .map_err(|variable| Closed::unsupported(reader, name, format!("{variable} does not work")))?;
    if matches!(host.0[..], [TemplatePart::Host | TemplatePart::HttpHost]) {
        return Ok(None);
    }
    let is_known = |part: &TemplatePart| matches!(part, TemplatePart::Text(_) | TemplatePart::Label(_));
    match host.0.iter().all(is_known) {
        true => Ok(Some(host)),
        false => {
            let problem = format!("\"{value}\" has a part of the request besides other text");
            Err(Closed::unsupported(reader, name, problem))
        }
    }
}

/// Reads `x-forwarded-prefix`.
fn forwarded_prefix(reader: &mut Reader<'_>) -> Option<Arc<str>> {
    let (name, consequence) = ("x-forwarded-prefix", "the header is not sent");
    let value = plain_value(reader, name, "-._~/:$", consequence)?;
    if has_variable(&value) {
        let problem = format!("\"{value}\" has a variable other than $1 to $9");
        reader.invalid(name, problem, consequence);
        return None;
    }
    Some(value)
}

/// A value of letters, digits and `others`; `default` describes the behaviour without it, as the end of a sentence.
fn plain_value(reader: &mut Reader<'_>, name: &str, others: &str, default: &str) -> Option<Arc<str>> {
    let value = reader.value(name).filter(|value| !value.is_empty())?;
    if value.chars().all(|c| c.is_ascii_alphanumeric() || others.contains(c)) {
        return Some(value.into());
    }
    let problem = format!("\"{value}\" has something besides letters, digits and {others}");
    reader.invalid(name, problem, default);
    None
}

/// RFC 9110 §5.1: a token.
fn is_name(text: &str) -> bool {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !text.is_empty() && text.bytes().all(token)
}

/// RFC 9110 §5.5: visible characters, spaces and tabs.
fn is_value(text: &str) -> bool {
    text.bytes().all(|b| b == b'\t' || (b >= b' ' && b != 0x7f))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_cannot_contain_line_breaks() {
        assert!(is_name("X-Custom-One") && !is_name("X Custom") && !is_name("") && !is_name("X:"));
        assert!(is_value("two words") && !is_value("a\r\nSet-Cookie: b") && !is_value("\0"));
    }
}
