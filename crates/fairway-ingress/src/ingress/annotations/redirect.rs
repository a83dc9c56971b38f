//! Redirects: to https (`ssl-redirect`, `force-ssl-redirect`), of a whole Ingress (`temporal-redirect`,
//! `permanent-redirect` and their codes), of the root (`app-root`), between a name and its `www.` name
//! (`from-to-www-redirect`), and their form (`relative-redirects`, `use-port-in-redirects`).

use std::sync::Arc;

use fairway_model::{Guard, PathRewrite, Redirect, RedirectTarget, redact_url};

use crate::ingress::annotations::family::{Family, KnownAnnotation, differs, supported};
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
        Err(InvalidUrl) => {
            contributions.host.www = false;
            contributions.redirects.relative = context.defaults.https.redirects.relative;
        }
    }
    Ok(())
});

const ANNOTATIONS: &[KnownAnnotation] = &[
    differs("app-root", "not while the Ingress's paths return 503"),
    supported("force-ssl-redirect"),
    supported("from-to-www-redirect"),
    supported("permanent-redirect"),
    supported("permanent-redirect-code"),
    supported("preserve-trailing-slash"),
    supported("relative-redirects"),
    supported("ssl-redirect"),
    supported("temporal-redirect"),
    supported("temporal-redirect-code"),
    differs("use-port-in-redirects", "a public port other than the scheme's default is always written"),
];

/// ingress-nginx resets redirects and rewrites of the catch-all host if an Ingress has only a default backend
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

/// Reads which plain requests are redirected to https, and the form of redirects.
fn redirects(reader: &mut Reader<'_>, default: Redirects) -> Redirects {
    Redirects {
        keep_trailing_slash: reader.switch("preserve-trailing-slash", default.keep_trailing_slash),
        explicit_port: reader.switch("use-port-in-redirects", default.explicit_port),
        relative: reader.switch("relative-redirects", default.relative),
        when: to_https(reader, default.when),
    }
}

/// Reads `ssl-redirect` and `force-ssl-redirect`. Each defaults to the ConfigMap key of its name.
fn to_https(reader: &mut Reader<'_>, default: ToHttps) -> ToHttps {
    ToHttps {
        with_certificate: reader.switch("ssl-redirect", default.with_certificate),
        always: reader.switch("force-ssl-redirect", default.always),
    }
}

/// Reads the redirect of all paths: the temporal one takes precedence, as recorded. An `Err` is an invalid temporal
/// URL, for which ingress-nginx ignores all redirect annotations.
fn redirect(reader: &mut Reader<'_>, relative: bool) -> Result<Option<Redirect>, InvalidUrl> {
    let kinds = [("temporal-redirect", 302, 300..=307), ("permanent-redirect", 301, 300..=308)];
    for (name, default_status, statuses) in kinds {
        let Some(url) = reader.value(name).filter(|url| !url.is_empty()) else { continue };
        if name == "temporal-redirect" && !is_http(url) {
            reader.invalid(
                name,
                format!("\"{}\" is no http or https URL", redact_url(url)),
                "nothing is redirected",
            );
            return Err(InvalidUrl);
        }
        let status = reader.number(&format!("{name}-code"), statuses).unwrap_or(default_status);
        let status = u16::try_from(status).expect("the range says so");
        return Ok(Some(Redirect { status, target: redirect_target(url, relative) }));
    }
    Ok(None)
}

/// The temporal redirect has an invalid URL.
struct InvalidUrl;

/// `isValidURL`: the scheme begins with `http`.
fn is_http(url: &str) -> bool {
    let scheme = url.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
    scheme.is_some_and(|it| {
        it.starts_with("http") && it.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    })
}

/// nginx `return`: a path becomes a URL with that path (`absolute_redirect`); anything else is sent unchanged.
fn redirect_target(url: &str, relative: bool) -> RedirectTarget {
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
        assert_eq!(redirect_target("/new?a=1", false), parts);
        assert_eq!(redirect_target("/new", true), RedirectTarget::Url("/new".into()));
        assert_eq!(redirect_target("ftp://a.test", false), RedirectTarget::Url("ftp://a.test".into()));
    }

    #[test]
    fn the_scheme_of_a_temporal_redirect_begins_with_http() {
        assert!(is_http("https://a.test") && is_http("HTTP://a.test"));
        assert!(!is_http("ftp://a.test") && !is_http("/new") && !is_http("http/x:y"));
    }
}
