//! Authentication by password, external service, token or API key: `auth-*` except `auth-tls-*`, and `satisfy`, which
//! also covers Fairway's own annotations.
//!
//! Unreadable values close the paths, because guessing could admit someone. Where ingress-nginx skips an unreadable
//! part and so admits everyone, the paths return 503 here.

use std::sync::Arc;

use fairway_model::{
    AnyGuard, AuthCache, AuthService, BasicAuth, ExternalAuth, Guard, HeaderEdit, RequestEdit, Template,
    UrlScheme, variables,
};
use fairway_objects::annotations::text::parse_bool;
use fairway_objects::backend::BackendPurpose;
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::identity::Identity;
use fairway_objects::object::ObjectKey;
use fairway_objects::passwords::{self, ReadUsers, SecretForm, UnusableHash};
use fairway_objects::references::ReferencedObjects;
use fairway_objects::service_url::{ServiceUrl, UrlDestination};
use fairway_password::InvalidHash;

use crate::ingress::annotations::family::{Family, KnownAnnotation, differs, needless, supported};
use crate::ingress::annotations::snippets;
use crate::ingress::annotations::upstream;
use crate::ingress::auth_cache;
use crate::ingress::closed::Closed;
use crate::ingress::context::Context;
use crate::ingress::contributions::Contributions;
use crate::ingress::external_auth::{
    AuthRequest, AuthValues, InvalidValue, is_header_name, is_hop_header, template_value,
};
use crate::ingress::identity;
use crate::ingress::reader::{Annotations, Reader};

/// The family.
pub(crate) const FAMILY: Family = Family::new(ANNOTATIONS, authentication).with_references(refer);

const CONNECTION_REUSE_NOTE: &str = "all connections are reused";

const ANNOTATIONS: &[KnownAnnotation] = &[
    supported("auth-always-set-cookie"),
    supported("auth-cache-duration"),
    differs(
        "auth-cache-key",
        "only [some variables](authentication.md#cached-responses); others disable caching",
    ),
    needless("auth-keepalive", CONNECTION_REUSE_NOTE),
    needless("auth-keepalive-requests", CONNECTION_REUSE_NOTE),
    needless("auth-keepalive-share-vars", "there are no such variables"),
    needless("auth-keepalive-timeout", CONNECTION_REUSE_NOTE),
    differs("auth-method", "CONNECT and TRACE give 503"),
    differs("auth-proxy-set-headers", "only variables that `auth-url` supports; others give 503"),
    differs("auth-realm", "a quote or backslash gives 503"),
    supported("auth-request-redirect"),
    supported("auth-response-headers"),
    differs("auth-secret", "gives 503 without `auth-type` or users, or in another namespace"),
    differs("auth-secret-type", "other values give 503"),
    differs("auth-signin", "anything but a URL gives 503 (ingress-nginx: 401)"),
    supported("auth-signin-redirect-param"),
    differs("auth-snippet", "[few directives](#snippets); other lines give 503"),
    differs("auth-type", "`digest` gives 503"),
    differs("auth-url", "only [some variables](authentication.md#variables); others and `grpc://` give 503"),
    supported("enable-global-auth"),
    supported("satisfy"),
];

/// The objects and addresses that the annotations reference.
fn refer(annotations: &Annotations<'_>, referenced: &mut ReferencedObjects) {
    identity::refer(annotations, referenced);
    referenced.secrets.extend(named_object(annotations, "auth-secret"));
    referenced.config_maps.extend(header_config_map(annotations));
    let url = annotations.value("auth-url").and_then(|url| ServiceUrl::parse(url).ok());
    if let Some(ServiceUrl { destination: UrlDestination::Host(host), .. }) = url {
        referenced.services.extend(host.service());
        referenced.addresses.extend(host.address());
    }
}

/// `namespace/name`, or a name in the Ingress's namespace.
fn named_object(annotations: &Annotations<'_>, name: &str) -> Option<ObjectKey> {
    let value = annotations.value(name).filter(|value| !value.is_empty())?;
    match value.split_once('/') {
        Some((namespace, name)) => Some(ObjectKey::new(namespace, name)),
        None => Some(ObjectKey { namespace: annotations.key.namespace.clone(), name: value.into() }),
    }
}

/// The ConfigMap with headers for the service. ingress-nginx ignores a name without a namespace.
fn header_config_map(annotations: &Annotations<'_>) -> Option<ObjectKey> {
    let (namespace, name) = annotations.value("auth-proxy-set-headers")?.split_once('/')?;
    Some(ObjectKey::new(namespace, name))
}

/// Reads all guards.
fn authentication(
    reader: &mut Reader<'_>,
    context: &Context<'_>,
    contributions: &mut Contributions,
) -> Result<(), Closed> {
    let basic = basic_auth(reader, context)?;
    let read = identity::read(reader, context, contributions)?;
    let Identity { jwt, oidc, api_key, authorization, limits, late_limits, .. } = read;
    let external = external_auth(reader, context, contributions)?.map(Box::new);
    let any = match reader.value("satisfy") {
        None | Some("" | "all") => false,
        Some("any") => true,
        Some(other) => {
            let problem = format!("\"{other}\" is neither all nor any");
            return Err(Closed::invalid(reader, "satisfy", problem));
        }
    };
    if any && oidc.is_some() {
        let problem = "any does not work together with fairway.dev/oidc";
        return Err(Closed::invalid(reader, "satisfy", problem.to_owned()));
    }
    contributions.satisfies_any = any;
    let added = &mut contributions.added;
    limits.into_iter().for_each(|limit| added.add(Guard::RateLimit(limit)));
    if basic.is_some() {
        // ingress-nginx: the backend never sees the password. Removed after all guards, because an external service
        // does get it.
        let edit = HeaderEdit { remove: vec!["authorization".into()], ..HeaderEdit::default() };
        added.add(RequestEdit::Headers(edit));
    }
    let known = [basic.is_some(), jwt.is_some(), api_key.is_some(), external.is_some()];
    let guards = known.into_iter().filter(|is_there| *is_there).count();
    let lists = if any && guards > 0 { added.take_access_lists() } else { Vec::new() };
    if lists.len() + guards > 1 && any {
        let access = lists.into_iter().next().map(|mut list| {
            // A password does not admit clients that the operator blocks.
            let blocked = &context.defaults.source_ranges.block;
            list.deny.retain(|range| !blocked.contains(range));
            list
        });
        added.block(&context.defaults.source_ranges.block);
        let open = |list: &fairway_model::AccessList| list.allow.is_empty() && list.deny.is_empty();
        // A list without entries other than the blocked ones guards nothing.
        let access = access.filter(|list| !open(list));
        added.add(Guard::Any(Box::new(AnyGuard { access, basic, jwt, api_key, external })));
    } else {
        let lists = lists.into_iter().map(Guard::Access);
        let guards = (lists.chain(basic.map(Guard::BasicAuth)))
            .chain(jwt.map(Guard::Jwt))
            .chain(oidc.map(Guard::Oidc))
            .chain(api_key.map(Guard::ApiKey))
            .chain(external.map(Guard::ExternalAuth));
        guards.for_each(|guard| added.add(guard));
    }
    // After all guards that identify the client, even if one of them suffices.
    authorization.into_iter().for_each(|authorization| added.add(Guard::Authorize(authorization)));
    late_limits.into_iter().for_each(|limit| added.add(Guard::RateLimit(limit)));
    Ok(())
}

/// Reads the password file.
fn basic_auth(reader: &mut Reader<'_>, context: &Context<'_>) -> Result<Option<BasicAuth>, Closed> {
    let secret = "auth-secret";
    match reader.value("auth-type") {
        None if reader.value(secret).is_some() => {
            let problem = "there is no auth-type, without which no password is asked for";
            return Err(Closed::invalid(reader, secret, problem.to_owned()));
        }
        None => return Ok(None),
        Some("basic") => {}
        Some("digest") => {
            let problem = "digest authentication is not spoken; basic is";
            return Err(Closed::unsupported(reader, "auth-type", problem.to_owned()));
        }
        Some(other) => {
            let problem = format!("\"{other}\" is neither basic nor digest");
            return Err(Closed::invalid(reader, "auth-type", problem));
        }
    }
    let realm = realm(reader)?;
    let form = match reader.value("auth-secret-type") {
        None | Some("auth-file") => SecretForm::File,
        Some("auth-map") => SecretForm::Map,
        Some(other) => {
            let problem = format!("\"{other}\" is neither auth-file nor auth-map");
            return Err(Closed::invalid(reader, "auth-secret-type", problem));
        }
    };
    let Some(key) = named_object(&reader.annotations(), secret) else {
        return Err(Closed::missing(reader, secret, "no Secret is named".to_owned()));
    };
    if key.namespace != reader.key.namespace {
        return Err(Closed::invalid(reader, secret, format!("Secret {key} is in another namespace")));
    }
    let Some(found) = context.inputs.resources.secrets.get(&key) else {
        return Err(Closed::missing(reader, secret, format!("Secret {key} does not exist")));
    };
    let ReadUsers { users, unusable } = passwords::read(&found.object, form)
        .map_err(|problem| Closed::invalid(reader, secret, format!("Secret {key}: {problem}")))?;
    report_unusable(reader, &key, &unusable);
    // Distinguishes versions of the Secret that have no other visible difference.
    let version = found.object.metadata.resource_version.as_deref();
    let form = if form == SecretForm::Map { ";map" } else { "" };
    let version = version.map(|version| format!("@{version}")).unwrap_or_default();
    let policy = format!("{key}{form}{version}");
    Ok(Some(BasicAuth { policy: policy.into(), realm, users }))
}

fn realm(reader: &mut Reader<'_>) -> Result<Arc<str>, Closed> {
    let realm = reader.value("auth-realm").unwrap_or_default();
    let plain = |byte: u8| (byte.is_ascii_graphic() || byte == b' ') && byte != b'"' && byte != b'\\';
    match realm.bytes().all(plain) {
        true => Ok(realm.into()),
        false => {
            let problem = format!("{realm:?} has something besides visible ASCII, a quote or a backslash");
            Err(Closed::invalid(reader, "auth-realm", problem))
        }
    }
}

fn report_unusable(reader: &mut Reader<'_>, key: &ObjectKey, unusable: &[UnusableHash]) {
    let Some(first) = unusable.first() else { return };
    let reason = match first.why {
        InvalidHash::Unknown => "has no known format",
        InvalidHash::TooSlow => "costs more to verify than is allowed",
    };
    let problem = format!("Secret {key}: {} {reason}", UnusableHash::format_locations(unusable));
    let found = Diagnostic::new(Severity::Warning, "unusable-password", reader.at("auth-secret"));
    reader.report(found.because(problem, "no password lets that user in"));
}

/// Reads the external authentication of the Ingress, or the global one.
fn external_auth(
    reader: &mut Reader<'_>,
    context: &Context<'_>,
    contributions: &mut Contributions,
) -> Result<Option<ExternalAuth>, Closed> {
    let (question, place) = match reader.value("auth-url") {
        Some(url) => (own_auth_request(reader, context, url)?, "auth-url"),
        None => {
            if reader.value("auth-snippet").is_some_and(|value| !value.is_empty()) {
                reader.invalid("auth-snippet", "there is no auth-url", "it has no effect");
            }
            match &context.defaults.authentication.global {
                Some(global) if uses_global_auth(reader)? => (global.clone(), ""),
                _ => return Ok(None),
            }
        }
    };
    let AuthRequest { mut auth, host } = question;
    if let Some(host) = host {
        let is_https = place == "auth-url" && host.scheme == UrlScheme::Https;
        let tls = if is_https { upstream::tls_origination(reader, context)? } else { Arc::default() };
        let reference = host.backend_with_tls(context.inputs.resources, BackendPurpose::Authentication, &tls);
        auth.service = AuthService::Backend { backend: reference.key.clone(), host: host.name };
        let origin = if place.is_empty() { reader.field_origin("") } else { reader.at(place) };
        contributions.added.name_backend(reference, origin, BackendPurpose::Authentication);
    }
    Ok(Some(auth))
}

/// `enable-global-auth`; false is parsed as in ingress-nginx.
fn uses_global_auth(reader: &mut Reader<'_>) -> Result<bool, Closed> {
    let name = "enable-global-auth";
    match reader.value(name).map(|value| (value, parse_bool(value))) {
        None => Ok(true),
        Some((_, Some(on))) => Ok(on),
        Some((value, None)) => {
            reader.invalid(name, format!("\"{value}\" is neither true nor false"), "it counts as true");
            Ok(true)
        }
    }
}

/// Reads `auth-cache-*`.
fn auth_cache(reader: &mut Reader<'_>) -> Result<Option<AuthCache>, Closed> {
    let (name, duration) = ("auth-cache-key", "auth-cache-duration");
    // ingress-nginx closes the paths for it, with or without a key.
    let times = auth_cache::cache_times(reader.value(duration).unwrap_or_default())
        .map_err(|problem| Closed::invalid(reader, duration, problem))?;
    match auth_cache::key(reader.value(name).unwrap_or_default()) {
        Ok(key) => Ok(key.map(|key| AuthCache { key, times })),
        Err(problem) => {
            reader.invalid(name, problem, "the service is asked about each request");
            Ok(None)
        }
    }
}

fn own_auth_request(
    reader: &mut Reader<'_>,
    context: &Context<'_>,
    url: &str,
) -> Result<AuthRequest, Closed> {
    let values = AuthValues {
        url,
        method: reader.value("auth-method"),
        sign_in: reader.value("auth-signin"),
        sign_in_parameter: reader.value("auth-signin-redirect-param"),
        response_headers: reader.value("auth-response-headers"),
        request_redirect: reader.value("auth-request-redirect").filter(|value| !value.is_empty()),
        always_set_cookie: reader.switch("auth-always-set-cookie", false),
    };
    let closed =
        |reader: &mut Reader<'_>, InvalidValue { name, problem }| Closed::invalid(reader, name, problem);
    let mut question = AuthRequest::read(&values, context.defaults.forwarding.timeouts)
        .map_err(|wrong| closed(reader, wrong))?;
    question.auth.kept = auth_cache(reader)?;
    if let Some(snippet) = snippets::read_auth_snippet(reader, context)? {
        question.add(snippet);
    }
    for header in question.auth.copied.extract_if(.., |header| is_hop_header(header)) {
        let problem = format!("{header} belongs to the connection");
        reader.invalid("auth-response-headers", problem, "the backend gets that of its own request");
    }
    let name = "auth-proxy-set-headers";
    let Some(value) = reader.value(name).filter(|value| !value.is_empty()) else { return Ok(question) };
    let Some(key) = header_config_map(&reader.annotations()) else {
        let problem = format!("\"{value}\" has no namespace, without which no ConfigMap is found");
        return Err(Closed::missing(reader, name, problem));
    };
    if key.namespace != reader.key.namespace {
        return Err(Closed::invalid(reader, name, format!("ConfigMap {key} is in another namespace")));
    }
    let Some(map) = context.inputs.resources.config_maps.get(&key) else {
        return Err(Closed::missing(reader, name, format!("ConfigMap {key} does not exist")));
    };
    for (header, value) in map.object.data.iter().flatten() {
        if !is_header_name(header) {
            let problem = format!("ConfigMap {key}: \"{header}\" is no name of a header");
            return Err(Closed::invalid(reader, name, problem));
        }
        if is_hop_header(header) {
            let problem = format!("ConfigMap {key}: {header} belongs to the connection");
            reader.invalid(name, problem, "the service does not get it");
            continue;
        }
        // The value may be a password.
        let Ok(value) = template_value(name, value.trim()) else {
            let problem = format!(
                "ConfigMap {key}: the value of {header} has a control character, or another variable than {}",
                variables::URL_VARIABLES
            );
            return Err(Closed::invalid(reader, name, problem));
        };
        let is_header = |(name, _): &(Arc<str>, Template)| name.eq_ignore_ascii_case(header);
        if question.auth.fields.iter().any(is_header) {
            let problem =
                format!("ConfigMap {key}: auth-snippet sets {header}, too, and nginx would send it twice");
            return Err(Closed::invalid(reader, name, problem));
        }
        question.auth.fields.push((header.as_str().into(), value));
    }
    Ok(question)
}
