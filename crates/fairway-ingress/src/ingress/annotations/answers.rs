//! What becomes of the fields of an answer: `proxy-cookie-*`, `proxy-redirect-*`.

use std::sync::Arc;

use fairway_model::{CookieRewrite, LocationRewrite, ReceivedEdit, Replacement};

use crate::ingress::annotations::family::{Family, Known, differs};
use crate::ingress::reader::Reader;
use crate::ingress::values::{Values, domains, paths, url, value};

/// The family. After `redirect`, which says whether redirects are relative.
pub(crate) const FAMILY: Family = Family::new(ANNOTATIONS, |reader, context, contributions| {
    let defaults = &context.defaults.values;
    let domain = value(reader, defaults, "proxy-cookie-domain", domains).flatten();
    let path = value(reader, defaults, "proxy-cookie-path", paths).flatten();
    if domain.is_some() || path.is_some() {
        contributions.added.add(ReceivedEdit::Cookies(CookieRewrite { domain, path }));
    }
    if let Some((from, to)) = redirect(reader, defaults) {
        let absolute = !contributions.redirects.relative;
        let rewrite = LocationRewrite { url: Replacement { from, to }, absolute };
        contributions.added.add(ReceivedEdit::Location(rewrite));
    }
    Ok(())
});

const ANNOTATIONS: &[Known] = &[
    differs("proxy-cookie-domain", "regular expressions (`~...`) do not work: the default is used"),
    differs("proxy-cookie-path", "regular expressions (`~...`) do not work: the default is used"),
    differs("proxy-redirect-from", "regular expressions (`~...`) do not work: the default is used"),
    differs("proxy-redirect-to", "variables do not work: the default is used"),
];

/// Both must say something; `default` would replace the name of the upstream, which no backend knows.
fn redirect(reader: &mut Reader<'_>, defaults: &Values) -> Option<(Arc<str>, Arc<str>)> {
    let from = value(reader, defaults, "proxy-redirect-from", url).flatten();
    let to = value(reader, defaults, "proxy-redirect-to", url).flatten();
    from.filter(|from| **from != *"default").zip(to)
}
