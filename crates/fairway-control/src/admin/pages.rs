//! The admin server's pages: a request line in, an answer out.

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
use super::body::{Body, TEXT, page, respond};
use super::dashboard::{Dashboard, Process};
use super::identity::Identity;
use super::leases::AnswerReplica;
use super::readiness::{Healthz, Readiness};
use super::scrape::{Pieces, Scrape, Scrapes};
use super::served::{Served, ServedIngress, ServedObject};
use super::{controller, hosts, metrics};
use crate::digest::Digest;
use crate::pipeline::{Freshness, View, Viewer};
use crate::places::Pace;

/// Asks for the data plane's and other metrics that are not the pipeline's.
pub(crate) type MetricsText = Box<dyn Fn() -> Pin<Box<dyn Future<Output = Pieces> + Send>> + Send + Sync>;

/// Where the pages take their content from.
pub struct Pages {
    /// The control side.
    pub viewer: Viewer,
    /// Whether traffic is welcome.
    pub readiness: Arc<dyn Fn() -> Readiness + Send + Sync>,
    /// When `/healthz` answers 200.
    pub healthz: Healthz,
    /// The version of the oldest configuration that a worker serves by; 0 before every worker has one.
    pub adopted: Box<dyn Fn() -> u64 + Send + Sync>,
    /// Whether the data plane has bound an address for Gateways.
    pub bound: Box<dyn Fn((PortProtocol, SocketAddr)) -> bool + Send + Sync>,
    /// What other replicas of the fleet are answered.
    pub answer_replica: AnswerReplica,
    /// Which controller the metrics are of.
    pub identity: Identity,
    /// The data plane's metrics as Prometheus text.
    pub metrics: MetricsText,
    /// The scrapes under way.
    pub scrapes: Scrapes,
    /// The pages for people.
    pub dashboard: Dashboard,
}

/// The answer of `/config`.
#[derive(Serialize)]
struct ConfigPage<'a> {
    version: u64,
    digest: Digest,
    freshness: Freshness,
    /// The served Ingresses with the resource version they were read at.
    ingresses: Vec<ServedIngress>,
    /// The objects of the Gateway API that are this controller's.
    objects: Vec<ServedObject>,
    /// Without what must not be shown.
    config: Config,
    diagnostics: Vec<&'a Diagnostic>,
}

const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

impl Pages {
    /// The answer to `request`, which came on the connection `pace`; it has to be over by `end`.
    pub(super) async fn answer<B>(
        &self,
        request: &Request<B>,
        audience: Audience,
        pace: &Pace,
        end: Instant,
    ) -> Response<Body> {
        let (method, uri) = (request.method(), request.uri());
        if audience == Audience::Operators && !hosts::is_answered(request) {
            return page(StatusCode::MISDIRECTED_REQUEST, TEXT, hosts::FOREIGN.into());
        }
        if method != Method::GET && method != Method::HEAD {
            let mut answer = page(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET and HEAD\n".into());
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return answer;
        }
        match (uri.path(), audience) {
            ("/healthz", _) => self.healthz(),
            // The second is what the manifests of NGINX's own controller ask for.
            ("/readyz" | "/nginx-ready", _) => self.judged(Readiness::is_ready),
            ("/servingz", _) => self.judged(Readiness::is_serving),
            ("/metrics", _) => self.metrics(audience, pace).await,
            ("/served", _) => self.served(uri.query()),
            ("/config", Audience::Operators) => self.config(),
            (path, Audience::Operators) if Dashboard::has(path) => {
                let process = Process { viewer: self.viewer.clone(), readiness: Arc::clone(&self.readiness) };
                self.dashboard.answer(uri, request.headers(), process, end).await
            }
            _ => page(StatusCode::NOT_FOUND, TEXT, "no such page here\n".into()),
        }
    }

    /// The text of `/metrics`.
    pub async fn metrics_text(&self) -> Pieces {
        let mut text = self.identity.build();
        if let Some(view) = self.viewer.view() {
            text.push_str(&metrics::text(&view));
            text.push_str(&controller::text(&view, (self.adopted)(), &self.identity));
        }
        Box::new(iter::once(text).chain((self.metrics)().await))
    }

    fn healthz(&self) -> Response<Body> {
        let readiness = (self.readiness)();
        if self.healthz.is_well(&readiness) {
            return page(StatusCode::OK, TEXT, "ok\n".into());
        }
        page(StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("{readiness}\n"))
    }

    /// 200 where the process is what `is_well` asks for.
    fn judged(&self, is_well: impl FnOnce(&Readiness) -> bool) -> Response<Body> {
        let readiness = (self.readiness)();
        let status = if is_well(&readiness) { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        page(status, TEXT, format!("{readiness}\n"))
    }

    async fn metrics(&self, audience: Audience, pace: &Pace) -> Response<Body> {
        let Some(place) = self.scrapes.place(audience, pace).await else {
            return page(StatusCode::TOO_MANY_REQUESTS, TEXT, "too many scrapes of this address\n".into());
        };
        let scrape = Scrape::new(self.metrics_text().await, place);
        respond(StatusCode::OK, PROMETHEUS, Either::Right(Either::Left(scrape)))
    }

    /// What is served, with the Ingress that `?ingress=NAMESPACE/NAME` asks for, and the object of the Gateway API that
    /// `?object=KIND/NAMESPACE/NAME` asks for, and with `?gateways` all Gateways.
    fn served(&self, query: Option<&str>) -> Response<Body> {
        let adopted = (self.adopted)();
        let Some(view) = self.viewer.view() else {
            return page(StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("{}\n", Readiness::Loading(None)));
        };
        match serde_json::to_string(&Served::of(&view, adopted, &self.bound, query)) {
            Ok(json) => page(StatusCode::OK, "application/json", json + "\n"),
            Err(error) => page(StatusCode::INTERNAL_SERVER_ERROR, TEXT, format!("{error}\n")),
        }
    }

    fn config(&self) -> Response<Body> {
        match self.viewer.view().map(|view| config_json(&view)) {
            Some(Ok(json)) => page(StatusCode::OK, "application/json", json),
            Some(Err(error)) => page(StatusCode::INTERNAL_SERVER_ERROR, TEXT, format!("{error}\n")),
            None => page(StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("{}\n", Readiness::Loading(None))),
        }
    }
}

fn config_json(view: &View) -> serde_json::Result<String> {
    let statuses = &view.outcome.translation.gateway.statuses;
    let page = ConfigPage {
        version: view.outcome.snapshot.version(),
        digest: view.outcome.digest,
        freshness: view.freshness,
        ingresses: view.outcome.translation.status.values().map(|status| ServedIngress::of(status)).collect(),
        objects: statuses.iter().map(|(object, status)| ServedObject::of(object, status)).collect(),
        config: view.outcome.translation.config.without_secrets(),
        diagnostics: view.diagnostics().collect(),
    };
    serde_json::to_string_pretty(&page)
}
