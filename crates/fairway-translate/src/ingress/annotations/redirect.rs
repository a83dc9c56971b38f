//! Redirects: to https (`ssl-redirect`, `force-ssl-redirect`), of a whole Ingress (`temporal-redirect`,
//! `permanent-redirect` and their codes), of the root (`app-root`), of the other of a name and its `www.`
//! (`from-to-www-redirect`); how they are written (`relative-redirects`, `use-port-in-redirects`).

use std::sync::Arc;

use fairway_model::{Filter, Redirect, RedirectTarget};

use crate::ingress::annotations::family::{Family, Known, differs, done};
use crate::ingress::closed::Closed;
use crate::ingress::contributions::Phase;
use crate::ingress::reader::Reader;
use crate::ingress::to_https::{Location, Port, Redirects, Slash, ToHttps};

/// The family.
pub(crate) const FAMILY: Family = Family::new(ANNOTATIONS, |reader, context, contributions| {
    contributions.redirects = redirects(reader, context.defaults.https.redirects);
    contributions.host.www = reader.switch("from-to-www-redirect", false);
    contributions.app_root = app_root(reader);
    if let Some(redirect) = redirect(reader)? {
        contributions.filters.push(Phase::Redirect, Filter::Redirect(redirect));
    }
    Ok(())
});

const ANNOTATIONS: &[Known] = &[
    differs("app-root", "none of an Ingress whose paths answer 503"),
    done("force-ssl-redirect"),
    done("from-to-www-redirect"),
    differs(
        "permanent-redirect",
        "of the nginx variables only `$scheme`, `$host` and a final `$request_uri` work; others answer 503",
    ),
    done("permanent-redirect-code"),
    done("preserve-trailing-slash"),
    done("relative-redirects"),
    done("ssl-redirect"),
    differs(
        "temporal-redirect",
        "of the nginx variables only `$scheme`, `$host` and a final `$request_uri` work; others answer 503",
    ),
    done("temporal-redirect-code"),
    differs(
        "use-port-in-redirects",
        "redirects say a public port that is not the scheme's own without it, too",
    ),
];

/// Reads which plain requests are sent to https, and how redirects are written.
fn redirects(reader: &mut Reader<'_>, default: Redirects) -> Redirects {
    let mut on = |name: &str, default: bool| reader.switch(name, default);
    let slash = on("preserve-trailing-slash", default.slash == Slash::Kept);
    let port = on("use-port-in-redirects", default.port == Port::Always);
    let relative = on("relative-redirects", default.location == Location::Relative);
    Redirects {
        when: to_https(reader, default.when),
        slash: if slash { Slash::Kept } else { Slash::Dropped },
        port: if port { Port::Always } else { Port::Unusual },
        location: if relative { Location::Relative } else { Location::Absolute },
    }
}

/// Reads `ssl-redirect` and `force-ssl-redirect`.
fn to_https(reader: &mut Reader<'_>, default: ToHttps) -> ToHttps {
    let with_certificate = reader.switch("ssl-redirect", default != ToHttps::Never);
    if reader.switch("force-ssl-redirect", default == ToHttps::Always) {
        ToHttps::Always
    } else if with_certificate {
        ToHttps::WithCertificate
    } else {
        ToHttps::Never
    }
}

/// Reads the redirect of all paths: the temporal one wins, as recorded.
fn redirect(reader: &mut Reader<'_>) -> Result<Option<Redirect>, Closed> {
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
fn app_root(reader: &mut Reader<'_>) -> Option<Arc<str>> {
    let name = "app-root";
    let path = reader.value(name)?;
    let clean = !path.bytes().any(|byte| byte.is_ascii_control() || byte == b' ' || byte == b'$');
    if path.starts_with('/') && !path.starts_with("//") && clean {
        return Some(path.into());
    }
    reader.invalid(name, format!("\"{path}\" is no absolute path"), "/ is not redirected");
    None
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
