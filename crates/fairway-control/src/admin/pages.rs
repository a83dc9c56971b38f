//! The admin server's pages: dispatches a request and builds its response.

use std::iter;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use fairway_model::{Config, PortProtocol};
use fairway_objects::diagnostic::Diagnostic;
use http_body_util::Either;
use hyper::header::{ALLOW, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use serde::Serialize;
use tokio::time::Instant;

use super::audience::Audience;
use super::body::{Body, TEXT_CONTENT_TYPE, page, respond};
use super::dashboard::{Dashboard, Process};
use super::identity::Identity;
use super::leases::HandleReplicaMessage;
use super::readiness::{Healthz, Readiness};
use super::scrape::{Scrape, ScrapeLimits, TextChunks};
use super::served::{ServedConfig, ServedIngress, ServedObject};
use super::{controller, hosts, metrics};
use crate::connection_slots::ConnectionHandle;
use crate::digest::Digest;
use crate::pipeline::{Freshness, View, Viewer};

/// Collects the metrics of the data plane and of other parts outside the pipeline.
pub(crate) type MetricsText = Box<dyn Fn() -> Pin<Box<dyn Future<Output = TextChunks> + Send>> + Send + Sync>;

/// The data of the pages.
pub struct Pages {
    /// The control side.
    pub viewer: Viewer,
    /// Whether the process is ready for traffic.
    pub readiness: Arc<dyn Fn() -> Readiness + Send + Sync>,
    /// When `/healthz` returns 200.
    pub healthz: Healthz,
    /// The version of the oldest configuration that a worker serves by; 0 before every worker has one.
    pub adopted: Box<dyn Fn() -> u64 + Send + Sync>,
    /// Whether the data plane has bound an address for Gateways.
    pub bound: Box<dyn Fn((PortProtocol, SocketAddr)) -> bool + Send + Sync>,
    /// Handles messages of other replicas of the fleet.
    pub answer_replica: HandleReplicaMessage,
    /// The labels of ingress-nginx's metrics.
    pub identity: Identity,
    /// The data plane's metrics in the Prometheus text format.
    pub metrics: MetricsText,
    /// The scrapes in progress.
    pub scrapes: ScrapeLimits,
    /// The HTML pages.
    pub dashboard: Dashboard,
}

/// The response of `/config`.
#[derive(Serialize)]
struct ConfigPage<'a> {
    version: u64,
    digest: Digest,
    freshness: Freshness,
    /// The served Ingresses, with the resource version that was read.
    ingresses: Vec<ServedIngress>,
    /// This controller's Gateway API objects.
    objects: Vec<ServedObject>,
    /// The configuration with secrets redacted.
    config: Config,
    diagnostics: Vec<&'a Diagnostic>,
}

const PROMETHEUS_CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

impl Pages {
    /// The response to `request`, which arrived on the connection `pace`; it must be complete by `end`.
    pub(super) async fn respond<B>(
        &self,
        request: &Request<B>,
        audience: Audience,
        pace: &ConnectionHandle,
        end: Instant,
    ) -> Response<Body> {
        let (method, uri) = (request.method(), request.uri());
        if audience == Audience::Operators && !hosts::has_private_host(request) {
            return page(StatusCode::MISDIRECTED_REQUEST, TEXT_CONTENT_TYPE, hosts::FOREIGN_HOST_TEXT.into());
        }
        if method != Method::GET && method != Method::HEAD {
            let mut response =
                page(StatusCode::METHOD_NOT_ALLOWED, TEXT_CONTENT_TYPE, "only GET and HEAD\n".into());
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        match (uri.path(), audience) {
            ("/healthz", _) => self.healthz(),
            // The second path is the one in the manifests of NGINX's own controller.
            ("/readyz" | "/nginx-ready", _) => self.readiness_response(Readiness::is_ready),
            ("/servingz", _) => self.readiness_response(Readiness::is_serving),
            ("/metrics", _) => self.metrics(audience, pace).await,
            ("/served", _) => self.served(uri.query()),
            ("/config", Audience::Operators) => self.config(),
            (path, Audience::Operators) if Dashboard::owns_path(path) => {
                let process = Process { viewer: self.viewer.clone(), readiness: Arc::clone(&self.readiness) };
                self.dashboard.respond(uri, request.headers(), process, end).await
            }
            _ => page(StatusCode::NOT_FOUND, TEXT_CONTENT_TYPE, "no such page here\n".into()),
        }
    }

    /// The text of `/metrics`.
    pub async fn metrics_text(&self) -> TextChunks {
        let mut text = self.identity.build();
        if let Some(view) = self.viewer.view() {
            text.push_str(&metrics::text(&view));
            text.push_str(&controller::metrics_text(&view, (self.adopted)(), &self.identity));
        }
        Box::new(iter::once(text).chain((self.metrics)().await))
    }

    fn healthz(&self) -> Response<Body> {
        let readiness = (self.readiness)();
        if self.healthz.is_healthy(&readiness) {
            return page(StatusCode::OK, TEXT_CONTENT_TYPE, "ok\n".into());
        }
        page(StatusCode::SERVICE_UNAVAILABLE, TEXT_CONTENT_TYPE, format!("{readiness}\n"))
    }

    /// 200 if `is_well` holds.
    fn readiness_response(&self, is_well: impl FnOnce(&Readiness) -> bool) -> Response<Body> {
        let readiness = (self.readiness)();
        let status = if is_well(&readiness) { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        page(status, TEXT_CONTENT_TYPE, format!("{readiness}\n"))
    }

    async fn metrics(&self, audience: Audience, pace: &ConnectionHandle) -> Response<Body> {
        let Some(place) = self.scrapes.acquire(audience, pace).await else {
            return page(
                StatusCode::TOO_MANY_REQUESTS,
                TEXT_CONTENT_TYPE,
                "too many scrapes from this address\n".into(),
            );
        };
        let scrape = Scrape::new(self.metrics_text().await, place);
        respond(StatusCode::OK, PROMETHEUS_CONTENT_TYPE, Either::Right(Either::Left(scrape)))
    }

    /// What is served: with `?ingress=NAMESPACE/NAME` including that Ingress, with `?object=KIND/NAMESPACE/NAME` that Gateway API
    /// object, and with `?gateways` all Gateways.
    fn served(&self, query: Option<&str>) -> Response<Body> {
        let adopted = (self.adopted)();
        let Some(view) = self.viewer.view() else {
            return page(
                StatusCode::SERVICE_UNAVAILABLE,
                TEXT_CONTENT_TYPE,
                format!("{}\n", Readiness::Loading(None)),
            );
        };
        match serde_json::to_string(&ServedConfig::from_view(&view, adopted, &self.bound, query)) {
            Ok(json) => page(StatusCode::OK, "application/json", json + "\n"),
            Err(error) => page(StatusCode::INTERNAL_SERVER_ERROR, TEXT_CONTENT_TYPE, format!("{error}\n")),
        }
    }

    fn config(&self) -> Response<Body> {
        match self.viewer.view().map(|view| config_json(&view)) {
            Some(Ok(json)) => page(StatusCode::OK, "application/json", json),
            Some(Err(error)) => {
                page(StatusCode::INTERNAL_SERVER_ERROR, TEXT_CONTENT_TYPE, format!("{error}\n"))
            }
            None => page(
                StatusCode::SERVICE_UNAVAILABLE,
                TEXT_CONTENT_TYPE,
                format!("{}\n", Readiness::Loading(None)),
            ),
        }
    }
}

fn config_json(view: &View) -> serde_json::Result<String> {
    let statuses = &view.outcome.translation.gateway.statuses;
    let page = ConfigPage {
        version: view.outcome.snapshot.version(),
        digest: view.outcome.digest,
        freshness: view.freshness,
        ingresses: view
            .outcome
            .translation
            .status
            .values()
            .map(|status| ServedIngress::new(status))
            .collect(),
        objects: statuses.iter().map(|(object, status)| ServedObject::new(object, status)).collect(),
        config: view.outcome.translation.config.without_secrets(),
        diagnostics: view.diagnostics().collect(),
    };
    serde_json::to_string_pretty(&page)
}
