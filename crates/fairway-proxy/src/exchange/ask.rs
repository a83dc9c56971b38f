//! Steps that wait for another service's word: a question of their own, through the same pools, before the request goes on.
//! Only a service that says so lets a request pass; whatever else happens keeps it out.

use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use fairway_connection::sides::Downstream;
use fairway_http::{Head, Known};
use fairway_model::{Action, AuthService, KeptAuth, OwnScheme, Rule, TemplatePart};
use fairway_routing::{Asking, CompiledRule, GuardStep};

use super::environment::Exchange;
use super::lookup;
use super::subrequest::{self, Asker, Question};
use crate::fault::Fault;
use crate::filter::{self, FilterContext, Verdict, is_copied, keep_cookies, own_answer, vouch};
use crate::guards::Tag;
use crate::network::Network;
use crate::peer::Scheme;
use crate::request::client::Client;
use crate::worker::{Guards, Loan};

/// What a service says.
#[derive(Clone, Copy)]
pub(super) enum Answer {
    /// The request may pass.
    Yes,
    /// It may not, with this status.
    No(u16),
    /// It may not, and the client is sent to sign in, in a place of its own as in ingress-nginx.
    SignIn,
    /// It said neither.
    None(Fault),
}

/// Asks whether the request may pass. On [`Answer::Yes`] the request has the service's word in it; on [`Answer::No`] and
/// [`Answer::SignIn`] the answer stands in the buffers.
pub(super) async fn ask<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    asking: &Asking,
) -> Answer {
    let kept = asking.auth.kept.as_ref().filter(|kept| is_told_apart(exchange.env.client.address, kept));
    let tag = kept.and_then(|kept| tag(exchange, asking, kept));
    if let Some(kept) = tag.and_then(|tag| exchange.env.worker.guards.answers.find(&tag)) {
        return heed(exchange, asking, &kept);
    }
    let mut question = exchange.env.worker.lend_buffers();
    write_question(exchange, asking, &mut question);
    match put(exchange, asking, &mut question).await {
        Ok(()) => {
            if let (Some(tag), Some(kept)) = (tag, kept)
                && let Some(time) = time(kept, &question.answer)
            {
                let answer = what_is_used(asking, &question.answer);
                let bytes = size_of::<Head>() + answer.kept_bytes();
                exchange.env.worker.guards.answers.keep(tag, Rc::new(answer), bytes, time);
            }
            heed(exchange, asking, &question.answer)
        }
        Err(Fault::ClientGone) => Answer::None(Fault::ClientGone),
        Err(_) if exchange.env.is_overdue() => Answer::None(exchange.env.overdue()),
        Err(_) => Answer::None(Fault::Undecided),
    }
}

/// Does what the head of a service's answer says.
fn heed<N: Network, D>(exchange: &mut Exchange<'_, '_, N, D>, asking: &Asking, answer: &Head) -> Answer {
    let Exchange { buffers, record, env, .. } = exchange;
    match answer.status() {
        status @ 200..=299 if asking.auth.filter.is_none() || status == 200 => {
            keep_cookies(answer, buffers);
            vouch(asking, answer, &mut buffers.request);
            Answer::Yes
        }
        status @ (401 | 403) => {
            keep_cookies(answer, buffers);
            record.fault = Some(Fault::Denied(status));
            match &asking.auth.sign_in {
                Some(sign_in) if status == 401 => {
                    let location = filter::text(sign_in, env.sources(), buffers);
                    own_answer(buffers, 302, None);
                    buffers.answer.append(b"Location", &location);
                    if env.rule().is_location() {
                        return Answer::SignIn;
                    }
                }
                _ => own_answer(buffers, status, Some(Fault::Denied(status).label())),
            }
            // "A server generating a 401 response MUST send a WWW-Authenticate header field" (RFC 9110 §11.6.1).
            if buffers.answer.status() == 401 {
                for challenge in answer.all_named(b"WWW-Authenticate") {
                    buffers.answer.append(b"WWW-Authenticate", challenge);
                }
            }
            Answer::No(status)
        }
        _ => Answer::None(Fault::Undecided),
    }
}

/// Whether the key tells the client from others: an address that is unknown would be one for all of them.
fn is_told_apart(client: Option<IpAddr>, kept: &KeptAuth) -> bool {
    client.is_some() || !kept.key.0.contains(&TemplatePart::Address)
}

/// What a request has in common with those that get the same answer: the rule, the question and the host besides the key, so
/// that no key, however careless, opens another path. `None` where the key does not tell the request from others.
fn tag<N: Network, D>(exchange: &Exchange<'_, '_, N, D>, asking: &Asking, kept: &KeptAuth) -> Option<Tag> {
    let Exchange { env, buffers, .. } = exchange;
    let Rule { origin, labels, .. } = env.rule().rule();
    let key = filter::compared(&kept.key, env.sources(), buffers)?;
    let parts = [
        asking.identity.as_bytes(),
        origin.kind.as_bytes(),
        origin.namespace.as_bytes(),
        origin.name.as_bytes(),
        origin.field.as_bytes(),
        labels.path.as_bytes(),
        buffers.host.as_bytes(),
        &key,
    ];
    Some(env.worker.guards.answers.tag(&parts))
}

/// For how long an answer holds for other requests; what it says itself comes first (nginx `proxy_cache_valid`), and what may
/// make it one request's own keeps it from being kept.
fn time(kept: &KeptAuth, answer: &Head) -> Option<Duration> {
    const OWN: [&[u8]; 3] = [b"Set-Cookie", b"Vary", b"Expires"];
    if OWN.iter().any(|name| answer.named(name).is_some()) {
        return None;
    }
    let seconds = |text: &str| text.parse().ok().map(Duration::from_secs);
    let said = |name: &[u8]| answer.named(name).map(|value| std::str::from_utf8(value).unwrap_or_default());
    let by_status = || {
        let fits = |(status, _): &&(Option<u16>, Duration)| status.is_none_or(|it| it == answer.status());
        kept.times.iter().find(fits).map(|(_, time)| *time)
    };
    let time = match said(b"X-Accel-Expires") {
        Some(text) => seconds(text.trim()),
        None => {
            let mut time = by_status();
            for control in answer.all_named(b"Cache-Control") {
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

/// The parts of an answer that matter for other requests.
fn what_is_used(asking: &Asking, answer: &Head) -> Head {
    let mut used = Head::new();
    used.start_response(answer.status());
    for field in answer.fields() {
        if is_copied(asking, field.name) || field.name.eq_ignore_ascii_case(b"WWW-Authenticate") {
            used.append(field.name, field.value);
        }
    }
    used
}

/// Puts the question to whoever decides.
async fn put<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    asking: &Asking,
    question: &mut Loan<N>,
) -> Result<(), Fault> {
    let Exchange { env, client_side, .. } = exchange;
    let mut intake = subrequest::intake(question)?;
    let (rule, client) = match (&asking.rule, &asking.auth.service) {
        (Some(rule), _) => (rule, env.client),
        (None, AuthService::Backend { .. }) => return Err(Fault::NoBackend),
        (None, AuthService::OwnHost { scheme }) => {
            let client = seen_with(*scheme, &env.client);
            let table = env.adopted.listener(client_side.peer.listener).ok_or(Fault::NoRoute)?.table;
            let (_, rule, prefix) =
                lookup::lookup(env.adopted, table, &intake, question).ok_or(Fault::NoRoute)?;
            intake.matched(prefix);
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
            follow(rule, &context, question)?;
            (rule, client)
        }
    };
    let question = Question { rule, intake, client, buffers: question };
    let peer = client_side.peer.clone();
    subrequest::run(env, peer, question, &mut Asker(&mut client_side.down)).await
}

/// The client as the rules of its own host see a question that is asked with `scheme`.
fn seen_with(scheme: Option<OwnScheme>, client: &Client) -> Client {
    let scheme = match scheme {
        None => return *client,
        Some(OwnScheme::Http) => Scheme::Http,
        Some(OwnScheme::Https) => Scheme::Https,
    };
    let port = scheme.default_port();
    Client { scheme, in_the_clear: scheme == Scheme::Http, port, link_port: port, ..*client }
}

/// Runs the steps of a rule that answers a question. One that would wait for a word itself gives none: two rules could wait for
/// each other.
fn follow<N: Network>(
    rule: &CompiledRule,
    context: &FilterContext<'_>,
    question: &mut Loan<N>,
) -> Result<(), Fault> {
    let mut next = 0;
    loop {
        return match filter::on_request(rule, next, context, question) {
            // Forwarding finds out that there is none.
            Verdict::Wait(GuardStep::Endpoint, then) => {
                next = then;
                continue;
            }
            Verdict::Pass if matches!(rule.rule().action, Action::Forward(_)) => Ok(()),
            Verdict::Refused(fault) | Verdict::RefusedByHost(fault) => Err(fault),
            Verdict::Pass | Verdict::Answered(_) | Verdict::Wait(..) | Verdict::TooEarly => {
                Err(Fault::Undecided)
            }
        };
    }
}

/// The request's fields, as far as they say something without its body, and what was asked for.
fn write_question<N: Network, D>(exchange: &Exchange<'_, '_, N, D>, asking: &Asking, question: &mut Loan<N>) {
    let Exchange { env, buffers, .. } = exchange;
    let (auth, request) = (&asking.auth, &buffers.request);
    let write = |template| filter::text(template, env.sources(), buffers);
    let own = request.first(Known::Host).unwrap_or_default();
    let host = match (&auth.service, &auth.filter) {
        (AuthService::Backend { host, .. }, None) => host.as_bytes(),
        (AuthService::OwnHost { .. }, _) | (_, Some(_)) => own,
    };
    let forms = question.forms.write();
    // The endpoint is told which host the client asked for.
    forms.host.extend_from_slice(own);
    let method = auth.method.as_ref().map_or(request.method_bytes(), |method| method.as_bytes());
    let head: &mut Head = &mut question.request;
    head.start_request(method, &write(&auth.target));
    head.append(b"Host", host);
    let dropped = Known::Host.bit() | Known::ContentLength.bit() | Known::Expect.bit();
    let is_sent = |name: &[u8]| match &auth.filter {
        Some(filter) => filter.sent.iter().any(|sent| name.eq_ignore_ascii_case(sent.as_bytes())),
        None => !is_own(name),
    };
    head.copy_fields(request, |field| dropped & field.known.bit() == 0 && is_sent(field.name));
    filter::remove_login_cookies(head);
    if auth.filter.is_some() {
        return;
    }
    let target = env.intake.received(buffers);
    head.append_with(b"X-Original-URL", |value| {
        let parts = [env.client.scheme.as_str().as_bytes(), b"://", own, target];
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
            // nginx sends no field without a value.
            [] => head.remove(name.as_bytes()),
            value => head.set(name.as_bytes(), value),
        }
    }
}

/// Whether a field says to the service what Fairway alone may say.
fn is_own(name: &[u8]) -> bool {
    let own: [&[u8]; 5] = [
        b"X-Original-URL",
        b"X-Original-URI",
        b"X-Original-Method",
        b"X-Sent-From",
        b"X-Auth-Request-Redirect",
    ];
    own.iter().any(|own| name.eq_ignore_ascii_case(own))
}
