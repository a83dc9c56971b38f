//! Redirects: to https (`ssl-redirect`, `force-ssl-redirect`), of a whole Ingress (`temporal-redirect`,
//! `permanent-redirect` and their codes), of the root (`app-root`), and to the form of a path with a trailing slash.

use std::sync::Arc;

use fairway_model::{HttpsRedirect, PathRewrite, Redirect, RedirectTarget};

use crate::annotation::Reader;
use crate::plan::Closed;
use crate::settings::Defaults;

/// When plain requests are sent to https.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToHttps {
    /// Never.
    Never,
    /// When the host has a certificate.
    WithCertificate,
    /// Always: TLS may end before the proxy.
    Always,
}

/// Reads `ssl-redirect` and `force-ssl-redirect`.
pub(crate) fn to_https(reader: &mut Reader<'_>, defaults: &Defaults) -> ToHttps {
    let with_certificate = reader.switch("ssl-redirect", defaults.to_https != ToHttps::Never);
    if reader.switch("force-ssl-redirect", defaults.to_https == ToHttps::Always) {
        ToHttps::Always
    } else if with_certificate {
        ToHttps::WithCertificate
    } else {
        ToHttps::Never
    }
}

/// The filter for plain requests.
pub(crate) fn https_filter(defaults: &Defaults) -> HttpsRedirect {
    HttpsRedirect { status: defaults.redirect_status, keep_trailing_slash: false }
}

/// Reads the redirect of all paths: the temporal one wins, as recorded.
pub(crate) fn whole(reader: &mut Reader<'_>) -> Result<Option<Redirect>, Closed> {
    let kinds = [("temporal-redirect", 302, 300..=307), ("permanent-redirect", 301, 300..=308)];
    for (name, default_status, statuses) in kinds {
        let Some(url) = reader.value(name).filter(|url| !url.is_empty()) else { continue };
        if !(url.starts_with("http://") || url.starts_with("https://") || url.starts_with("$scheme://")) {
            reader.invalid(name, format!("\"{url}\" is no http or https URL"), "nothing is redirected");
            return Ok(None);
        }
        let status = reader.number(&format!("{name}-code"), statuses).unwrap_or(default_status);
        let target = target(url).ok_or_else(|| {
            let problem =
                format!("of the variables in \"{url}\" only $scheme, $host and a final $request_uri work");
            Closed::unsupported(reader, name, problem)
        })?;
        let status = u16::try_from(status).expect("the range says so");
        return Ok(Some(Redirect { status, target }));
    }
    Ok(None)
}

/// A URL in which `$scheme`, `$host` (or `$http_host`) and a final `$request_uri` may stand for the request's own.
fn target(url: &str) -> Option<RedirectTarget> {
    if !url.contains('$') {
        return Some(RedirectTarget::Url(url.into()));
    }
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.strip_suffix("$request_uri")?;
    let scheme = (scheme != "$scheme").then_some(scheme);
    let (host, port) = match authority {
        "$host" | "$http_host" => (None, None),
        _ => match authority.rsplit_once(':') {
            Some((host, port)) => (Some(host), Some(port.parse().ok()?)),
            None => (Some(authority), None),
        },
    };
    if host.is_some_and(|host| host.is_empty() || host.contains(['$', '/', '?'])) {
        return None;
    }
    let own_port = match scheme {
        Some("https") => Some(443),
        Some(_) => Some(80),
        None => None,
    };
    Some(RedirectTarget::Parts {
        scheme: scheme.map(Arc::from),
        host: host.map(Arc::from),
        port: port.or(own_port),
        path: None,
        keep_query: true,
    })
}

/// Reads `app-root`.
pub(crate) fn app_root(reader: &mut Reader<'_>) -> Option<Arc<str>> {
    let name = "app-root";
    let path = reader.value(name)?;
    let clean = !path.bytes().any(|byte| byte.is_ascii_control() || byte == b' ' || byte == b'$');
    if path.starts_with('/') && !path.starts_with("//") && clean {
        return Some(path.into());
    }
    reader.invalid(name, format!("\"{path}\" is no absolute path"), "/ is not redirected");
    None
}

/// `/` to the root of the application; the query is dropped, as recorded.
pub(crate) fn to_app_root(path: &Arc<str>) -> Redirect {
    same_url_with(302, path.clone(), false)
}

/// To the form of the path that ends in a slash (nginx `location`: "a permanent redirect with the code 301 will be
/// returned to the requested URI with the slash appended").
pub(crate) fn to_trailing_slash(path_with_slash: &str) -> Redirect {
    same_url_with(301, path_with_slash.into(), true)
}

fn same_url_with(status: u16, path: Arc<str>, keep_query: bool) -> Redirect {
    let path = Some(PathRewrite::Full(path));
    Redirect {
        status,
        target: RedirectTarget::Parts { scheme: None, host: None, port: None, path, keep_query },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_may_end_in_the_request_uri() {
        assert_eq!(
            target("https://new.test$request_uri"),
            Some(RedirectTarget::Parts {
                scheme: Some("https".into()),
                host: Some("new.test".into()),
                port: Some(443),
                path: None,
                keep_query: true,
            })
        );
        assert_eq!(
            target("$scheme://new.test:81$request_uri"),
            Some(RedirectTarget::Parts {
                scheme: None,
                host: Some("new.test".into()),
                port: Some(81),
                path: None,
                keep_query: true,
            })
        );
    }

    #[test]
    fn other_variables_are_not_guessed() {
        for url in ["https://new.test/$1", "https://$1.test$request_uri", "https://a.test/x$request_uri"] {
            assert_eq!(target(url), None, "{url}");
        }
    }
}
