//! Text with variables: the request parts that they represent. Variables without an exact equivalent are rejected.

use fairway_model::{RuleLabel, Template, TemplatePart};

/// A part of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WordPart {
    Text(String),
    /// Without `$` and braces, in lower case: nginx variable names are case-insensitive.
    Variable(String),
    /// `$1`..`$9`.
    Capture(char),
}

/// Where a variable is evaluated: some have no value before a path of the host is selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EvaluationStage {
    Host,
    Path,
}

/// Splits a word into parts (`ngx_http_script_compile`).
pub(crate) fn split_word(word: &str) -> Result<Vec<WordPart>, String> {
    let mut chunks = Vec::new();
    let mut rest = word;
    while let Some((text, after)) = rest.split_once('$') {
        if !text.is_empty() {
            chunks.push(WordPart::Text(text.to_owned()));
        }
        if let Some(digit) = after.chars().next().filter(|c| matches!(c, '1'..='9')) {
            chunks.push(WordPart::Capture(digit));
            rest = &after[1..];
            continue;
        }
        let (name, behind) = match after.strip_prefix('{') {
            Some(braced) => braced.split_once('}').ok_or("the brace of a variable is not closed")?,
            None => {
                let end = after.find(|c: char| !is_name_char(c)).unwrap_or(after.len());
                after.split_at(end)
            }
        };
        if name.is_empty() || !name.chars().all(is_name_char) {
            return Err("a \"$\" begins no variable".to_owned());
        }
        chunks.push(WordPart::Variable(name.to_ascii_lowercase()));
        rest = behind;
    }
    if !rest.is_empty() {
        chunks.push(WordPart::Text(rest.to_owned()));
    }
    Ok(chunks)
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The request part that an nginx or ingress-nginx variable represents.
pub(crate) fn request_part(name: &str, stage: EvaluationStage) -> Result<TemplatePart, String> {
    let named = |prefix: &str| name.strip_prefix(prefix).filter(|rest| !rest.is_empty());
    Ok(match name {
        "scheme" => TemplatePart::Scheme,
        "host" => TemplatePart::Host,
        "http_host" => TemplatePart::HttpHost,
        "request_uri" => TemplatePart::RequestUri,
        "request_method" => TemplatePart::Method,
        "remote_addr" => TemplatePart::Address,
        "remote_user" => TemplatePart::BasicUser,
        "uri" | "document_uri" => TemplatePart::Path,
        "args" | "query_string" => TemplatePart::Query,
        "is_args" => TemplatePart::QueryMark,
        "server_protocol" => TemplatePart::Protocol,
        "server_port" => TemplatePart::Port,
        "content_type" => TemplatePart::Header(name.into()),
        "request_id" => {
            return Err("$request_id is another number than that of the request; use $req_id".to_owned());
        }
        "best_http_host" | "pass_access_scheme" | "pass_port" | "pass_server_port" | "namespace"
        | "ingress_name" | "service_name" | "service_port" | "req_id"
            if stage == EvaluationStage::Host =>
        {
            return Err(format!("${name} has no value before a path of the host is chosen"));
        }
        "req_id" => TemplatePart::RequestId,
        "best_http_host" => TemplatePart::HttpHost,
        "pass_access_scheme" => TemplatePart::Scheme,
        "pass_port" | "pass_server_port" => TemplatePart::Port,
        "namespace" => TemplatePart::Label(RuleLabel::Namespace),
        "ingress_name" => TemplatePart::Label(RuleLabel::Ingress),
        "service_name" => TemplatePart::Label(RuleLabel::Service),
        "service_port" => TemplatePart::Label(RuleLabel::ServicePort),
        _ => match (named("http_"), named("arg_"), named("cookie_")) {
            (Some(field), ..) if is_forwarding_header(field) => {
                return Err(format!(
                    "${name} is what a trusted proxy says, which is read otherwise; use use-forwarded-headers and \
                     force-ssl-redirect"
                ));
            }
            (Some(field), ..) if HOP_HEADERS.contains(&field) => {
                return Err(format!("${name} is of the connection, and left out before rules look"));
            }
            (Some(field), ..) => TemplatePart::Header(field.into()),
            (_, Some(argument), _) => TemplatePart::Argument(argument.into()),
            (.., Some(cookie)) => TemplatePart::Cookie(cookie.into()),
            _ => return Err(unknown_variable(name)),
        },
    })
}

/// Headers that rules do not see, or not as sent.
const HOP_HEADERS: [&str; 13] = [
    "connection",
    "expect",
    "http2_settings",
    "keep_alive",
    "max_forwards",
    "proxy",
    "proxy_authenticate",
    "proxy_authorization",
    "proxy_connection",
    "te",
    "trailer",
    "transfer_encoding",
    "upgrade",
];

/// Prefixes of headers with which proxies speak for clients; those of other peers are removed first
/// (docs/design/0016).
const FORWARDING_HEADER_PREFIXES: [&str; 13] = [
    "client_cert",
    "forwarded",
    "ssl_client_",
    "x_auth_request_",
    "x_client_cert",
    "x_client_verify",
    "x_forwarded",
    "x_original_",
    "x_real_",
    "x_rewrite_url",
    "x_scheme",
    "x_sent_from",
    "x_ssl_",
];

/// Whether a header has such a prefix.
fn is_forwarding_header(field: &str) -> bool {
    FORWARDING_HEADER_PREFIXES.iter().any(|claim| field.starts_with(claim))
}

/// Whether a variable depends on how the client reached the proxy: with `use-forwarded-headers`, nginx and
/// ingress-nginx give it different values in different places.
pub(crate) fn is_connection_variable(name: &str) -> bool {
    matches!(
        name,
        "scheme" | "server_port" | "best_http_host" | "pass_access_scheme" | "pass_port" | "pass_server_port"
    )
}

fn unknown_variable(name: &str) -> String {
    let of_answers = ["upstream_", "sent_http_", "status", "body_bytes_sent", "bytes_sent", "request_time"];
    if of_answers.iter().any(|start| name.starts_with(start)) {
        return format!("${name} is a part of the response, and only parts of the request work");
    }
    format!("${name} has no counterpart here")
}

/// Appends a part; consecutive texts are joined.
pub(crate) fn push(template: &mut Template, part: TemplatePart) {
    match (template.0.last_mut(), part) {
        (_, TemplatePart::Text(text)) if text.is_empty() => {}
        (Some(TemplatePart::Text(last)), TemplatePart::Text(text)) => *last = format!("{last}{text}").into(),
        (_, part) => template.0.push(part),
    }
}

/// Size limit of a value, so that nested variables cannot grow without bound.
const MAX_VALUE_BYTES: usize = 8 << 10;
const MAX_VALUE_PARTS: usize = 64;

/// Rejects a value that is too long.
pub(crate) fn check_length(template: &Template) -> Result<(), String> {
    let bytes = |part: &TemplatePart| if let TemplatePart::Text(text) = part { text.len() } else { 0 };
    let length: usize = template.0.iter().map(bytes).sum();
    if length <= MAX_VALUE_BYTES && template.0.len() <= MAX_VALUE_PARTS {
        return Ok(());
    }
    Err(format!(
        "its value has more than {MAX_VALUE_BYTES} bytes or {MAX_VALUE_PARTS} parts; variables hold each other too often"
    ))
}

/// The text of a template without request parts.
pub(crate) fn fixed_text(template: &Template) -> Option<&str> {
    match &*template.0 {
        [] => Some(""),
        [TemplatePart::Text(text)] => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_taken_apart_as_nginx_does() {
        let text = |text: &str| WordPart::Text(text.to_owned());
        let variable = |name: &str| WordPart::Variable(name.to_owned());
        assert_eq!(
            split_word("a${Host}b$uri/$1c").unwrap(),
            [
                text("a"),
                variable("host"),
                text("b"),
                variable("uri"),
                text("/"),
                WordPart::Capture('1'),
                text("c")
            ]
        );
        assert_eq!(split_word("").unwrap(), []);
        for wrong in ["$", "a$ b", "${host", "${ho st}", "$$host"] {
            assert!(split_word(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn variables_without_a_value_are_refused_where_they_have_none() {
        assert_eq!(
            request_part("service_name", EvaluationStage::Path),
            Ok(TemplatePart::Label(RuleLabel::Service))
        );
        assert!(request_part("service_name", EvaluationStage::Host).is_err());
        for name in ["upstream_addr", "geoip_city", "http_", "request_id", "hostname"] {
            assert!(request_part(name, EvaluationStage::Path).is_err(), "{name}");
        }
    }
}
