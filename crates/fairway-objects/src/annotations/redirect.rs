//! `redirect`: redirects every request, to another URL or to its own URL with parts replaced.

use fairway_model::{PathRewrite, Redirect, RedirectTarget};
use serde::Deserialize;

use crate::annotations::value::parse_object;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct RedirectAnnotation {
    #[serde(default = "found")]
    status: u16,
    url: Option<String>,
    scheme: Option<Scheme>,
    host: Option<String>,
    port: Option<u16>,
    path: Option<String>,
    keep_query: Option<bool>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Scheme {
    Http,
    Https,
}

fn found() -> u16 {
    302
}

/// Parses the annotation.
///
/// # Errors
/// What is wrong with it.
pub fn redirect(value: &str) -> Result<Redirect, String> {
    let annotation: RedirectAnnotation = parse_object(value)?;
    let status = annotation.status;
    if ![301, 302, 303, 307, 308].contains(&status) {
        return Err(format!("status {status} is no redirect; 301, 302, 303, 307 and 308 are"));
    }
    let target = match &annotation.url {
        Some(url) => full_url_target(url, &annotation)?,
        None => parts_target(annotation)?,
    };
    Ok(Redirect { status, target })
}

fn full_url_target(url: &str, annotation: &RedirectAnnotation) -> Result<RedirectTarget, String> {
    let RedirectAnnotation { scheme, host, port, path, keep_query, .. } = annotation;
    if scheme.is_some() || host.is_some() || port.is_some() || path.is_some() || keep_query.is_some() {
        return Err("url leaves nothing for scheme, host, port, path or keepQuery to say".to_owned());
    }
    let is_absolute = url.starts_with("https://") || url.starts_with("http://");
    match is_absolute && url.len() > "https://".len() && is_plain(url) {
        true => Ok(RedirectTarget::Url(url.into())),
        false => Err(format!("\"{url}\" is no URL of http or https")),
    }
}

fn parts_target(annotation: RedirectAnnotation) -> Result<RedirectTarget, String> {
    let RedirectAnnotation { scheme, host, port, path, keep_query, .. } = annotation;
    if scheme.is_none() && host.is_none() && port.is_none() && path.is_none() {
        return Err("it says neither url nor scheme, host, port or path: it would lead to itself".to_owned());
    }
    let is_host = |host: &str| host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:[]".contains(&b));
    if let Some(host) = host.as_deref().filter(|host| host.is_empty() || !is_host(host)) {
        return Err(format!("\"{host}\" is no host"));
    }
    if port == Some(0) {
        return Err("0 is no port".to_owned());
    }
    if let Some(path) = path.as_deref().filter(|path| !path.starts_with('/') || !is_plain(path)) {
        return Err(format!("\"{path}\" is no path that begins with /"));
    }
    let scheme = scheme.map(|scheme| match scheme {
        Scheme::Http => "http".into(),
        Scheme::Https => "https".into(),
    });
    let (host, path) = (host.map(Into::into), path.map(|path| PathRewrite::Full(path.into())));
    Ok(RedirectTarget::Parts { scheme, host, port, path, keep_query: keep_query.unwrap_or(true) })
}

/// RFC 3986 §2: unreserved and reserved characters, and escapes.
fn is_plain(url: &str) -> bool {
    url.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~:/?#[]@!$&'()*+,;=%".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_names_a_url_or_parts_of_one() {
        let Ok(to) = redirect(r#"{"status": 301, "host": "new.example", "scheme": "https"}"#) else {
            panic!("it is read");
        };
        assert_eq!(to.status, 301);
        assert!(matches!(to.target, RedirectTarget::Parts { keep_query: true, port: None, .. }));
        let Ok(to) = redirect(r#"{"url": "https://new.example/a?b"}"#) else { panic!("it is read") };
        assert_eq!((to.status, to.target), (302, RedirectTarget::Url("https://new.example/a?b".into())));
    }

    #[test]
    fn invalid_redirects_are_rejected() {
        for (value, words) in [
            ("{}", "lead to itself"),
            (r#"{"status": 200, "path": "/a"}"#, "is no redirect"),
            (r#"{"url": "//new.example"}"#, "no URL"),
            (r#"{"url": "https://a b"}"#, "no URL"),
            (r#"{"url": "https://a", "port": 1}"#, "leaves nothing"),
            (r#"{"host": "a/b"}"#, "no host"),
            (r#"{"path": "a"}"#, "begins with /"),
            (r#"{"scheme": "ftp"}"#, "unknown variant, expected `http`"),
            (r#"{"port": 70000}"#, "invalid value"),
        ] {
            let problem = redirect(value).unwrap_err();
            assert!(problem.contains(words), "{value}: {problem}");
        }
    }
}
