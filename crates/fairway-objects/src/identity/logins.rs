//! Logins with an OpenID provider.

use std::sync::Arc;
use std::time::Duration;

use fairway_model::{ClientSecret, OidcAuth, OidcPaths, ProviderHost};
use fairway_token::login::Endpoint;

use crate::duration;
use crate::identity::context::{Context, object, read_entry};
use crate::identity::errors::{IdentityFieldError, IdentityResult};
use crate::identity::keys::{KeyFindings, KeySetBackend, UrlFields, published_document};
use crate::identity::tokens::{claim_headers, clock_skew};
use crate::identity::values::{check_length, max_items, non_empty_text, read_claims, read_scopes};
use crate::object::ObjectKey;
use crate::policies as types;

/// The entry that contains the client secret.
const CLIENT_SECRET_ENTRY: &str = "client-secret";
/// The path of a provider's metadata (OpenID Connect Discovery 1.0 §4).
const DISCOVERY_PATH: &str = "/.well-known/openid-configuration";
const DEFAULT_SESSION_LIFETIME: Duration = Duration::from_secs(12 * 3600);
const SESSION_LIFETIME_RANGE: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(7 * 86_400)];
/// Parameters that Fairway sets in the authorization request.
const OWN_PARAMETERS: [&str; 10] = [
    "client_id",
    "client_secret",
    "code_challenge",
    "code_challenge_method",
    "nonce",
    "redirect_uri",
    "response_mode",
    "response_type",
    "scope",
    "state",
];

pub(super) fn read_oidc(
    oidc: &types::Oidc,
    context: Context<'_>,
    found: &mut KeyFindings,
) -> IdentityResult<OidcAuth> {
    let issuer = non_empty_text("oidc.issuer", &oidc.issuer)?;
    if Endpoint::parse(&issuer).is_none() || issuer.contains('?') {
        return Err(IdentityFieldError::new("oidc.issuer", "it is no http or https URL"));
    }
    let client_id = non_empty_text("oidc.clientId", &oidc.client_id)?;
    let own_url = [issuer.trim_end_matches('/'), DISCOVERY_PATH].concat();
    let (field, url) = match &oidc.metadata_url {
        Some(url) => ("oidc.metadataUrl", url),
        None => ("oidc.issuer", &own_url),
    };
    let at = |url: String| UrlFields { url, authorities: "oidc.caCertificateRefs".to_owned() };
    let authorities = &oidc.ca_certificate_refs;
    let (metadata, backend) = published_document(&at(field.to_owned()), url, authorities, context)?;
    let scheme = if url.starts_with("http://") { "http" } else { "https" };
    let origin = format!("{scheme}://{}", metadata.host).into();
    let mut hosts = vec![ProviderHost { origin, backend: backend.key.clone() }];
    found.backends.push(KeySetBackend { field: field.to_owned(), backend });
    check_length("oidc.additionalHosts", &oidc.additional_hosts, max_items::HOSTS)?;
    for (index, host) in oidc.additional_hosts.iter().enumerate() {
        let field = format!("oidc.additionalHosts[{index}]");
        if host.contains(['/', '?']) {
            return Err(IdentityFieldError::new(field, "it is no host, such as login.example.com"));
        }
        let (document, backend) =
            published_document(&at(field.clone()), &format!("https://{host}/"), authorities, context)?;
        let origin = format!("https://{}", document.host).into();
        hosts.push(ProviderHost { origin, backend: backend.key.clone() });
        found.backends.push(KeySetBackend { field, backend });
    }
    let (client_secret, client_secret_version) = client_secret(oidc, context)?;
    let mut scopes = read_scopes("oidc.scopes", &oidc.scopes)?;
    if !scopes.iter().any(|scope| **scope == *"openid") {
        scopes.insert(0, "openid".into());
    }
    Ok(OidcAuth {
        sessions: [context.namespace, &*client_id, &*issuer].join("\n").into(),
        issuer,
        metadata,
        hosts,
        client_id,
        client_secret,
        client_secret_version,
        scopes,
        parameters: parameters(&oidc.parameters)?,
        paths: paths(oidc)?,
        session_lifetime: session_lifetime(oidc)?,
        skew: clock_skew("oidc.clockSkew", oidc.clock_skew.as_deref())?,
        forwards_access_token: oidc.forward_access_token.unwrap_or_default(),
        claims: read_claims("oidc.requiredClaims", &oidc.required_claims)?,
        headers: claim_headers("oidc.claimsToHeaders", &oidc.claims_to_headers)?,
    })
}

/// The client secret, and the version of its Secret.
fn client_secret(spec: &types::Oidc, context: Context<'_>) -> IdentityResult<(ClientSecret, Arc<str>)> {
    let Some(reference) = &spec.client_secret_ref else { return Ok((ClientSecret::default(), "".into())) };
    let field = "oidc.clientSecretRef";
    let namespace = reference.namespace.as_deref();
    let secret = object("Secret", namespace, context.namespace, &reference.name);
    let (secret, text) = read_entry(field, secret, CLIENT_SECRET_ENTRY, context)?;
    let text = text.strip_suffix('\n').unwrap_or(text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    if text.is_empty() || text.chars().any(char::is_control) {
        let problem = format!("{CLIENT_SECRET_ENTRY} of {secret} is empty, or has a control character");
        return Err(IdentityFieldError::new(field, problem));
    }
    let namespace = namespace.filter(|it| !it.is_empty()).unwrap_or(context.namespace);
    let key = ObjectKey::new(namespace, &reference.name);
    // Distinguishes two states of the Secret without revealing its content.
    let version =
        context.resources.secrets.get(&key).and_then(|it| it.object.metadata.resource_version.as_deref());
    let version = version.map(|version| format!("@{version}")).unwrap_or_default();
    Ok((ClientSecret::new(text), format!("{key}{version}").into()))
}

fn parameters(written: &[types::OidcParameter]) -> IdentityResult<Vec<(Arc<str>, Arc<str>)>> {
    let field = "oidc.parameters";
    check_length(field, written, max_items::PARAMETERS)?;
    let mut parameters: Vec<(Arc<str>, Arc<str>)> = Vec::with_capacity(written.len());
    for (index, it) in written.iter().enumerate() {
        let at = format!("{field}[{index}].name");
        let name = non_empty_text(&at, &it.name)?;
        if OWN_PARAMETERS.contains(&&*name) {
            return Err(IdentityFieldError::new(at, format!("Fairway sets {name} itself")));
        }
        if parameters.iter().any(|(other, _)| *other == name) {
            return Err(IdentityFieldError::new(at, "it is listed twice"));
        }
        parameters.push((name, non_empty_text(&format!("{field}[{index}].value"), &it.value)?));
    }
    Ok(parameters)
}

fn paths(spec: &types::Oidc) -> IdentityResult<OidcPaths> {
    let callback = path("oidc.callbackPath", spec.callback_path.as_deref(), "/oauth2/callback")?;
    let logout = path("oidc.logoutPath", spec.logout_path.as_deref(), "/oauth2/logout")?;
    let after_logout = path("oidc.afterLogoutPath", spec.after_logout_path.as_deref(), "/")?;
    if logout == callback {
        return Err(IdentityFieldError::new("oidc.logoutPath", "it is the same as callbackPath"));
    }
    if after_logout == logout || after_logout == callback {
        return Err(IdentityFieldError::new(
            "oidc.afterLogoutPath",
            "it is the same as logoutPath or callbackPath",
        ));
    }
    let field = "oidc.backChannelLogoutPath";
    let written = spec.back_channel_logout_path.as_deref();
    let back_channel_logout =
        written.map(|written| path(field, Some(written), "/oauth2/backchannel-logout")).transpose()?;
    if back_channel_logout.as_ref().is_some_and(|own| [&callback, &logout, &after_logout].contains(&own)) {
        return Err(IdentityFieldError::new(field, "it is the same as another path of the login"));
    }
    Ok(OidcPaths { callback, logout, after_logout, back_channel_logout })
}

/// A path in normal form: it is compared byte for byte, and becomes part of URLs.
fn path(field: &str, written: Option<&str>, default: &str) -> IdentityResult<Arc<str>> {
    let path = written.unwrap_or(default);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    let has_dots = path.split('/').any(|segment| segment == "." || segment == "..");
    if !path.starts_with('/') || path.contains("//") || has_dots || !path.bytes().all(is_plain) {
        let problem = format!("\"{path}\" is no path of letters, digits and -._~ such as {default}");
        return Err(IdentityFieldError::new(field, problem));
    }
    Ok(path.into())
}

fn session_lifetime(spec: &types::Oidc) -> IdentityResult<Duration> {
    let Some(text) = spec.session_lifetime.as_deref() else { return Ok(DEFAULT_SESSION_LIFETIME) };
    let [shortest, longest] = SESSION_LIFETIME_RANGE;
    duration::read(text).filter(|time| (shortest..=longest).contains(time)).ok_or_else(|| {
        let problem = format!("\"{text}\" is no duration from 1m to 168h such as 12h");
        IdentityFieldError::new("oidc.sessionLifetime", problem)
    })
}
