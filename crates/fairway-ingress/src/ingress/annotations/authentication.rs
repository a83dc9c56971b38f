//! Who may pass by a password, by the word of another service, by a token or by an API key: `auth-*` without `auth-tls-*`, and
//! `satisfy`, also for Fairway's own annotations.
//!
//! Whatever cannot be read closes the paths: a guess would let somebody in. Where ingress-nginx leaves out a part that it
//! cannot read, and so lets everybody in, the paths answer 503 here.

use std::sync::Arc;

use fairway_model::{
    AnyGuard, AuthService, BasicAuth, ExternalAuth, Guard, HeaderEdit, KeptAuth, OwnScheme, RequestEdit,
    Template, variables,
};
use fairway_objects::annotations::text::switch;
use fairway_objects::backend::Purpose;
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::identity::Identity;
use fairway_objects::object::ObjectKey;
use fairway_objects::passwords::{self, ReadUsers, SecretForm, Unusable};
use fairway_objects::references::Referenced;
use fairway_objects::service_url::{ServiceUrl, UrlPlace};
use fairway_password::NotAHash;

use crate::ingress::annotations::family::{Family, Known, differs, done, needless};
use crate::ingress::annotations::snippets;
use crate::ingress::annotations::upstream;
use crate::ingress::closed::Closed;
use crate::ingress::context::Context;
use crate::ingress::contributions::Contributions;
use crate::ingress::external_auth::{AuthValues, Question, Wrong, is_header, is_of_the_hop, with_variables};
use crate::ingress::identity;
use crate::ingress::kept_answers;
use crate::ingress::reader::{Annotations, Reader};

/// The family.
pub(crate) const FAMILY: Family = Family::new(ANNOTATIONS, authentication).referring(refer);

const POOL: &str =
    "Fairway keeps connections to the service and uses them again, as it does with every backend";

const ANNOTATIONS: &[Known] = &[
    done("auth-always-set-cookie"),
    done("auth-cache-duration"),
    differs(
        "auth-cache-key",
        "each worker keeps answers of its own; one with `Vary` or `Expires` is not kept; only [some variables](authentication.md#answers-that-are-kept) work, and with others no answer is kept",
    ),
    needless("auth-keepalive", POOL),
    needless("auth-keepalive-requests", POOL),
    needless("auth-keepalive-share-vars", "a question shares no variables with its request: there are none"),
    needless("auth-keepalive-timeout", POOL),
    differs("auth-method", "CONNECT and TRACE answer 503"),
    differs("auth-proxy-set-headers", "of the variables only those of `auth-url` work, others answer 503"),
    differs("auth-realm", "a realm with a quote or a backslash answers 503"),
    done("auth-request-redirect"),
    done("auth-response-headers"),
    differs("auth-secret", "without `auth-type`, without a user, or in another namespace: 503"),
    differs("auth-secret-type", "any other value answers 503"),
    differs("auth-signin", "one that is no URL answers 503; ingress-nginx would answer 401"),
    done("auth-signin-redirect-param"),
    differs(
        "auth-snippet",
        "`proxy_set_header` and `proxy_*_timeout` work ([snippets](#snippets)); with any other line the paths answer 503",
    ),
    differs("auth-type", "`digest` answers 503"),
    differs(
        "auth-url",
        "a host that is a variable (`$host`) is asked through the rules that Fairway has for it; of other variables only a few work ([authentication](authentication.md#variables)), others answer 503, as does `grpc://`; each cookie of the service is a field of its own",
    ),
    done("enable-global-auth"),
    done("satisfy"),
];

/// The objects and addresses that annotations name.
fn refer(annotations: &Annotations<'_>, referenced: &mut Referenced) {
    identity::refer(annotations, referenced);
    referenced.secrets.extend(named(annotations, "auth-secret"));
    referenced.config_maps.extend(header_map(annotations));
    let url = annotations.value("auth-url").and_then(|url| ServiceUrl::read(url).ok());
    if let Some(ServiceUrl { place: UrlPlace::Host(host), .. }) = url {
        referenced.services.extend(host.service());
        referenced.addresses.extend(host.address());
    }
}

/// `namespace/name`, or a name in the Ingress's own namespace.
fn named(annotations: &Annotations<'_>, name: &str) -> Option<ObjectKey> {
    let value = annotations.value(name).filter(|value| !value.is_empty())?;
    match value.split_once('/') {
        Some((namespace, name)) => Some(ObjectKey::new(namespace, name)),
        None => Some(ObjectKey { namespace: annotations.key.namespace.clone(), name: value.into() }),
    }
}

/// The ConfigMap with headers for the service. ingress-nginx finds none by a name without a namespace.
fn header_map(annotations: &Annotations<'_>) -> Option<ObjectKey> {
    let (namespace, name) = annotations.value("auth-proxy-set-headers")?.split_once('/')?;
    Some(ObjectKey::new(namespace, name))
}

/// Reads all guards.
fn authentication(
    reader: &mut Reader<'_>,
    context: &Context<'_>,
    contributions: &mut Contributions,
) -> Result<(), Closed> {
    let basic = basic(reader, context)?;
    let read = identity::read(reader, context, contributions)?;
    let Identity { jwt, oidc, api_key, authorization, limits, late_limits, .. } = read;
    let external = external(reader, context, contributions)?.map(Box::new);
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
        // ingress-nginx: the backend never sees the password. After all guards, the service that is asked does.
        let edit = HeaderEdit { remove: vec!["authorization".into()], ..HeaderEdit::default() };
        added.add(RequestEdit::Headers(edit));
    }
    let known = [basic.is_some(), jwt.is_some(), api_key.is_some(), external.is_some()];
    let guards = known.into_iter().filter(|is_there| *is_there).count();
    let lists = if any && guards > 0 { added.take_access_lists() } else { Vec::new() };
    if lists.len() + guards > 1 && any {
        let access = lists.into_iter().next().map(|mut list| {
            // What the operator blocks no password opens.
            let blocked = &context.defaults.source_ranges.block;
            list.deny.retain(|range| !blocked.contains(range));
            list
        });
        added.block(&context.defaults.source_ranges.block);
        let open = |list: &fairway_model::AccessList| list.allow.is_empty() && list.deny.is_empty();
        // A list that held nothing but what is blocked guards nothing.
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
    // Behind all that find out who the client is, also where one of them is enough.
    authorization.into_iter().for_each(|authorization| added.add(Guard::Authorize(authorization)));
    late_limits.into_iter().for_each(|limit| added.add(Guard::RateLimit(limit)));
    Ok(())
}

/// Reads the password file.
fn basic(reader: &mut Reader<'_>, context: &Context<'_>) -> Result<Option<BasicAuth>, Closed> {
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
    let Some(key) = named(&reader.annotations(), secret) else {
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
    // What differs between two states of the Secret that are otherwise told apart by nothing that may be shown.
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

fn report_unusable(reader: &mut Reader<'_>, key: &ObjectKey, unusable: &[Unusable]) {
    let Some(first) = unusable.first() else { return };
    let what = match first.why {
        NotAHash::Unknown => "has no known format",
        NotAHash::TooSlow => "costs more to verify than is allowed",
    };
    let problem = format!("Secret {key}: {} {what}", Unusable::places(unusable));
    let found = Diagnostic::new(Severity::Warning, "unusable-password", reader.at("auth-secret"));
    reader.report(found.because(problem, "no password lets that user in"));
}

/// Reads the question to another service: the Ingress's own, else that of all.
fn external(
    reader: &mut Reader<'_>,
    context: &Context<'_>,
    contributions: &mut Contributions,
) -> Result<Option<ExternalAuth>, Closed> {
    let (question, place) = match reader.value("auth-url") {
        Some(url) => (own_question(reader, context, url)?, "auth-url"),
        None => {
            if reader.value("auth-snippet").is_some_and(|value| !value.is_empty()) {
                reader.invalid("auth-snippet", "there is no auth-url", "it has no effect");
            }
            match &context.defaults.authentication.global {
                Some(global) if takes_global(reader)? => (global.clone(), ""),
                _ => return Ok(None),
            }
        }
    };
    let Question { mut auth, host } = question;
    if let Some(host) = host {
        let own = place == "auth-url" && host.scheme == OwnScheme::Https;
        let tls = if own { upstream::tls(reader, context)? } else { Arc::default() };
        let reference = host.backend_over(context.inputs.resources, Purpose::Word, &tls);
        auth.service = AuthService::Backend { backend: reference.key.clone(), host: host.name };
        let origin = if place.is_empty() { reader.field("") } else { reader.at(place) };
        contributions.added.name_backend(reference, origin, Purpose::Word);
    }
    Ok(Some(auth))
}

/// `enable-global-auth`, which says no as ingress-nginx reads it.
fn takes_global(reader: &mut Reader<'_>) -> Result<bool, Closed> {
    let name = "enable-global-auth";
    match reader.value(name).map(|value| (value, switch(value))) {
        None => Ok(true),
        Some((_, Some(on))) => Ok(on),
        Some((value, None)) => {
            reader.invalid(name, format!("\"{value}\" is neither true nor false"), "it counts as true");
            Ok(true)
        }
    }
}

/// Reads `auth-cache-*`.
fn kept(reader: &mut Reader<'_>) -> Result<Option<KeptAuth>, Closed> {
    let (name, duration) = ("auth-cache-key", "auth-cache-duration");
    // ingress-nginx closes the paths for it, with or without a key.
    let times = kept_answers::times(reader.value(duration).unwrap_or_default())
        .map_err(|problem| Closed::invalid(reader, duration, problem))?;
    match kept_answers::key(reader.value(name).unwrap_or_default()) {
        Ok(key) => Ok(key.map(|key| KeptAuth { key, times })),
        Err(problem) => {
            reader.invalid(name, problem, "the service is asked about each request");
            Ok(None)
        }
    }
}

fn own_question(reader: &mut Reader<'_>, context: &Context<'_>, url: &str) -> Result<Question, Closed> {
    let values = AuthValues {
        url,
        method: reader.value("auth-method"),
        sign_in: reader.value("auth-signin"),
        sign_in_parameter: reader.value("auth-signin-redirect-param"),
        response_headers: reader.value("auth-response-headers"),
        request_redirect: reader.value("auth-request-redirect").filter(|value| !value.is_empty()),
        always_set_cookie: reader.switch("auth-always-set-cookie", false),
    };
    let closed = |reader: &mut Reader<'_>, Wrong { name, problem }| Closed::invalid(reader, name, problem);
    let mut question = Question::read(&values, context.defaults.forwarding.timeouts)
        .map_err(|wrong| closed(reader, wrong))?;
    question.auth.kept = kept(reader)?;
    if let Some(snippet) = snippets::question(reader, context)? {
        question.add(snippet);
    }
    for header in question.auth.copied.extract_if(.., |header| is_of_the_hop(header)) {
        let problem = format!("{header} belongs to the connection");
        reader.invalid("auth-response-headers", problem, "the backend gets that of its own request");
    }
    let name = "auth-proxy-set-headers";
    let Some(value) = reader.value(name).filter(|value| !value.is_empty()) else { return Ok(question) };
    let Some(key) = header_map(&reader.annotations()) else {
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
        if !is_header(header) {
            let problem = format!("ConfigMap {key}: \"{header}\" is no name of a header");
            return Err(Closed::invalid(reader, name, problem));
        }
        if is_of_the_hop(header) {
            let problem = format!("ConfigMap {key}: {header} belongs to the connection");
            reader.invalid(name, problem, "the service does not get it");
            continue;
        }
        // The value may be a password.
        let Ok(value) = with_variables(name, value.trim()) else {
            let problem = format!(
                "ConfigMap {key}: the value of {header} has a control character, or another variable than {}",
                variables::KNOWN
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
