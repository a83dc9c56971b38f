//! The keys of issuers: in an object or at a URL.

use std::time::Duration;

use fairway_model::{JwtKeys, PublishedDocument, Timeouts, TrustedRoots, UrlScheme, redact_url};
use fairway_token::KeySet;
use rustls_pki_types::DnsName;
use serde_json::Value;

use crate::backend::{BackendPurpose, BackendRef};
use crate::identity::context::{Context, object, read_entry};
use crate::identity::errors::{IdentityFieldError, IdentityResult, IdentityWarning};
use crate::identity::values::{check_length, max_items};
use crate::policies as types;
use crate::roots::{are_certificates, only_unsupported_keys};
use crate::service_url::{ServiceUrl, UrlDestination, UrlHost};

/// The entry that contains a key set.
const KEY_SET_ENTRY: &str = "jwks.json";

/// The entry that contains the certificates of authorities.
const AUTHORITIES_ENTRY: &str = "ca.crt";

/// How long an issuer may take to send the next part of its key set.
const KEY_SET_TIMEOUT: Duration = Duration::from_secs(5);

/// By-products of reading keys.
#[derive(Debug, Default)]
pub(super) struct KeyFindings {
    pub(super) backends: Vec<KeySetBackend>,
    pub(super) doubts: Vec<IdentityWarning>,
}

/// A backend that publishes keys, or that users log in at.
#[derive(Clone, Debug, PartialEq)]
pub struct KeySetBackend {
    /// The field that contains its URL.
    pub field: String,
    /// The backend.
    pub backend: BackendRef,
}

pub(super) fn read_keys(
    at: &str,
    keys: &types::JwtKeys,
    context: Context<'_>,
    found: &mut KeyFindings,
) -> IdentityResult<JwtKeys> {
    match (&keys.url, &keys.reference) {
        (None, None) => {
            Err(IdentityFieldError::new(at, "it has neither url nor ref, so that no token could be verified"))
        }
        (Some(_), Some(_)) => Err(IdentityFieldError::new(at, "url and ref exclude each other")),
        (None, Some(_)) if !keys.ca_certificate_refs.is_empty() => {
            Err(IdentityFieldError::new(format!("{at}.caCertificateRefs"), "it needs url"))
        }
        (None, Some(reference)) => {
            let field = format!("{at}.ref");
            let namespace = reference.namespace.as_deref();
            let object = object(&reference.kind, namespace, context.namespace, &reference.name);
            let (object, text) = read_entry(&field, object, KEY_SET_ENTRY, context)?;
            let problem = |problem: &str| {
                IdentityFieldError::new(&field, format!("{KEY_SET_ENTRY} of {object}: {problem}"))
            };
            let set = KeySet::parse(text.as_bytes()).map_err(|why| problem(&why.to_string()))?;
            if has_secret_part(text) {
                return Err(problem("a private or symmetric key is in the key set; leave only public keys"));
            }
            found.doubts.extend(set.skipped().first().map(|first| {
                let skipped = match set.skipped().len() {
                    1 => String::new(),
                    count => format!(" (and {} more)", count - 1),
                };
                let problem =
                    format!("{KEY_SET_ENTRY} of {object}: key {}{skipped}: {}", first.index, first.why);
                let consequence = "tokens that it signed are refused";
                IdentityWarning { code: "unusable-key", field: field.clone(), problem, consequence }
            }));
            Ok(JwtKeys::Inline(text.into()))
        }
        (Some(url), None) => {
            let at = UrlFields { url: format!("{at}.url"), authorities: format!("{at}.caCertificateRefs") };
            let (published, backend) = published_document(&at, url, &keys.ca_certificate_refs, context)?;
            found.backends.push(KeySetBackend { field: at.url, backend });
            Ok(JwtKeys::Published(published))
        }
    }
}

/// Whether a key set contains private or symmetric keys (RFC 7518 §6): the configuration is visible to people.
fn has_secret_part(text: &str) -> bool {
    const SECRET: [&str; 7] = ["d", "dp", "dq", "k", "p", "q", "qi"];
    let set: Option<Value> = serde_json::from_str(text).ok();
    let keys = set.as_ref().and_then(|set| set.get("keys")).and_then(Value::as_array);
    keys.into_iter().flatten().any(|key| SECRET.iter().any(|part| key.get(part).is_some()))
}

/// The fields of a URL and of the authorities for its host.
pub(super) struct UrlFields {
    pub(super) url: String,
    pub(super) authorities: String,
}

/// Keys fetched in cleartext could be forged on the way: that is allowed only for a Service of the cluster.
pub(super) fn published_document(
    at: &UrlFields,
    url: &str,
    authorities: &[types::SecretOrConfigMapReference],
    context: Context<'_>,
) -> IdentityResult<(PublishedDocument, BackendRef)> {
    let field = &at.url;
    let wrong = |why: &str| IdentityFieldError::new(field, format!("\"{}\" {why}", redact_url(url)));
    if url.contains('$') {
        return Err(wrong("has a $, and variables do not work here"));
    }
    let ServiceUrl { destination: place, target } =
        ServiceUrl::parse(url).map_err(|why| IdentityFieldError::new(field, why))?;
    let UrlDestination::Host(host) = place else { return Err(wrong("names no host")) };
    let (backend, default_port) = match host.scheme {
        UrlScheme::Http => {
            if host.service().is_none() {
                return Err(wrong(
                    "is not https, and only a Service (name.namespace.svc) is asked over http",
                ));
            }
            if !authorities.is_empty() {
                return Err(IdentityFieldError::new(&at.authorities, "it needs a URL with https"));
            }
            (host.backend(context.resources, BackendPurpose::Keys), 80)
        }
        UrlScheme::Https => {
            if host.address().is_some() || DnsName::try_from(&*host.name).is_err() {
                return Err(wrong("has a host that is no name of a certificate"));
            }
            let roots = trusted_roots(&at.authorities, authorities, context)?;
            (host.backend_verified(roots, BackendPurpose::Keys), 443)
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
) -> IdentityResult<TrustedRoots> {
    if authorities.is_empty() {
        return Ok(TrustedRoots::System);
    }
    check_length(at, authorities, max_items::AUTHORITIES)?;
    let mut roots = String::new();
    for (index, it) in authorities.iter().enumerate() {
        let field = format!("{at}[{index}]");
        let object = object(&it.kind, it.namespace.as_deref(), context.namespace, &it.name);
        let (object, text) = read_entry(&field, object, AUTHORITIES_ENTRY, context)?;
        if !are_certificates(text) {
            let problem =
                format!("{AUTHORITIES_ENTRY} of {object} has no certificate, or one that cannot be read");
            return Err(IdentityFieldError::new(field, problem));
        }
        if let Some(why) = only_unsupported_keys(text) {
            return Err(IdentityFieldError::new(
                field,
                format!("{AUTHORITIES_ENTRY} of {object} verifies nothing: {why}"),
            ));
        }
        roots.push_str(text.trim_end());
        roots.push('\n');
    }
    Ok(TrustedRoots::Pem(roots.into()))
}
