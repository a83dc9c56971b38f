//! Explains a recorded request from the flight recorder of a running process.

use std::fmt::Write;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use fairway_model::on_one_line;
use fairway_proxy::{RecordedAttempt, RecordedExchange, RecordedUpstream};
use serde::Deserialize;

use super::chain;
use crate::admin_client;

/// The page `/requests`.
#[derive(Deserialize)]
struct Page {
    exchanges: Vec<RecordedExchange>,
}

/// Queries the process with the admin address `admin` and appends each exchange with this `X-Request-ID`.
///
/// # Errors
/// The process does not respond, or has recorded no such request.
pub(super) fn explain_recorded(out: &mut String, admin: SocketAddr, request_id: &str) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let path = path(request_id);
    let body = runtime.block_on(admin_client::page(admin, &path))?;
    let exchanges = read(&body).with_context(|| format!("--admin {admin}: {path}"))?;
    if exchanges.is_empty() {
        bail!(
            "--admin {admin}: no request with X-Request-ID {request_id:?} is recorded here: another replica served it, it is \
             older than --recorder-time, or more than --recorder-exchanges requests followed it"
        );
    }
    for (number, exchange) in exchanges.iter().enumerate() {
        if number > 0 {
            out.push('\n');
        }
        write(out, exchange);
    }
    Ok(())
}

/// The path of the admin page with the requests that have this `X-Request-ID`.
pub(crate) fn path(request_id: &str) -> String {
    let id: String = form_urlencoded::byte_serialize(request_id.as_bytes()).collect();
    format!("/requests?id={id}")
}

/// Parses the exchanges of that page.
///
/// # Errors
/// The page has another format.
pub(crate) fn read(page: &[u8]) -> Result<Vec<RecordedExchange>> {
    let page: Page = serde_json::from_slice(page)?;
    Ok(page.exchanges)
}

/// Appends a recorded exchange. Writing to a String cannot fail.
pub(crate) fn write(out: &mut String, it: &RecordedExchange) {
    let query = if it.has_query { "?..." } else { "" };
    let target = format!("{} {}://{}{}{query}", it.method, it.scheme, it.host, it.path);
    _ = writeln!(out, "{}\n", on_one_line(&target));
    row(out, "received", &format!("{} over {} by configuration {}", it.time, it.version, it.configuration));
    let client = it.client.map_or_else(|| "unknown".to_owned(), |client| client.to_string());
    let agent = it.user_agent.as_ref().map(|agent| format!(", {agent}")).unwrap_or_default();
    row(out, "client", &format!("{client}{agent}"));
    match &it.rule {
        Some(rule) => {
            let field = if rule.field.is_empty() { String::new() } else { format!(" {}", rule.field) };
            row(out, "rule", &format!("{} {}/{}{field}", rule.kind, rule.namespace, rule.name));
        }
        None => row(out, "rule", "none"),
    }
    for (number, attempt) in it.failed_attempts.iter().enumerate() {
        row(out, if number == 0 { "attempts" } else { "" }, &failed_attempt(attempt));
    }
    if let Some(upstream) = &it.upstream {
        row(out, "endpoint", &last_attempt(upstream));
    }
    row(out, "outcome", &outcome(it));
    if let Some(description) = &it.description {
        let cause = it.caused_by.as_deref().unwrap_or_default();
        row(out, "because", &format!("{description} (caused by: {cause})"));
    }
    if let Some(account) = it.attribution.as_ref().filter(|account| Some(*account) != it.caused_by.as_ref()) {
        row(out, "account", account);
    }
    let waited = match it.waited_us {
        0 => String::new(),
        waited => format!(", {} of it waiting for guards", duration_text(waited)),
    };
    row(out, "took", &format!("{}{waited}", duration_text(it.took_us)));
    let RecordedExchange { request_bytes, response_bytes, sent_bytes, .. } = it;
    row(
        out,
        "bytes",
        &format!("request {request_bytes}, response body {response_bytes}, sent to the client {sent_bytes}"),
    );
}

fn outcome(it: &RecordedExchange) -> String {
    let reason = it.reason.as_ref().map(|reason| format!(", reason {reason}")).unwrap_or_default();
    let grpc = it.grpc_status.map(|status| format!(", grpc-status {status}")).unwrap_or_default();
    match it.status {
        0 => format!("no response{reason}"),
        status => format!("status {status}{grpc}{reason}"),
    }
}

fn failed_attempt(it: &RecordedAttempt) -> String {
    let failure = match (&it.reason, it.status) {
        (Some(reason), _) => reason.clone(),
        (None, Some(status)) => format!("status {status}, retried on another endpoint"),
        (None, None) => "no response".to_owned(),
    };
    format!("{}: {failure} after {}", it.endpoint, duration_text(it.after_us))
}

fn last_attempt(it: &RecordedUpstream) -> String {
    let connected = match it.connect_us {
        0 => "on an open connection".to_owned(),
        took => format!("connected in {}", duration_text(took)),
    };
    let hedged = if it.hedged { ", with a second connect to another endpoint" } else { "" };
    match it.status {
        Some(status) => format!(
            "{}: status {status}, {connected}{hedged}, head after {}, end after {}, attempt {}",
            it.endpoint,
            duration_text(it.header_us),
            duration_text(it.response_us),
            it.attempts,
        ),
        None => format!(
            "{}: no response in {}, attempt {}",
            it.endpoint,
            duration_text(it.response_us),
            it.attempts
        ),
    }
}

fn duration_text(micros: u64) -> String {
    format!("{:?}", Duration::from_micros(micros))
}

/// The process at the admin address is not trusted, so its text must not start a new line.
fn row(out: &mut String, label: &str, text: &str) {
    chain::row(out, label, &on_one_line(text));
}
