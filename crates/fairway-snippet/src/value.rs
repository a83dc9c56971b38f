//! Words with variables in them: which parts of a request they stand for. A variable that has no exact counterpart is refused.

use fairway_model::{RuleLabel, Template, TemplatePart};

/// A part of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Text(String),
    /// Without `$` and braces, in lower case: nginx does not tell the cases of names of variables apart.
    Variable(String),
    /// `$1`..`$9`.
    Capture(char),
}

/// Where a variable is evaluated: some have no value yet before a path of the host is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Host,
    Path,
}

/// Takes a word apart (`ngx_http_script_compile`).
pub(crate) fn pieces(word: &str) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut rest = word;
    while let Some((text, after)) = rest.split_once('$') {
        if !text.is_empty() {
            pieces.push(Piece::Text(text.to_owned()));
        }
        if let Some(digit) = after.chars().next().filter(|c| matches!(c, '1'..='9')) {
            pieces.push(Piece::Capture(digit));
            rest = &after[1..];
            continue;
        }
        let (name, behind) = match after.strip_prefix('{') {
            Some(braced) => braced.split_once('}').ok_or("the brace of a variable is not closed")?,
            None => {
                let end = after.find(|c: char| !is_of_name(c)).unwrap_or(after.len());
                after.split_at(end)
            }
        };
        if name.is_empty() || !name.chars().all(is_of_name) {
            return Err("a \"$\" begins no variable".to_owned());
        }
        pieces.push(Piece::Variable(name.to_ascii_lowercase()));
        rest = behind;
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest.to_owned()));
    }
    Ok(pieces)
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The part of a request that a variable of nginx, or one that ingress-nginx sets, stands for.
pub(crate) fn variable(name: &str, stage: Stage) -> Result<TemplatePart, String> {
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
        "content_type" => TemplatePart::Field(name.into()),
        "request_id" => {
            return Err("$request_id is another number than that of the request; use $req_id".to_owned());
        }
        "best_http_host" | "pass_access_scheme" | "pass_port" | "pass_server_port" | "namespace"
        | "ingress_name" | "service_name" | "service_port" | "req_id"
            if stage == Stage::Host =>
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
            (Some(field), ..) if is_believed(field) => {
                return Err(format!(
                    "${name} is what a trusted proxy says, which is read otherwise; use use-forwarded-headers and \
                     force-ssl-redirect"
                ));
            }
            (Some(field), ..) if OF_THE_HOP.contains(&field) => {
                return Err(format!("${name} is of the connection, and left out before rules look"));
            }
            (Some(field), ..) => TemplatePart::Field(field.into()),
            (_, Some(argument), _) => TemplatePart::Argument(argument.into()),
            (.., Some(cookie)) => TemplatePart::Cookie(cookie.into()),
            _ => return Err(unknown(name)),
        },
    })
}

/// Header fields that no rule sees, or not as they were sent.
const OF_THE_HOP: [&str; 13] = [
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

/// How the names of headers begin by which proxies speak for clients: of others they are left out before anything is looked at
/// (docs/design/0016).
const CLAIMS: [&str; 13] = [
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

/// Whether a header is one of these.
fn is_believed(field: &str) -> bool {
    CLAIMS.iter().any(|claim| field.starts_with(claim))
}

/// Whether a variable says how the client reached the proxy: with `use-forwarded-headers` nginx and ingress-nginx give it one value in some
/// places, and another in others.
pub(crate) fn is_of_link(name: &str) -> bool {
    matches!(
        name,
        "scheme" | "server_port" | "best_http_host" | "pass_access_scheme" | "pass_port" | "pass_server_port"
    )
}

fn unknown(name: &str) -> String {
    let of_answers = ["upstream_", "sent_http_", "status", "body_bytes_sent", "bytes_sent", "request_time"];
    if of_answers.iter().any(|start| name.starts_with(start)) {
        return format!("${name} is a part of the response, and only parts of the request work");
    }
    format!("${name} has no counterpart here")
}

/// Adds a part; texts that follow each other are one.
pub(crate) fn push(template: &mut Template, part: TemplatePart) {
    match (template.0.last_mut(), part) {
        (_, TemplatePart::Text(text)) if text.is_empty() => {}
        (Some(TemplatePart::Text(last)), TemplatePart::Text(text)) => *last = format!("{last}{text}").into(),
        (_, part) => template.0.push(part),
    }
}

/// What a value may be made of, so that variables that hold each other several times end.
const MAX_VALUE_BYTES: usize = 8 << 10;
const MAX_VALUE_PARTS: usize = 64;

/// Refuses a value that is too long.
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

/// The text of a template that has no part of a request.
pub(crate) fn fixed(template: &Template) -> Option<&str> {
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
        let text = |text: &str| Piece::Text(text.to_owned());
        let of = |name: &str| Piece::Variable(name.to_owned());
        assert_eq!(
            pieces("a${Host}b$uri/$1c").unwrap(),
            [text("a"), of("host"), text("b"), of("uri"), text("/"), Piece::Capture('1'), text("c")]
        );
        assert_eq!(pieces("").unwrap(), []);
        for wrong in ["$", "a$ b", "${host", "${ho st}", "$$host"] {
            assert!(pieces(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn variables_without_a_value_are_refused_where_they_have_none() {
        assert_eq!(variable("service_name", Stage::Path), Ok(TemplatePart::Label(RuleLabel::Service)));
        assert!(variable("service_name", Stage::Host).is_err());
        for name in ["upstream_addr", "geoip_city", "http_", "request_id", "hostname"] {
            assert!(variable(name, Stage::Path).is_err(), "{name}");
        }
    }
}
