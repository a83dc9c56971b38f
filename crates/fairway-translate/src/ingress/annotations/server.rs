//! What holds for a whole host: its further names (`server-alias`). Its TLS does not work yet.

use std::collections::BTreeSet;

use fairway_model::{HostPattern, WildcardSpan};

use crate::ingress::annotations::family::{Family, Known, differs, guards, needless, offers};
use crate::ingress::reader::Reader;

/// The family.
pub(crate) const FAMILY: Family = Family::new(ANNOTATIONS, |reader, _, contributions| {
    contributions.names.aliases = aliases(reader);
    Ok(())
});

const ANNOTATIONS: &[Known] = &[
    needless("http2-push-preload", "browsers no longer take pushed answers, and nginx no longer sends them"),
    differs("server-alias", "regular expressions (`~...`) and names that end in `.*` are not served"),
    offers(
        "ssl-ciphers",
        "the cipher suites are those of rustls, all of them with forward secrecy and authenticated encryption",
        &[],
    ),
    guards("ssl-passthrough", "TLS would end here instead of at the backend", &["false"]),
    offers("ssl-prefer-server-ciphers", "the server's order of cipher suites is used always", &["true"]),
];

/// Reads `server-alias`: names, with `*.` for any number of labels, and `.name` for both, as nginx's `server_name` has them.
fn aliases(reader: &mut Reader<'_>) -> BTreeSet<HostPattern> {
    let name = "server-alias";
    let mut aliases = BTreeSet::new();
    for text in reader.value(name).unwrap_or_default().split(',').map(str::trim).filter(|it| !it.is_empty()) {
        let bare = text.strip_prefix('.');
        let wild = bare.map(|bare| format!("*.{bare}"));
        let texts = [bare.unwrap_or(text)].into_iter().chain(wild.as_deref());
        let patterns: Result<Vec<_>, _> =
            texts.map(|text| HostPattern::parse(text, WildcardSpan::ManyLabels)).collect();
        match patterns {
            Ok(patterns) => aliases.extend(patterns),
            Err(_) if text.starts_with('~') => {
                reader.invalid(name, format!("\"{text}\" is a regular expression"), "it is not served");
            }
            Err(error) => reader.invalid(name, format!("\"{text}\" {error}"), "it is not served"),
        }
    }
    aliases
}
