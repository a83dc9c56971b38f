//! Guards that ask an authentication service: a subrequest through the same pools, before the request goes on. Only an explicit
//! yes lets the request pass; any failure refuses it.

use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use fairway_connection::sides::Downstream;
use fairway_http::{Head, Known};
use fairway_model::{Action, AuthCache, AuthService, Rule, TemplatePart, UrlScheme};
use fairway_routing::{CompiledRule, ExternalAuthCheck, GuardStep};

use super::environment::Exchange;
use super::lookup;
use super::subrequest::{self, BodylessHandler, Subrequest};
use crate::fault::Fault;
use crate::filter::{
    self, FilterContext, Verdict, copy_auth_headers, is_copied, keep_cookies, start_own_response,
};
use crate::guards::CacheTag;
use crate::network::Network;
use crate::peer::Scheme;
use crate::request::client::Client;
use crate::worker::{BuffersLease, Guards};

/// The decision of an authentication service.
#[derive(Clone, Copy)]
pub(super) enum AuthOutcome {
    /// The request may pass.
    Allowed,
    /// The request is denied with this status.
    Denied(u16),
    /// The request is denied and the client is redirected to sign in, from a location of its own as in ingress-nginx.
    SignIn,
    /// The service gave no usable decision.
    Failed(Fault),
}

/// Asks whether the request may pass. On [`AuthOutcome::Allowed`] the service's headers have been added to the request; on
/// [`AuthOutcome::Denied`] and [`AuthOutcome::SignIn`] the response is in the buffers.
pub(super) async fn call_auth_service<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    auth_check: &ExternalAuthCheck,
) -> AuthOutcome {
    let cache =
        auth_check.auth.kept.as_ref().filter(|cache| is_distinguishable(exchange.env.client.address, cache));
    let tag = cache.and_then(|cache| cache_tag(exchange, auth_check, cache));
    if let Some(cached) = tag.and_then(|tag| exchange.env.worker.guards.auth_responses.find(&tag)) {
        return apply_outcome(exchange, auth_check, &cached);
    }
    let mut subrequest = exchange.env.worker.lend_buffers();
    write_subrequest(exchange, auth_check, &mut subrequest);
    match send_subrequest(exchange, auth_check, &mut subrequest).await {
        Ok(()) => {
            if let (Some(tag), Some(cache)) = (tag, cache)
                && let Some(time) = cache_lifetime(cache, &subrequest.response)
            {
                let response = cacheable_head(auth_check, &subrequest.response);
                let bytes = size_of::<Head>() + response.kept_bytes();
                exchange.env.worker.guards.auth_responses.insert(tag, Rc::new(response), bytes, time);
            }
            apply_outcome(exchange, auth_check, &subrequest.response)
        }
        Err(Fault::ClientGone) => AuthOutcome::Failed(Fault::ClientGone),
        Err(_) if exchange.env.is_overdue() => AuthOutcome::Failed(exchange.env.overdue_fault()),
        Err(_) => AuthOutcome::Failed(Fault::Undecided),
    }
}

/// Applies the response of the service to the request.
fn apply_outcome<N: Network, D>(
    exchange: &mut Exchange<'_, '_, N, D>,
    auth_check: &ExternalAuthCheck,
    response: &Head,
) -> AuthOutcome {
    let Exchange { buffers, record, env, .. } = exchange;
    match response.status() {
        status @ 200..=299 if auth_check.auth.filter.is_none() || status == 200 => {
            keep_cookies(response, buffers);
            copy_auth_headers(auth_check, response, &mut buffers.request);
            AuthOutcome::Allowed
        }
        status @ (401 | 403) => {
            keep_cookies(response, buffers);
            record.fault = Some(Fault::Denied(status));
            match &auth_check.auth.sign_in {
                Some(sign_in) if status == 401 => {
                    let location = filter::render(sign_in, env.sources(), buffers);
                    start_own_response(buffers, 302, None);
                    buffers.response.append(b"Location", &location);
                    if env.rule().is_location() {
                        return AuthOutcome::SignIn;
                    }
                }
                _ => start_own_response(buffers, status, Some(Fault::Denied(status).label())),
            }
            // "A server generating a 401 response MUST send a WWW-Authenticate header field" (RFC 9110 §11.6.1).
            if buffers.response.status() == 401 {
                for challenge in response.all_named(b"WWW-Authenticate") {
                    buffers.response.append(b"WWW-Authenticate", challenge);
                }
            }
            AuthOutcome::Denied(status)
        }
        _ => AuthOutcome::Failed(Fault::Undecided),
    }
}

/// Whether the cache key identifies the client: all clients with an unknown address would share one.
fn is_distinguishable(client: Option<IpAddr>, cache: &AuthCache) -> bool {
    client.is_some() || !cache.key.0.contains(&TemplatePart::Address)
}

/// The cache tag: the rule, the service, the host and the configured key, so that a weak key cannot open another path. `None`
/// if the key does not distinguish the request from others.
fn cache_tag<N: Network, D>(
    exchange: &Exchange<'_, '_, N, D>,
    auth_check: &ExternalAuthCheck,
    cache: &AuthCache,
) -> Option<CacheTag> {
    let Exchange { env, buffers, .. } = exchange;
    let Rule { origin, labels, .. } = env.rule().rule();
    let key = filter::cache_key(&cache.key, env.sources(), buffers)?;
    let parts = [
        auth_check.identity.as_bytes(),
        origin.kind.as_bytes(),
        origin.namespace.as_bytes(),
        origin.name.as_bytes(),
        origin.field.as_bytes(),
        labels.path.as_bytes(),
        buffers.host.as_bytes(),
        &key,
    ];
    Some(env.worker.guards.auth_responses.tag(&parts))
}

/// How long a response may be cached. Its own headers come first (nginx `proxy_cache_valid`); a response that may be specific
/// to one request is not cached.
fn cache_lifetime(cache: &AuthCache, response: &Head) -> Option<Duration> {
    const UNCACHEABLE_HEADERS: [&[u8]; 3] = [b"Set-Cookie", b"Vary", b"Expires"];
    if UNCACHEABLE_HEADERS.iter().any(|name| response.named(name).is_some()) {
        return None;
    }
    let seconds = |text: &str| text.parse().ok().map(Duration::from_secs);
    let header_text =
        |name: &[u8]| response.named(name).map(|value| std::str::from_utf8(value).unwrap_or_default());
    let by_status = || {
        let fits = |(status, _): &&(Option<u16>, Duration)| status.is_none_or(|it| it == response.status());
        cache.times.iter().find(fits).map(|(_, time)| *time)
    };
    let time = match header_text(b"X-Accel-Expires") {
        Some(text) => seconds(text.trim()),
        None => {
            let mut time = by_status();
            for control in response.all_named(b"Cache-Control") {
                let control = std::str::from_utf8(control).ok()?.to_ascii_lowercase();
                for directive in control.split(',').map(str::trim) {
                    match directive.split_once('=').unwrap_or((directive, "")) {
                        ("no-cache" | "no-store" | "private", _) => return None,
                        ("max-age" | "s-maxage", age) => time = Some(seconds(age.trim_matches('"'))?),
                        _ => {}
                    }
                }
            }
            time
        }
    };
    time.filter(|time| !time.is_zero())
}

/// The headers of a response that are used when it is served from the cache.
fn cacheable_head(auth_check: &ExternalAuthCheck, response: &Head) -> Head {
    let mut used = Head::new();
    used.start_response(response.status());
    for field in response.fields() {
        if is_copied(auth_check, field.name) || field.name.eq_ignore_ascii_case(b"WWW-Authenticate") {
            used.append(field.name, field.value);
        }
    }
    used
}

/// Sends the subrequest to the service.
async fn send_subrequest<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    auth_check: &ExternalAuthCheck,
    subrequest: &mut BuffersLease<N>,
) -> Result<(), Fault> {
    let Exchange { env, client_side, .. } = exchange;
    let mut intake = subrequest::check(subrequest)?;
    let (rule, client) = match (&auth_check.rule, &auth_check.auth.service) {
        (Some(rule), _) => (rule, env.client),
        (None, AuthService::Backend { .. }) => return Err(Fault::NoBackend),
        (None, AuthService::OwnHost { scheme }) => {
            let client = client_with_scheme(*scheme, &env.client);
            let table = env.adopted.listener(client_side.peer.listener).ok_or(Fault::NoRoute)?.table;
            let (_, rule, prefix) =
                lookup::lookup(env.adopted, table, &intake, subrequest).ok_or(Fault::NoRoute)?;
            intake.set_matched_prefix(prefix);
            let Guards { counts, fleet, .. } = &env.worker.guards;
            let peer = &client_side.peer;
            let context = FilterContext {
                intake: &intake,
                client: &client,
                scheme: peer.scheme,
                proof: peer.proof(),
                counts,
                fleet,
                tokens: None,
                logins: None,
                https_port: 0,
            };
            run_request_steps(rule, &context, subrequest)?;
            (rule, client)
        }
    };
    let subrequest = Subrequest { rule, intake, client, buffers: subrequest };
    let peer = client_side.peer.clone();
    subrequest::run(env, peer, subrequest, &mut BodylessHandler(&mut client_side.down)).await
}

/// The client as the rules of its own host see it in a subrequest with `scheme`.
fn client_with_scheme(scheme: Option<UrlScheme>, client: &Client) -> Client {
    let scheme = match scheme {
        None => return *client,
        Some(UrlScheme::Http) => Scheme::Http,
        Some(UrlScheme::Https) => Scheme::Https,
    };
    let port = scheme.default_port();
    Client { scheme, is_plain_http: scheme == Scheme::Http, port, link_port: port, ..*client }
}

/// Runs the steps of the rule that serves the subrequest. A guard that would wait fails it: two rules could otherwise wait for
/// each other.
fn run_request_steps<N: Network>(
    rule: &CompiledRule,
    context: &FilterContext<'_>,
    subrequest: &mut BuffersLease<N>,
) -> Result<(), Fault> {
    let mut next = 0;
    loop {
        return match filter::on_request(rule, next, context, subrequest) {
            // Forwarding checks for endpoints itself.
            Verdict::Wait(GuardStep::Endpoint, then) => {
                next = then;
                continue;
            }
            Verdict::Pass if matches!(rule.rule().action, Action::Forward(_)) => Ok(()),
            Verdict::Refused(fault) | Verdict::RefusedByHost(fault) => Err(fault),
            Verdict::Pass | Verdict::Responded(_) | Verdict::Wait(..) | Verdict::TooEarly => {
                Err(Fault::Undecided)
            }
        };
    }
}

/// Writes the head of the subrequest: the headers of the request that make sense without its body, and what it asked for.
fn write_subrequest<N: Network, D>(
    exchange: &Exchange<'_, '_, N, D>,
    auth_check: &ExternalAuthCheck,
    subrequest: &mut BuffersLease<N>,
) {
    let Exchange { env, buffers, .. } = exchange;
    let (auth, request) = (&auth_check.auth, &buffers.request);
    let write = |template| filter::render(template, env.sources(), buffers);
    let request_host = request.first(Known::Host).unwrap_or_default();
    let host = match (&auth.service, &auth.filter) {
        (AuthService::Backend { host, .. }, None) => host.as_bytes(),
        (AuthService::OwnHost { .. }, _) | (_, Some(_)) => request_host,
    };
    let extras = subrequest.extras.write();
    // The endpoint gets the host that the client asked for.
    extras.host.extend_from_slice(request_host);
    let method = auth.method.as_ref().map_or(request.method_bytes(), |method| method.as_bytes());
    let head: &mut Head = &mut subrequest.request;
    head.start_request(method, &write(&auth.target));
    head.append(b"Host", host);
    let dropped = Known::Host.bit() | Known::ContentLength.bit() | Known::Expect.bit();
    let is_sent = |name: &[u8]| match &auth.filter {
        Some(filter) => filter.sent.iter().any(|sent| name.eq_ignore_ascii_case(sent.as_bytes())),
        None => !is_reserved_header(name),
    };
    head.copy_fields(request, |field| dropped & field.known.bit() == 0 && is_sent(field.name));
    filter::remove_login_cookies(head);
    if auth.filter.is_some() {
        return;
    }
    let target = env.intake.received(buffers);
    head.append_with(b"X-Original-URL", |value| {
        let parts = [env.client.scheme.as_str().as_bytes(), b"://", request_host, target];
        parts.iter().for_each(|part| value.extend_from_slice(part));
    });
    head.append(b"X-Original-URI", target);
    head.append(b"X-Original-Method", request.method_bytes());
    head.append(b"X-Sent-From", b"nginx-ingress-controller");
    match &auth.redirect {
        Some(redirect) => head.append(b"X-Auth-Request-Redirect", &write(redirect)),
        None => head.append(b"X-Auth-Request-Redirect", target),
    }
    for (name, value) in &auth.fields {
        match &*write(value) {
            // nginx sends no header without a value.
            [] => head.remove(name.as_bytes()),
            value => head.set(name.as_bytes(), value),
        }
    }
}

/// Whether only Fairway may set this header in a subrequest.
fn is_reserved_header(name: &[u8]) -> bool {
    let reserved: [&[u8]; 5] = [
        b"X-Original-URL",
        b"X-Original-URI",
        b"X-Original-Method",
        b"X-Sent-From",
        b"X-Auth-Request-Redirect",
    ];
    reserved.iter().any(|own| name.eq_ignore_ascii_case(own))
}
