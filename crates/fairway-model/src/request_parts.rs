//! Named parts of requests, as a Gateway API filter uses them in header values: `{client.address}`,
//! `{header.x-user}`. A text is parsed once, into a [`Template`]; an unknown part is an error.

use std::borrow::Cow;
use std::sync::Arc;

use crate::{GeoField, Template, TemplatePart};

/// Maximum number of parts of a text.
const MAX_PARTS: usize = 16;

/// Parts without an argument.
const PLAIN_PARTS: [(&str, TemplatePart); 16] = [
    ("client.address", TemplatePart::Address),
    ("basic.user", TemplatePart::BasicUser),
    ("request.authority", TemplatePart::HttpHost),
    ("request.escaped-uri", TemplatePart::EscapedRequestUri),
    ("request.host", TemplatePart::Host),
    ("request.id", TemplatePart::RequestId),
    ("request.method", TemplatePart::Method),
    ("request.path", TemplatePart::Path),
    ("request.port", TemplatePart::Port),
    ("request.protocol", TemplatePart::Protocol),
    ("request.query", TemplatePart::Query),
    ("request.query-mark", TemplatePart::QueryMark),
    ("request.scheme", TemplatePart::Scheme),
    ("request.time", TemplatePart::Now),
    ("request.uri", TemplatePart::RequestUri),
    ("tls.sni", TemplatePart::ServerName),
];

/// Makes a part from the name after the dot.
type PartConstructor = fn(&str) -> Option<TemplatePart>;

/// Parts that name a header, cookie, query parameter or GeoIP field.
const NAMED_PARTS: [(&str, PartConstructor); 4] =
    [("header", header_part), ("cookie", cookie_part), ("query", query_part), ("geo", geo_part)];

/// Prefix of the GeoIP variables of ingress-nginx.
const GEO_VARIABLE_PREFIX: &str = "geoip2_";

/// Parses a text with request parts in braces; `{{` and `}}` are literal braces.
///
/// # Errors
/// What is wrong, as the end of a sentence.
pub fn parse_template(text: &str) -> Result<Template, String> {
    let (mut parts, mut plain) = (Vec::new(), String::new());
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        plain.push_str(&rest[..at]);
        let brace = &rest[at..=at];
        rest = &rest[at + 1..];
        if let Some(behind) = rest.strip_prefix(brace) {
            plain.push_str(brace);
            rest = behind;
            continue;
        }
        let closed = rest.split_once('}').filter(|_| brace == "{");
        let (name, behind) = closed.ok_or_else(|| {
            format!("has a single \"{brace}\": a brace that begins no part of the request is written \"{brace}{brace}\"")
        })?;
        push_text(&mut parts, &mut plain);
        parts.push(parse_part(name).ok_or_else(|| format!("has {{{name}}}, which is no part of a request"))?);
        rest = behind;
    }
    plain.push_str(rest);
    push_text(&mut parts, &mut plain);
    if parts.len() > MAX_PARTS {
        return Err(format!("has more than {MAX_PARTS} parts"));
    }
    Ok(Template(parts))
}

/// The text of a template; `None` if a part has no name.
#[must_use]
pub fn text(template: &Template) -> Option<String> {
    let written = |part: &TemplatePart| match part {
        TemplatePart::Text(text) => Some(text.replace('{', "{{").replace('}', "}}")),
        part => Some(format!("{{{}}}", part_name(part)?)),
    };
    template.0.iter().map(written).collect()
}

fn push_text(parts: &mut Vec<TemplatePart>, text: &mut String) {
    if !text.is_empty() {
        parts.push(TemplatePart::Text(Arc::from(std::mem::take(text))));
    }
}

fn parse_part(name: &str) -> Option<TemplatePart> {
    let plain = PLAIN_PARTS.into_iter().find(|(known, _)| *known == name);
    plain.map(|(_, part)| part).or_else(|| {
        let (kind, named) = name.split_once('.')?;
        let (_, part) = NAMED_PARTS.into_iter().find(|(known, _)| *known == kind)?;
        part(named)
    })
}

fn part_name(part: &TemplatePart) -> Option<Cow<'static, str>> {
    let named = |kind: &str, name: &str| Some(Cow::Owned(format!("{kind}.{name}")));
    match part {
        TemplatePart::Header(name) => named("header", &name.replace('_', "-")),
        TemplatePart::Cookie(name) if is_token(name) => named("cookie", name),
        TemplatePart::Argument(name) if is_token(name) => named("query", name),
        TemplatePart::Geo(field) => named("geo", &geo_name(*field)),
        part => {
            let known = PLAIN_PARTS.into_iter().find(|(_, known)| known == part);
            known.map(|(name, _)| Cow::Borrowed(name))
        }
    }
}

/// Header names are stored as nginx variables spell them.
fn header_part(name: &str) -> Option<TemplatePart> {
    is_token(name).then(|| TemplatePart::Header(name.to_ascii_lowercase().replace('-', "_").into()))
}

fn cookie_part(name: &str) -> Option<TemplatePart> {
    is_token(name).then(|| TemplatePart::Cookie(name.into()))
}

fn query_part(name: &str) -> Option<TemplatePart> {
    is_token(name).then(|| TemplatePart::Argument(name.into()))
}

/// `country-code` for `$geoip2_country_code`.
fn geo_part(name: &str) -> Option<TemplatePart> {
    let field = GeoField::ALL.iter().find(|field| geo_name(**field) == name)?;
    Some(TemplatePart::Geo(*field))
}

fn geo_name(field: GeoField) -> String {
    field.name().trim_start_matches(GEO_VARIABLE_PREFIX).replace('_', "-")
}

/// RFC 9110 §5.6.2. Braces are not token characters.
fn is_token(text: &str) -> bool {
    let is_of_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !text.is_empty() && text.bytes().all(is_of_token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_parts_between_text_and_doubled_braces() {
        let read = parse_template("a={client.address};{header.X-User}{{{query.page}}}").unwrap();
        let text = |text: &str| TemplatePart::Text(text.into());
        let parts = [
            text("a="),
            TemplatePart::Address,
            text(";"),
            TemplatePart::Header("x_user".into()),
            text("{"),
            TemplatePart::Argument("page".into()),
            text("}"),
        ];
        assert_eq!(read.0, parts);
        let json = parse_template(r#"{{"group": "a", "max_age": 1}}"#).unwrap();
        assert_eq!(json, Template::text(r#"{"group": "a", "max_age": 1}"#));
        assert_eq!(parse_template("").unwrap(), Template::default());
    }

    #[test]
    fn parts_round_trip() {
        let names = PLAIN_PARTS.iter().map(|(name, _)| (*name).to_owned());
        let named = ["header.x-user", "cookie.Sid", "query.page", "geo.country-code", "geo.asn"];
        let named = named.map(str::to_owned);
        for name in names.chain(named) {
            let written = format!("<{{{name}}}>");
            assert_eq!(text(&parse_template(&written).unwrap()), Some(written));
        }
        assert_eq!(text(&Template::text("{a}")).as_deref(), Some("{{a}}"));
        assert_eq!(text(&Template(vec![TemplatePart::Label(crate::RuleLabel::Service)])), None);
    }

    #[test]
    fn unknown_parts_are_reported() {
        for (wrong, problem) in [
            ("{request.body}", "has {request.body}, which is no part of a request"),
            ("{geo.country_code}", "has {geo.country_code}, which is no part of a request"),
            ("{geo.city-country-code}", "has {geo.city-country-code}, which is no part of a request"),
            ("{header.}", "has {header.}, which is no part of a request"),
            ("{header.a b}", "has {header.a b}, which is no part of a request"),
            ("{}", "has {}, which is no part of a request"),
            ("$remote_addr {client.address", "has a single \"{\""),
            ("a}b", "has a single \"}\""),
        ] {
            let found = parse_template(wrong).unwrap_err();
            assert!(found.starts_with(problem), "{wrong}: {found}");
        }
        assert!(parse_template(&"{request.id}".repeat(17)).unwrap_err().contains("more than 16"));
    }
}
