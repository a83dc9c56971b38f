//! Host-wide settings: additional names (`server-alias`), cipher suites (`ssl-ciphers`, `ssl-prefer-server-ciphers`)
//! and TLS passthrough (`ssl-passthrough`).

use std::collections::BTreeSet;

use fairway_model::{CipherList, CipherSuite, HostPattern, SuitePreference, WildcardSpan};
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::options::Options;

use crate::ingress::annotations::family::{Family, KnownAnnotation, differs, needless};
use crate::ingress::reader::Reader;

/// The family.
pub(crate) const FAMILY: Family = Family::new(ANNOTATIONS, |reader, context, contributions| {
    contributions.host.aliases = aliases(reader);
    contributions.host.passthrough = passthrough(reader, context.inputs.options);
    contributions.host.suites = suites(reader, "ssl-ciphers");
    contributions.host.suite_chosen_by = reader
        .value("ssl-prefer-server-ciphers")
        .map(|_| reader.switch("ssl-prefer-server-ciphers", true))
        .map(|server| if server { SuitePreference::Server } else { SuitePreference::Client });
    Ok(())
});

const ANNOTATIONS: &[KnownAnnotation] = &[
    needless("http2-push-preload", "browsers and nginx no longer support it"),
    differs("server-alias", "no regular expressions (`~...`), no names that end in `.*`"),
    differs("ssl-ciphers", "TLS 1.2: only the six suites with ECDHE and AES-GCM or ChaCha20"),
    differs(
        "ssl-passthrough",
        "[on by default](#passthrough); refused together with protections; not for `server-alias`",
    ),
    differs(
        "ssl-prefer-server-ciphers",
        "default without `ssl-ciphers`: the client's order (ingress-nginx: the server's)",
    ),
];

/// Whether TLS is passed through.
fn passthrough(reader: &mut Reader<'_>, options: &Options) -> bool {
    let name = "ssl-passthrough";
    let is_set = reader.switch(name, false);
    let is_off = !options.hosts.ssl_passthrough;
    if is_set && is_off {
        let found = Diagnostic::new(Severity::Warning, "passthrough-off", reader.at(name));
        let problem = "--enable-ssl-passthrough=false switches ssl-passthrough off";
        reader.report(found.because(problem, "TLS of its hosts ends at Fairway"));
    }
    is_set && !is_off
}

/// Reads `server-alias`: names, `*.` for any number of labels, and `.name` for both, as in nginx's `server_name`.
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

/// Reads a cipher list in OpenSSL syntax; empty selects all.
pub(super) fn suites(reader: &mut Reader<'_>, name: &str) -> Vec<CipherSuite> {
    let Some(value) = reader.value(name).filter(|value| !value.is_empty()) else { return Vec::new() };
    let CipherList { suites, unknown } = CipherList::read(value);
    if suites.is_empty() {
        reader.invalid(name, format!("\"{value}\" leaves no cipher suite of TLS 1.2"), "all are offered");
    } else if !unknown.is_empty() {
        let problem = format!("{} is not spoken", unknown.join(", "));
        reader.invalid(name, problem, "the other suites of the list are offered");
    }
    suites
}
