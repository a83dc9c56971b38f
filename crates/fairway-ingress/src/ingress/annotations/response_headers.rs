//! Rewrites of response headers: `proxy-cookie-*`, `proxy-redirect-*`.

use std::sync::Arc;

use fairway_model::{CookieRewrite, LocationRewrite, Replacement, UpstreamResponseEdit};

use crate::ingress::annotations::family::{Family, KnownAnnotation, differs};
use crate::ingress::reader::Reader;
use crate::ingress::values::{Values, domains, paths, url, value};

/// The family. It runs after `redirect`, which decides whether redirects are relative.
pub(crate) const FAMILY: Family = Family::new(ANNOTATIONS, |reader, context, contributions| {
    let defaults = &context.defaults.values;
    let domain = value(reader, defaults, "proxy-cookie-domain", domains).flatten();
    let path = value(reader, defaults, "proxy-cookie-path", paths).flatten();
    if domain.is_some() || path.is_some() {
        contributions.added.add(UpstreamResponseEdit::Cookies(CookieRewrite { domain, path }));
    }
    if let Some((from, to)) = redirect(reader, defaults) {
        let absolute = !contributions.redirects.relative;
        let rewrite = LocationRewrite { url: Replacement { from, to }, absolute };
        contributions.added.add(UpstreamResponseEdit::Location(rewrite));
    }
    Ok(())
});

const ANNOTATIONS: &[KnownAnnotation] = &[
    differs("proxy-cookie-domain", "regular expressions (`~...`) give the default"),
    differs("proxy-cookie-path", "regular expressions (`~...`) give the default"),
    differs("proxy-redirect-from", "regular expressions (`~...`) give the default"),
    differs("proxy-redirect-to", "variables give the default"),
];

/// Both must have a value; `default` would replace the name of the upstream, which no backend knows.
fn redirect(reader: &mut Reader<'_>, defaults: &Values) -> Option<(Arc<str>, Arc<str>)> {
    let from = value(reader, defaults, "proxy-redirect-from", url).flatten();
    let to = value(reader, defaults, "proxy-redirect-to", url).flatten();
    from.filter(|from| **from != *"default").zip(to)
}
