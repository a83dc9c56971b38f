//! The admin server's pages: a request line in, an answer out.

use std::pin::Pin;

use fairway_model::Config;
use fairway_translate::Diagnostic;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Response, StatusCode, Uri};
use serde::Serialize;

use super::{Readiness, metrics};
use crate::pipeline::{View, Viewer};

/// A whole answer.
pub type Body = Full<Bytes>;
/// Asks for the data plane's metrics.
pub type MetricsText = Box<dyn Fn() -> Pin<Box<dyn Future<Output = String> + Send>> + Send + Sync>;

/// Where the pages take their content from.
pub struct Pages {
    /// The control side.
    pub viewer: Viewer,
    /// Whether traffic is welcome.
    pub readiness: Box<dyn Fn() -> Readiness + Send + Sync>,
    /// The data plane's metrics as Prometheus text.
    pub metrics: MetricsText,
}

/// The answer of `/config`.
#[derive(Serialize)]
struct ConfigPage<'a> {
    version: u64,
    config: &'a Config,
    diagnostics: Vec<&'a Diagnostic>,
}

const INDEX: &str = "<!doctype html><title>Fairway</title><h1>Fairway</h1><ul>\
<li><a href=\"/healthz\">/healthz</a> the process lives\
<li><a href=\"/readyz\">/readyz</a> every worker serves a configuration\
<li><a href=\"/metrics\">/metrics</a> Prometheus text\
<li><a href=\"/config\">/config</a> the active configuration and its diagnostics as JSON, without secrets\
</ul>\n";

const TEXT: &str = "text/plain; charset=utf-8";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

impl Pages {
    /// The answer to `method uri`.
    pub async fn answer(&self, method: &Method, uri: &Uri) -> Response<Body> {
        if method != Method::GET && method != Method::HEAD {
            let mut answer = page(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET and HEAD\n".into());
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return answer;
        }
        match uri.path() {
            "/" => page(StatusCode::OK, "text/html; charset=utf-8", INDEX.into()),
            "/healthz" => page(StatusCode::OK, TEXT, "ok\n".into()),
            "/readyz" => self.readyz(),
            "/metrics" => self.metrics().await,
            "/config" => self.config(),
            _ => page(StatusCode::NOT_FOUND, TEXT, "no such page; / lists them\n".into()),
        }
    }

    fn readyz(&self) -> Response<Body> {
        let readiness = (self.readiness)();
        let status = if readiness.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        page(status, TEXT, format!("{readiness}\n"))
    }

    async fn metrics(&self) -> Response<Body> {
        let mut text = self.viewer.view().map(|view| metrics::text(&view)).unwrap_or_default();
        text.push_str(&(self.metrics)().await);
        page(StatusCode::OK, PROMETHEUS, text)
    }

    fn config(&self) -> Response<Body> {
        match self.viewer.view().map(|view| config_json(&view)) {
            Some(Ok(json)) => page(StatusCode::OK, "application/json", json),
            Some(Err(error)) => page(StatusCode::INTERNAL_SERVER_ERROR, TEXT, format!("{error}\n")),
            None => page(StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("{}\n", Readiness::Loading)),
        }
    }
}

fn config_json(view: &View) -> serde_json::Result<String> {
    let page = ConfigPage {
        version: view.outcome.snapshot.version(),
        config: &view.outcome.translation.config,
        diagnostics: view.diagnostics().collect(),
    };
    serde_json::to_string_pretty(&page)
}

fn page(status: StatusCode, content_type: &'static str, body: String) -> Response<Body> {
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}
