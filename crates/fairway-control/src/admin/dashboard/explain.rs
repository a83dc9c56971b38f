//! The form that explains how a request is served, and its result.

use hyper::StatusCode;
use serde::Serialize;

use super::caller_text::{ConfigDescriber, ExplainedRequest};
use super::page::Page;
use super::problem::Problem;
use super::query::Query;
use crate::pipeline::View;

#[derive(Serialize)]
struct Explain<'q> {
    url: &'q str,
    method: &'q str,
    headers: &'q str,
    /// The explanation; `None` before the form is submitted.
    text: Option<String>,
    /// Why no client could send the request.
    problem: Option<String>,
}

/// The form and its result.
pub(super) fn page(view: &View, words: &dyn ConfigDescriber, query: &Query) -> Result<Page, Problem> {
    let (url, method) = (query.value("url"), query.value("method").unwrap_or("GET"));
    let headers = query.value("headers").unwrap_or_default();
    if !method.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)) {
        return Err(Problem::bad_parameter("method", format!("{method:?} is no method (RFC 9110 §9.1)")));
    }
    let ask = |url: &str| {
        let lines = headers.lines().map(str::trim).filter(|line| !line.is_empty());
        let headers = lines.map(str::to_owned).collect();
        words.explain(view, &ExplainedRequest { url: url.to_owned(), method: method.to_owned(), headers })
    };
    let (text, problem) = match url.map(ask) {
        None => (None, None),
        Some(Ok(text)) => (Some(text), None),
        Some(Err(problem)) => (None, Some(problem)),
    };
    let status = if problem.is_some() { StatusCode::BAD_REQUEST } else { StatusCode::OK };
    let content = Explain { url: url.unwrap_or_default(), method, headers, text, problem };
    Ok(Page { status, ..Page::new("explain.html", "explain", "Explain a request", content) })
}
