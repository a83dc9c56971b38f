//! Parts of requests by their names, as a filter of Gateway API writes them in the values of headers: `{client.address}`,
//! `{header.x-user}`. A text is read once, into a [`Template`]; what is no such part makes it none.

use std::borrow::Cow;
use std::sync::Arc;

use crate::{GeoField, Template, TemplatePart};

/// The most parts that a text may have.
const MAX_PARTS: usize = 16;

/// The parts without a name of their own.
const PLAIN: [(&str, TemplatePart); 16] = [
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

/// Makes a part of the name behind its dot.
type Make = fn(&str) -> Option<TemplatePart>;

/// The others, which name a header, a cookie, a parameter of the query, or what a GeoIP database says of the client's address.
const NAMED: [(&str, Make); 4] = [("header", header), ("cookie", cookie), ("query", argument), ("geo", geo)];

/// What the variables of ingress-nginx for GeoIP begin with.
const GEO_VARIABLE: &str = "geoip2_";

/// Reads a text in which parts of a request stand in braces; `{{` and `}}` are braces.
///
/// # Errors
/// With what is wrong, as the end of a sentence.
pub fn template(text: &str) -> Result<Template, String> {
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
        parts.push(part(name).ok_or_else(|| format!("has {{{name}}}, which is no part of a request"))?);
        rest = behind;
    }
    plain.push_str(rest);
    push_text(&mut parts, &mut plain);
    if parts.len() > MAX_PARTS {
        return Err(format!("has more than {MAX_PARTS} parts"));
    }
    Ok(Template(parts))
}

/// The text that is read as this template; `None` where a part of it has no name.
#[must_use]
pub fn text(template: &Template) -> Option<String> {
    let written = |part: &TemplatePart| match part {
        TemplatePart::Text(text) => Some(text.replace('{', "{{").replace('}', "}}")),
        part => Some(format!("{{{}}}", name(part)?)),
    };
    template.0.iter().map(written).collect()
}

fn push_text(parts: &mut Vec<TemplatePart>, text: &mut String) {
    if !text.is_empty() {
        parts.push(TemplatePart::Text(Arc::from(std::mem::take(text))));
    }
}

fn part(name: &str) -> Option<TemplatePart> {
    let plain = PLAIN.into_iter().find(|(known, _)| *known == name);
    plain.map(|(_, part)| part).or_else(|| {
        let (kind, named) = name.split_once('.')?;
        let (_, part) = NAMED.into_iter().find(|(known, _)| *known == kind)?;
        part(named)
    })
}

fn name(part: &TemplatePart) -> Option<Cow<'static, str>> {
    let named = |kind: &str, name: &str| Some(Cow::Owned(format!("{kind}.{name}")));
    match part {
        TemplatePart::Field(name) => named("header", &name.replace('_', "-")),
        TemplatePart::Cookie(name) if is_token(name) => named("cookie", name),
        TemplatePart::Argument(name) if is_token(name) => named("query", name),
        TemplatePart::Geo(field) => named("geo", &geo_name(*field)),
        part => {
            let known = PLAIN.into_iter().find(|(_, known)| known == part);
            known.map(|(name, _)| Cow::Borrowed(name))
        }
    }
}

/// By its name as variables of nginx write it.
fn header(name: &str) -> Option<TemplatePart> {
    is_token(name).then(|| TemplatePart::Field(name.to_ascii_lowercase().replace('-', "_").into()))
}

fn cookie(name: &str) -> Option<TemplatePart> {
    is_token(name).then(|| TemplatePart::Cookie(name.into()))
}

fn argument(name: &str) -> Option<TemplatePart> {
    is_token(name).then(|| TemplatePart::Argument(name.into()))
}

/// `country-code` for `$geoip2_country_code`.
fn geo(name: &str) -> Option<TemplatePart> {
    let field = GeoField::ALL.iter().find(|field| geo_name(**field) == name)?;
    Some(TemplatePart::Geo(*field))
}

fn geo_name(field: GeoField) -> String {
    field.name().trim_start_matches(GEO_VARIABLE).replace('_', "-")
}

/// RFC 9110 §5.6.2, without the braces that no token has.
fn is_token(text: &str) -> bool {
    let is_of_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !text.is_empty() && text.bytes().all(is_of_token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stand_among_text_and_braces_are_written_twice() {
        let read = template("a={client.address};{header.X-User}{{{query.page}}}").unwrap();
        let text = |text: &str| TemplatePart::Text(text.into());
        let parts = [
            text("a="),
            TemplatePart::Address,
            text(";"),
            TemplatePart::Field("x_user".into()),
            text("{"),
            TemplatePart::Argument("page".into()),
            text("}"),
        ];
        assert_eq!(read.0, parts);
        let json = template(r#"{{"group": "a", "max_age": 1}}"#).unwrap();
        assert_eq!(json, Template::text(r#"{"group": "a", "max_age": 1}"#));
        assert_eq!(template("").unwrap(), Template::default());
    }

    #[test]
    fn every_part_is_written_as_it_is_read() {
        let names = PLAIN.iter().map(|(name, _)| (*name).to_owned());
        let named = ["header.x-user", "cookie.Sid", "query.page", "geo.country-code", "geo.asn"];
        let named = named.map(str::to_owned);
        for name in names.chain(named) {
            let written = format!("<{{{name}}}>");
            assert_eq!(text(&template(&written).unwrap()), Some(written));
        }
        assert_eq!(text(&Template::text("{a}")).as_deref(), Some("{{a}}"));
        assert_eq!(text(&Template(vec![TemplatePart::Label(crate::RuleLabel::Service)])), None);
    }

    #[test]
    fn what_is_no_part_is_named() {
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
            let found = template(wrong).unwrap_err();
            assert!(found.starts_with(problem), "{wrong}: {found}");
        }
        assert!(template(&"{request.id}".repeat(17)).unwrap_err().contains("more than 16"));
    }
}
