//! Texts with nginx variables that name parts of a request. A text with any other variable is an error.

use std::sync::Arc;

use crate::{GeoField, RuleLabel, Template, TemplatePart, redact_url};

/// Supported variables, as messages list them.
pub const URL_VARIABLES: &str = "$scheme, $host, $http_host, $best_http_host, $server_name, $request_uri, \
                                $escaped_request_uri, $request_method and $remote_addr";

/// Variables that are also supported in texts that are only compared.
pub const CLIENT_VARIABLES: &str = "$remote_user, $http_* and $cookie_*";

/// Parses a text that is only compared and may contain any part of a request; otherwise as [`parse_template`].
pub fn parse_compared(text: &str) -> Result<Template, String> {
    parse_with(text, |name| lookup(name).or_else(|| client_variable(name)))
}

/// Unverified values from the client.
fn client_variable(name: &str) -> Option<TemplatePart> {
    let named = |prefix| name.strip_prefix(prefix).filter(|rest: &&str| !rest.is_empty());
    let field = || named("http_").map(|name| TemplatePart::Header(name.to_ascii_lowercase().into()));
    let cookie = || named("cookie_").map(|name| TemplatePart::Cookie(name.into()));
    let user = (name == "remote_user").then_some(TemplatePart::BasicUser);
    user.or_else(field).or_else(cookie)
}

/// Variables that are also supported in header values.
fn header_variable(name: &str) -> Option<TemplatePart> {
    if let Some(name) = name.strip_prefix("arg_").filter(|rest| !rest.is_empty()) {
        return Some(TemplatePart::Argument(name.into()));
    }
    Some(match name {
        "uri" | "document_uri" => TemplatePart::Path,
        "args" | "query_string" => TemplatePart::Query,
        "is_args" => TemplatePart::QueryMark,
        "server_protocol" => TemplatePart::Protocol,
        "server_port" | "pass_server_port" | "pass_port" => TemplatePart::Port,
        "req_id" | "request_id" => TemplatePart::RequestId,
        "the_real_ip" => TemplatePart::Address,
        "msec" => TemplatePart::Now,
        "content_type" | "content_length" => TemplatePart::Header(name.into()),
        "namespace" => TemplatePart::Label(RuleLabel::Namespace),
        "ingress_name" => TemplatePart::Label(RuleLabel::Ingress),
        "service_name" => TemplatePart::Label(RuleLabel::Service),
        "service_port" => TemplatePart::Label(RuleLabel::ServicePort),
        _ => return GeoField::named(name).map(TemplatePart::Geo),
    })
}

/// Parses a header value, which may contain more parts than a URL because it decides nothing; otherwise as
/// [`parse_template`].
pub fn header(text: &str) -> Result<Template, String> {
    parse_with(text, |name| {
        let lower = name.to_ascii_lowercase();
        lookup(&lower)
            .or_else(|| client_variable(name))
            .or_else(|| client_variable(&lower))
            .or_else(|| header_variable(&lower))
    })
}

/// Describes a URL with an unsupported variable. A `$` in a password does not start a variable.
pub fn url_problem(url: &str, variable: &str) -> String {
    let is_hidden = url.rsplit_once('@').is_some_and(|(hidden, _)| hidden.contains(variable));
    let variable = if is_hidden { "another variable" } else { variable };
    format!("\"{}\" has {variable}, and only {URL_VARIABLES} work", redact_url(url))
}

/// Parses a text; the error is the unsupported variable, with its `$`.
pub fn parse_template(text: &str) -> Result<Template, String> {
    parse_with(text, lookup)
}

fn parse_with(text: &str, variable: impl Fn(&str) -> Option<TemplatePart>) -> Result<Template, String> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        push_text(&mut parts, before);
        let (name, behind) = split_name(after);
        parts.push(variable(name).ok_or_else(|| format!("${name}"))?);
        rest = behind;
    }
    push_text(&mut parts, rest);
    Ok(Template(parts))
}

/// The request part of a variable, by its name without `$` and braces.
pub fn lookup(name: &str) -> Option<TemplatePart> {
    Some(match name {
        "scheme" | "pass_access_scheme" => TemplatePart::Scheme,
        "host" | "server_name" => TemplatePart::Host,
        "http_host" | "best_http_host" => TemplatePart::HttpHost,
        "request_uri" => TemplatePart::RequestUri,
        "escaped_request_uri" => TemplatePart::EscapedRequestUri,
        "request_method" => TemplatePart::Method,
        "remote_addr" => TemplatePart::Address,
        _ => return None,
    })
}

/// Splits `name` or `{name}` from the rest.
fn split_name(text: &str) -> (&str, &str) {
    if let Some((name, behind)) = text.strip_prefix('{').and_then(|text| text.split_once('}')) {
        return (name, behind);
    }
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(text.len());
    text.split_at(end)
}

fn push_text(parts: &mut Vec<TemplatePart>, text: &str) {
    if !text.is_empty() {
        parts.push(TemplatePart::Text(Arc::from(text)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_may_stand_in_braces_and_next_to_each_other() {
        let text = |text: &str| TemplatePart::Text(text.into());
        let read = parse_template("a${host}b$scheme$request_uri?").unwrap();
        let parts = [
            text("a"),
            TemplatePart::Host,
            text("b"),
            TemplatePart::Scheme,
            TemplatePart::RequestUri,
            text("?"),
        ];
        assert_eq!(read.0, parts);
        assert_eq!(parse_template("").unwrap(), Template::default());
    }

    #[test]
    fn compared_texts_may_contain_client_values() {
        let read = parse_compared("$remote_user-$http_Authorization${cookie_Sid}$http_host").unwrap();
        let parts = [
            TemplatePart::BasicUser,
            TemplatePart::Text("-".into()),
            TemplatePart::Header("authorization".into()),
            TemplatePart::Cookie("Sid".into()),
            TemplatePart::HttpHost,
        ];
        assert_eq!(read.0, parts);
        assert_eq!(parse_compared("$arg_x"), Err("$arg_x".to_owned()));
        assert_eq!(parse_compared("$http_"), Err("$http_".to_owned()));
    }

    #[test]
    fn header_values_may_contain_exchange_data() {
        let read = header("t=${msec};$Req_ID;$arg_Page;$http_x_a;$host;$ingress_name").unwrap();
        let text = |text: &str| TemplatePart::Text(text.into());
        let parts = [
            text("t="),
            TemplatePart::Now,
            text(";"),
            TemplatePart::RequestId,
            text(";"),
            TemplatePart::Argument("page".into()),
            text(";"),
            TemplatePart::Header("x_a".into()),
            text(";"),
            TemplatePart::Host,
            text(";"),
            TemplatePart::Label(RuleLabel::Ingress),
        ];
        assert_eq!(read.0, parts);
        for wrong in ["$geoip_city", "$arg_", "$upstream_addr", "$proxy_add_x_forwarded_for"] {
            assert_eq!(header(wrong), Err(wrong.to_owned()));
            assert_eq!(parse_template("$msec"), Err("$msec".to_owned()), "not in what is asked");
        }
    }

    #[test]
    fn parts_round_trip_as_variables() {
        for name in [
            "scheme",
            "host",
            "http_host",
            "request_uri",
            "escaped_request_uri",
            "request_method",
            "remote_addr",
            "remote_user",
            "http_x_a",
            "cookie_a",
            "uri",
            "args",
            "is_args",
            "arg_a",
            "server_protocol",
            "server_port",
            "req_id",
            "msec",
            "geoip2_country_code",
            "geoip2_asn",
            "namespace",
            "ingress_name",
            "service_name",
            "service_port",
        ] {
            let text = format!("${name}");
            assert_eq!(header(&text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn unknown_variables_are_reported() {
        for (wrong, named) in [
            ("/a$cookie_x", "$cookie_x"),
            ("$hostname", "$hostname"),
            ("${host", "$"),
            ("$", "$"),
            ("a$$host", "$"),
            ("$1", "$1"),
        ] {
            assert_eq!(parse_template(wrong), Err(named.to_owned()), "{wrong}");
        }
    }
}
