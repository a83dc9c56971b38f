//! Redirects: to https (`ssl-redirect`, `force-ssl-redirect`), of a whole Ingress (`temporal-redirect`,
//! `permanent-redirect` and their codes), of the root (`app-root`), of the other of a name and its `www.`
//! (`from-to-www-redirect`); how they are written (`relative-redirects`, `use-port-in-redirects`).

use std::sync::Arc;

use fairway_model::{Guard, PathRewrite, Redirect, RedirectTarget, shown_url};

use crate::ingress::annotations::family::{Family, Known, differs, done};
use crate::ingress::reader::Reader;
use crate::ingress::to_https::{Redirects, ToHttps};

/// The family.
pub(crate) const FAMILY: Family = Family::new(ANNOTATIONS, |reader, context, contributions| {
    if reader.is_catch_all() {
        contributions.redirects = Redirects { when: ToHttps::NEVER, ..Redirects::default() };
        report_ignored(reader);
        return Ok(());
    }
    contributions.redirects = redirects(reader, context.defaults.https.redirects);
    contributions.host.www = reader.switch("from-to-www-redirect", false);
    contributions.app_root = app_root(reader);
    match redirect(reader, contributions.redirects.relative) {
        Ok(redirect) => {
            if let Some(redirect) = redirect {
                contributions.added.add(Guard::Redirect(redirect));
            }
        }
        Err(NoUrl) => {
            contributions.host.www = false;
            contributions.redirects.relative = context.defaults.https.redirects.relative;
        }
    }
    Ok(())
});

const ANNOTATIONS: &[Known] = &[
    differs("app-root", "none of an Ingress whose paths answer 503"),
    done("force-ssl-redirect"),
    done("from-to-www-redirect"),
    done("permanent-redirect"),
    done("permanent-redirect-code"),
    done("preserve-trailing-slash"),
    done("relative-redirects"),
    done("ssl-redirect"),
    done("temporal-redirect"),
    done("temporal-redirect-code"),
    differs(
        "use-port-in-redirects",
        "redirects say a public port that is not the scheme's own without it, too",
    ),
];

/// ingress-nginx puts the redirects and rewrites of the catch-all host back where an Ingress has only a default backend
/// (`controller.go`, `getBackendServers`).
fn report_ignored(reader: &mut Reader<'_>) {
    let ignored =
        ["app-root", "force-ssl-redirect", "permanent-redirect", "rewrite-target", "temporal-redirect"];
    for name in ignored {
        if reader.value(name).is_none() {
            continue;
        }
        let problem = "the Ingress has no rules, and ingress-nginx neither redirects nor rewrites for its default backend";
        reader.invalid(name, problem, "it changes nothing");
    }
}

/// Reads which plain requests are sent to https, and how redirects are written.
fn redirects(reader: &mut Reader<'_>, default: Redirects) -> Redirects {
    Redirects {
        keep_trailing_slash: reader.switch("preserve-trailing-slash", default.keep_trailing_slash),
        explicit_port: reader.switch("use-port-in-redirects", default.explicit_port),
        relative: reader.switch("relative-redirects", default.relative),
        when: to_https(reader, default.when),
    }
}

/// Reads `ssl-redirect` and `force-ssl-redirect`. Each falls back to the key of its own name.
fn to_https(reader: &mut Reader<'_>, default: ToHttps) -> ToHttps {
    ToHttps {
        with_certificate: reader.switch("ssl-redirect", default.with_certificate),
        always: reader.switch("force-ssl-redirect", default.always),
    }
}

/// Reads the redirect of all paths: the temporal one wins, as recorded. An `Err` is a temporal one that is no URL, with
/// which ingress-nginx forgets all that the family says of redirects.
fn redirect(reader: &mut Reader<'_>, relative: bool) -> Result<Option<Redirect>, NoUrl> {
    let kinds = [("temporal-redirect", 302, 300..=307), ("permanent-redirect", 301, 300..=308)];
    for (name, default_status, statuses) in kinds {
        let Some(url) = reader.value(name).filter(|url| !url.is_empty()) else { continue };
        if name == "temporal-redirect" && !is_http(url) {
            reader.invalid(
                name,
                format!("\"{}\" is no http or https URL", shown_url(url)),
                "nothing is redirected",
            );
            return Err(NoUrl);
        }
        let status = reader.number(&format!("{name}-code"), statuses).unwrap_or(default_status);
        let status = u16::try_from(status).expect("the range says so");
        return Ok(Some(Redirect { status, target: target(url, relative) }));
    }
    Ok(None)
}

/// That a temporal redirect leads nowhere.
struct NoUrl;

/// `isValidURL`: the scheme begins with `http`.
fn is_http(url: &str) -> bool {
    let scheme = url.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
    scheme.is_some_and(|it| {
        it.starts_with("http") && it.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    })
}

/// nginx `return`: a path becomes the URL with that path (`absolute_redirect`), anything else is written as it is.
fn target(url: &str, relative: bool) -> RedirectTarget {
    if url.starts_with('/') && !relative {
        let path = Some(PathRewrite::Full(url.into()));
        return RedirectTarget::Parts { scheme: None, host: None, port: None, path, keep_query: false };
    }
    RedirectTarget::Url(url.into())
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
    fn a_path_becomes_a_url_unless_redirects_are_relative() {
        let path = Some(PathRewrite::Full("/new?a=1".into()));
        let parts = RedirectTarget::Parts { scheme: None, host: None, port: None, path, keep_query: false };
        assert_eq!(target("/new?a=1", false), parts);
        assert_eq!(target("/new", true), RedirectTarget::Url("/new".into()));
        assert_eq!(target("ftp://a.test", false), RedirectTarget::Url("ftp://a.test".into()));
    }

    #[test]
    fn the_scheme_of_a_temporal_redirect_begins_with_http() {
        assert!(is_http("https://a.test") && is_http("HTTP://a.test"));
        assert!(!is_http("ftp://a.test") && !is_http("/new") && !is_http("http/x:y"));
    }
}
