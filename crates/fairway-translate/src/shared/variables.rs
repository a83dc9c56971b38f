//! Texts with variables of nginx in them, as far as they name a part of the request that Fairway knows. Never guesses: a text
//! with any other variable is none.

use std::sync::Arc;

use fairway_model::{Template, TemplatePart};

/// The variables that work, as messages list them.
pub(crate) const KNOWN: &str = "$scheme, $host, $http_host, $best_http_host, $server_name, $request_uri, \
                                $escaped_request_uri, $request_method and $remote_addr";

/// Those that work besides in a text that is only compared.
pub(crate) const COMPARED: &str = "$remote_user, $http_* and $cookie_*";

/// Reads a text that is only compared, in which any part of a request may stand; else as [`template`].
pub(crate) fn compared(text: &str) -> Result<Template, String> {
    read(text, |name| {
        let named = |prefix| name.strip_prefix(prefix).filter(|rest: &&str| !rest.is_empty());
        let field = || named("http_").map(|name| TemplatePart::Field(name.to_ascii_lowercase().into()));
        let cookie = || named("cookie_").map(|name| TemplatePart::Cookie(name.into()));
        let user = (name == "remote_user").then_some(TemplatePart::BasicUser);
        variable(name).or(user).or_else(field).or_else(cookie)
    })
}

/// Reads a text; the error is the variable that does not work, with its `$`.
pub(crate) fn template(text: &str) -> Result<Template, String> {
    read(text, variable)
}

fn read(text: &str, variable: impl Fn(&str) -> Option<TemplatePart>) -> Result<Template, String> {
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

/// The part of a request that a variable stands for, by its name without `$` and braces.
pub(crate) fn variable(name: &str) -> Option<TemplatePart> {
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

/// `name` or `{name}` and what follows.
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
        let read = template("a${host}b$scheme$request_uri?").unwrap();
        let parts = [
            text("a"),
            TemplatePart::Host,
            text("b"),
            TemplatePart::Scheme,
            TemplatePart::RequestUri,
            text("?"),
        ];
        assert_eq!(read.0, parts);
        assert_eq!(template("").unwrap(), Template::default());
    }

    #[test]
    fn what_is_only_compared_may_have_what_clients_say() {
        let read = compared("$remote_user-$http_Authorization${cookie_Sid}$http_host").unwrap();
        let parts = [
            TemplatePart::BasicUser,
            TemplatePart::Text("-".into()),
            TemplatePart::Field("authorization".into()),
            TemplatePart::Cookie("Sid".into()),
            TemplatePart::HttpHost,
        ];
        assert_eq!(read.0, parts);
        assert_eq!(compared("$arg_x"), Err("$arg_x".to_owned()));
        assert_eq!(compared("$http_"), Err("$http_".to_owned()));
    }

    #[test]
    fn other_variables_are_named() {
        for (wrong, named) in [
            ("/a$cookie_x", "$cookie_x"),
            ("$hostname", "$hostname"),
            ("${host", "$"),
            ("$", "$"),
            ("a$$host", "$"),
            ("$1", "$1"),
        ] {
            assert_eq!(template(wrong), Err(named.to_owned()), "{wrong}");
        }
    }
}
