//! An exchange made again, and where its outcome is not the recorded one. Judges nothing: every deviation is told.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use fairway_testkit::certificates::trusting_anything;
use fairway_testkit::client::{Client, RawResponse, Request, TlsOffer};
use fairway_testkit::process::Fairway;
use serde_json::Value;

use crate::recorded::case::{Answered, Asked, Exchange, Upstream};

/// What the recording left out, and the framing of the echo server's bodies.
const NOT_COMPARED: &[&str] = &["date", "connection", "content-length", "keep-alive", "transfer-encoding"];

/// One thing that is not as recorded: `what: recorded -> now`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Deviation {
    pub(crate) what: String,
    pub(crate) recorded: String,
    pub(crate) now: String,
}

/// Makes `exchange` again and gives what differs. `secret` is the certificate that must be shown, where there is one.
pub(crate) async fn replay(fairway: &Fairway, exchange: &Exchange, secret: Option<&[u8]>) -> Vec<Deviation> {
    match ask(fairway, &exchange.request).await {
        Ok((answer, shown)) => {
            let mut found = deviations(&exchange.answer, &answer);
            if shown.is_some() && secret.is_some_and(|secret| shown.as_deref() != Some(secret)) {
                found.push(deviation("certificate", "that of the Secret", "another"));
            }
            found
        }
        Err(error) => vec![deviation("the exchange", "an answer", error.to_string())],
    }
}

/// Makes the request of a recorded exchange; gives the answer and the certificate that was shown.
pub(crate) async fn ask(fairway: &Fairway, asked: &Asked) -> io::Result<(RawResponse, Option<Vec<u8>>)> {
    let mut client = match asked.scheme.as_str() {
        "https" => {
            let offer = TlsOffer::new(trusting_anything(), &asked.host);
            Client::connect_tls(fairway.https, &offer).await?
        }
        _ => Client::connect(fairway.http).await?,
    };
    let shown = client.tls().and_then(|tls| tls.chain.first().map(|leaf| leaf.to_vec()));
    let mut request = Request::new(&asked.method, &asked.target).header("Host", &asked.host);
    for (name, value) in &asked.headers {
        request = request.header(name, value);
    }
    match (&asked.body, asked.body_size) {
        (Some(body), _) => request = request.body(body.as_str()),
        (None, Some(size)) => request = request.body(vec![b'x'; size]),
        (None, None) => {}
    }
    Ok((client.exchange(&request).await?, shown))
}

fn deviations(recorded: &Answered, now: &RawResponse) -> Vec<Deviation> {
    let mut found = Vec::new();
    note(&mut found, "status", &recorded.status, &now.status);
    headers(&mut found, recorded, now);
    let seen = (now.header_values("content-type") == ["application/json"])
        .then(|| serde_json::from_slice::<Value>(&now.body).ok())
        .flatten();
    match (&recorded.upstream, seen) {
        (Some(recorded), Some(seen)) => upstream(&mut found, recorded, &seen),
        (Some(recorded), None) => found.push(deviation("upstream", &recorded.backend, "none")),
        (None, Some(seen)) => found.push(deviation("upstream", "none", text(&seen["service"]))),
        (None, None) => {}
    }
    // Bodies were recorded in part only.
    if let Some(body) = recorded.body.as_deref().filter(|body| !is_page_of_nginx(body) && body.len() < 200) {
        note(&mut found, "body", &body, &now.text());
    }
    found
}

/// HTML of nginx itself, which need not be the same.
fn is_page_of_nginx(body: &str) -> bool {
    body.starts_with("<html>")
}

fn headers(found: &mut Vec<Deviation>, recorded: &Answered, now: &RawResponse) {
    let own = recorded.body.as_deref().is_some_and(is_page_of_nginx);
    let compared = |name: &str| !(NOT_COMPARED.contains(&name) || own && name == "content-type");
    let recorded = by_name(recorded.headers.iter().filter(|(name, _)| compared(name)));
    let now = now.headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone()));
    let now = now.map(|(name, value)| match name.as_str() {
        "set-cookie" => (name, without_value(&value, &recorded)),
        _ => (name, value),
    });
    let now: Vec<_> = now.filter(|(name, _)| compared(name)).collect();
    maps(found, "header", &recorded, &by_name(now.iter()));
}

/// A cookie as the recording has it, which left out values and dates that are new each time.
fn without_value(cookie: &str, recorded: &BTreeMap<String, Vec<String>>) -> String {
    let recorded = recorded.get("set-cookie").into_iter().flatten();
    let mut parts: Vec<_> = cookie.split("; ").map(str::to_owned).collect();
    let name = parts[0].split('=').next().unwrap_or_default().to_owned();
    let left_out = format!("{name}=<value>");
    if recorded.filter_map(|recorded| recorded.split("; ").next()).any(|first| first == left_out) {
        parts[0] = left_out;
        let dates = parts.iter_mut().filter(|part| part.starts_with("Expires=") && part.ends_with(" GMT"));
        dates.for_each(|date| *date = "Expires=<date>".to_owned());
    }
    parts.join("; ")
}

fn by_name<'a>(fields: impl Iterator<Item = &'a (String, String)>) -> BTreeMap<String, Vec<String>> {
    let mut map: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in fields {
        map.entry(name.clone()).or_default().push(value.clone());
    }
    map
}

fn upstream(found: &mut Vec<Deviation>, recorded: &Upstream, seen: &Value) {
    for (what, recorded, field) in [
        ("upstream", &recorded.backend, "service"),
        ("upstream method", &recorded.method, "method"),
        ("upstream target", &recorded.target, "path"),
        ("upstream host", &recorded.host, "host"),
    ] {
        note(found, what, recorded, &text(&seen[field]));
    }
    let mut now: BTreeMap<String, Vec<String>> = serde_json::from_value(seen["headers"].clone()).unwrap();
    for (name, values) in &recorded.headers {
        let generated = now.get_mut(name).filter(|_| values == &["<generated>"]);
        if let Some([value]) = generated.map(Vec::as_mut_slice)
            && !value.is_empty()
        {
            *value = "<generated>".to_owned();
        }
    }
    maps(found, "upstream header", &recorded.headers, &now);
}

fn maps(
    found: &mut Vec<Deviation>,
    what: &str,
    recorded: &BTreeMap<String, Vec<String>>,
    now: &BTreeMap<String, Vec<String>>,
) {
    let shown = |values: Option<&Vec<String>>| values.map_or("none".to_owned(), |values| values.join(" | "));
    for name in recorded.keys().chain(now.keys()).collect::<BTreeSet<_>>() {
        note(found, &format!("{what} {name}"), &shown(recorded.get(name)), &shown(now.get(name)));
    }
}

fn note(found: &mut Vec<Deviation>, what: &str, recorded: &impl ToString, now: &impl ToString) {
    let (recorded, now) = (recorded.to_string(), now.to_string());
    if recorded != now {
        found.push(deviation(what, &shortened(recorded), shortened(now)));
    }
}

/// Long values say only how they begin and how long they are.
fn shortened(value: String) -> String {
    match value.char_indices().nth(80) {
        Some(_) => format!("{}... ({} bytes)", value.chars().take(8).collect::<String>(), value.len()),
        None => value,
    }
}

fn deviation(what: &str, recorded: &str, now: impl Into<String>) -> Deviation {
    Deviation { what: what.to_owned(), recorded: recorded.to_owned(), now: now.into() }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
