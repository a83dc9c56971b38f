//! The keys of issuers: those in an object, and those at a URL.

use std::time::Duration;

use fairway_model::{JwtKeys, OwnScheme, PublishedDocument, Timeouts, TrustedRoots, shown_url};
use fairway_token::KeySet;
use rustls_pki_types::DnsName;
use serde_json::Value;

use crate::backend::{BackendRef, Purpose};
use crate::identity::context::{Context, entry, object};
use crate::identity::mistake::{Checked, Doubt, Mistake};
use crate::identity::values::{at_most, most};
use crate::policies as types;
use crate::roots::{are_certificates, only_unsupported_keys};
use crate::service_url::{ServiceUrl, UrlHost, UrlPlace};

/// The entry with a key set.
const KEY_SET: &str = "jwks.json";

/// The entry with the certificates of authorities.
const AUTHORITIES: &str = "ca.crt";

/// How long an issuer may take to send the next part of its key set.
const KEY_SET_TIMEOUT: Duration = Duration::from_secs(5);

/// What is found besides keys.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) backends: Vec<KeysBackend>,
    pub(super) doubts: Vec<Doubt>,
}

/// A backend that publishes keys, or that users log in by.
#[derive(Clone, Debug, PartialEq)]
pub struct KeysBackend {
    /// The field with its URL.
    pub field: String,
    /// The backend.
    pub backend: BackendRef,
}

pub(super) fn read_keys(
    at: &str,
    keys: &types::JwtKeys,
    context: Context<'_>,
    found: &mut Found,
) -> Checked<JwtKeys> {
    match (&keys.url, &keys.reference) {
        (None, None) => {
            Err(Mistake::new(at, "it has neither url nor ref, so that no token could be verified"))
        }
        (Some(_), Some(_)) => Err(Mistake::new(at, "url and ref exclude each other")),
        (None, Some(_)) if !keys.ca_certificate_refs.is_empty() => {
            Err(Mistake::new(format!("{at}.caCertificateRefs"), "it needs url"))
        }
        (None, Some(reference)) => {
            let field = format!("{at}.ref");
            let namespace = reference.namespace.as_deref();
            let object = object(&reference.kind, namespace, context.namespace, &reference.name);
            let (object, text) = entry(&field, object, KEY_SET, context)?;
            let problem = |problem: &str| Mistake::new(&field, format!("{KEY_SET} of {object}: {problem}"));
            let set = KeySet::parse(text.as_bytes()).map_err(|why| problem(&why.to_string()))?;
            if has_secret_part(text) {
                return Err(problem("a private or symmetric key is in the key set; leave only public keys"));
            }
            found.doubts.extend(set.skipped().first().map(|first| {
                let more = match set.skipped().len() {
                    1 => String::new(),
                    count => format!(" (and {} more)", count - 1),
                };
                let problem = format!("{KEY_SET} of {object}: key {}{more}: {}", first.index, first.why);
                let consequence = "tokens that it signed are refused";
                Doubt { code: "unusable-key", field: field.clone(), problem, consequence }
            }));
            Ok(JwtKeys::Inline(text.into()))
        }
        (Some(url), None) => {
            let at = At { url: format!("{at}.url"), authorities: format!("{at}.caCertificateRefs") };
            let (published, backend) = published(&at, url, &keys.ca_certificate_refs, context)?;
            found.backends.push(KeysBackend { field: at.url, backend });
            Ok(JwtKeys::Published(published))
        }
    }
}

/// Whether a key set has parts of keys that must stay secret (RFC 7518 §6): the configuration is shown to people.
fn has_secret_part(text: &str) -> bool {
    const SECRET: [&str; 7] = ["d", "dp", "dq", "k", "p", "q", "qi"];
    let set: Option<Value> = serde_json::from_str(text).ok();
    let keys = set.as_ref().and_then(|set| set.get("keys")).and_then(Value::as_array);
    keys.into_iter().flatten().any(|key| SECRET.iter().any(|part| key.get(part).is_some()))
}

/// The fields of a URL and of the authorities of its host.
pub(super) struct At {
    pub(super) url: String,
    pub(super) authorities: String,
}

/// Keys can be forged on the way where they are asked for in the clear: only a Service of the cluster is asked like that.
pub(super) fn published(
    at: &At,
    url: &str,
    authorities: &[types::SecretOrConfigMapReference],
    context: Context<'_>,
) -> Checked<(PublishedDocument, BackendRef)> {
    let field = &at.url;
    let wrong = |why: &str| Mistake::new(field, format!("\"{}\" {why}", shown_url(url)));
    if url.contains('$') {
        return Err(wrong("has a $, and variables do not work here"));
    }
    let ServiceUrl { place, target } = ServiceUrl::read(url).map_err(|why| Mistake::new(field, why))?;
    let UrlPlace::Host(host) = place else { return Err(wrong("names no host")) };
    let (backend, default_port) = match host.scheme {
        OwnScheme::Http => {
            if host.service().is_none() {
                return Err(wrong(
                    "is not https, and only a Service (name.namespace.svc) is asked over http",
                ));
            }
            if !authorities.is_empty() {
                return Err(Mistake::new(&at.authorities, "it needs a URL with https"));
            }
            (host.backend(context.resources, Purpose::Keys), 80)
        }
        OwnScheme::Https => {
            if host.address().is_some() || DnsName::try_from(&*host.name).is_err() {
                return Err(wrong("has a host that is no name of a certificate"));
            }
            let roots = trusted_roots(&at.authorities, authorities, context)?;
            (host.backend_verified(roots, Purpose::Keys), 443)
        }
    };
    let UrlHost { name, port, .. } = host;
    let host = if port == default_port { name } else { format!("{name}:{port}").into() };
    let timeouts = Timeouts { send: KEY_SET_TIMEOUT, read: KEY_SET_TIMEOUT, ..Timeouts::default() };
    let target = target.to_string().into();
    Ok((PublishedDocument { backend: backend.key.clone(), host, target, timeouts }, backend))
}

fn trusted_roots(
    at: &str,
    authorities: &[types::SecretOrConfigMapReference],
    context: Context<'_>,
) -> Checked<TrustedRoots> {
    if authorities.is_empty() {
        return Ok(TrustedRoots::System);
    }
    at_most(at, authorities, most::AUTHORITIES)?;
    let mut roots = String::new();
    for (index, it) in authorities.iter().enumerate() {
        let field = format!("{at}[{index}]");
        let object = object(&it.kind, it.namespace.as_deref(), context.namespace, &it.name);
        let (object, text) = entry(&field, object, AUTHORITIES, context)?;
        if !are_certificates(text) {
            let problem = format!("{AUTHORITIES} of {object} has no certificate, or one that cannot be read");
            return Err(Mistake::new(field, problem));
        }
        if let Some(why) = only_unsupported_keys(text) {
            return Err(Mistake::new(field, format!("{AUTHORITIES} of {object} verifies nothing: {why}")));
        }
        roots.push_str(text.trim_end());
        roots.push('\n');
    }
    Ok(TrustedRoots::Pem(roots.into()))
}
