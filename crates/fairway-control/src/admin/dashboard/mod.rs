//! The dashboard: read-only HTML pages, rendered on the server. No page needs a script; one script updates the numbers on the
//! first page.
//!
//! [`Dashboard`] dispatches by path. `overview`, `hosts`, `rule`, `backend`, `listeners`, `streams`, `connections`,
//! `certificates`, `statuses`, `diagnostics`, `requests`, `generations` and `explain` build the content of the template of that
//! name, and `live` the events. An [`Inspector`] provides what only the data plane and other replicas know. Secrets are redacted
//! before they reach a page ([`fairway_model::redaction`]), and no page visits more rules than it needs.

mod backend;
mod caller_text;
mod certificates;
mod connections;
mod counter;
mod cross_site;
mod diagnostics;
mod endpoints;
mod explain;
mod generations;
mod hosts;
mod inspector;
mod listeners;
mod listing;
mod live;
mod numbers;
mod object;
mod overview;
mod page;
mod problem;
mod process;
mod query;
mod replicas;
mod requests;
mod rule;
mod rules;
mod sample;
mod search;
mod statuses;
mod streams;
mod templates;
mod time_format;

use std::sync::Arc;

use http_body_util::Either;
use hyper::header::{
    CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, LOCATION, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{HeaderMap, Response, StatusCode, Uri};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::body::{Body, TEXT_CONTENT_TYPE, page, respond};
use crate::generations::Generations;
use counter::NumbersCache;
use page::Page;
use problem::Problem;
use query::Query;
use templates::Templates;

pub use caller_text::{ConfigDescriber, ExplainedRequest};
pub use counter::ReadNumbers;
pub use generations::{CostCount, FetchCosts, GenerationCost};
pub use inspector::{
    ClientConnections, Connections, FleetReplicas, Inspector, InspectorFuture, KnownReplicas, LiveEndpoint,
    Replica, UnboundAddress,
};
pub use numbers::{FaultCount, Numbers, TimeBound};
pub(in crate::admin) use process::Process;
pub use requests::RecordedRequests;

/// Concurrent event streams: each reads the workers' numbers every other second.
const MAX_STREAMS: usize = 8;

const FIRST_PAGE: &str = "/dashboard/";
const STYLE_PATH: &str = "/dashboard/style.css";
const SCRIPT_PATH: &str = "/dashboard/live.js";
const ICON_PATH: &str = "/dashboard/icon.svg";
const EVENTS_PATH: &str = "/dashboard/events";
/// The data of the requests page, as JSON.
const REQUESTS_PATH: &str = "/requests";
/// The data of the generations page, as JSON.
const GENERATIONS_PATH: &str = "/generations";

/// A page loads only resources of this server, and no other site may frame it.
const LOADED_CONTENT: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; \
                              form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The HTML pages.
pub struct Dashboard {
    words: Box<dyn ConfigDescriber>,
    counter: Arc<NumbersCache>,
    recorded: RecordedRequests,
    generations: generations::GenerationsSource,
    inspector: Box<dyn Inspector>,
    templates: Templates,
    streams: Arc<Semaphore>,
}

impl Dashboard {
    /// Describes the configuration with `words`; reads the data plane's numbers from `count`, its requests from `recorded`, and
    /// everything else from `inspector`.
    #[must_use]
    pub fn new(
        words: Box<dyn ConfigDescriber>,
        count: ReadNumbers,
        recorded: RecordedRequests,
        inspector: Box<dyn Inspector>,
    ) -> Self {
        Self {
            words,
            counter: Arc::new(NumbersCache::new(count)),
            recorded,
            generations: generations::GenerationsSource::empty(),
            inspector,
            templates: Templates::new(),
            streams: Arc::new(Semaphore::new(MAX_STREAMS)),
        }
    }

    /// Adds these configurations and their costs.
    #[must_use]
    pub fn with_generations(self, generations: Arc<Generations>, costs: FetchCosts) -> Self {
        Self { generations: generations::GenerationsSource::new(generations, costs), ..self }
    }

    /// Whether a path belongs to the dashboard or provides its data as JSON.
    pub(in crate::admin) fn owns_path(path: &str) -> bool {
        ["/", "/dashboard", REQUESTS_PATH, GENERATIONS_PATH].contains(&path) || path.starts_with(FIRST_PAGE)
    }

    /// The response to a request for such a path, on a connection that is closed at `end`.
    pub(in crate::admin) async fn respond(
        &self,
        uri: &Uri,
        headers: &HeaderMap,
        process: Process,
        end: Instant,
    ) -> Response<Body> {
        let path = uri.path();
        let is_document = ![STYLE_PATH, SCRIPT_PATH, ICON_PATH, EVENTS_PATH].contains(&path);
        let mut response = match path {
            _ if cross_site::is_refused(headers, is_document) => {
                page(StatusCode::FORBIDDEN, TEXT_CONTENT_TYPE, cross_site::REFUSED_TEXT.to_owned())
            }
            "/" | "/dashboard" => redirect(),
            STYLE_PATH => asset("text/css; charset=utf-8", include_str!("style.css")),
            SCRIPT_PATH => asset("text/javascript; charset=utf-8", include_str!("live.js")),
            ICON_PATH => asset("image/svg+xml", include_str!("icon.svg")),
            EVENTS_PATH => self.events(process, end),
            REQUESTS_PATH => self.requests(uri.query()).await,
            GENERATIONS_PATH => self.generations().await,
            _ => {
                let shown = self.page(path, &Query::parse(uri.query()), &process).await;
                self.templates.respond(&shown.unwrap_or_else(Page::from))
            }
        };
        for (name, value) in [
            (CONTENT_SECURITY_POLICY, LOADED_CONTENT),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (REFERRER_POLICY, "no-referrer"),
            (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        ] {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }

    async fn page(&self, path: &str, query: &Query, process: &Process) -> Result<Page, Problem> {
        let (words, inspector) = (&*self.words, &*self.inspector);
        match path {
            FIRST_PAGE => {
                let replicas = inspector.replicas().await;
                Ok(overview::page(process, &self.counter.current().await, &replicas))
            }
            "/dashboard/hosts" => hosts::all_rules_page(&process.view()?, words, query),
            "/dashboard/host" => hosts::host_page(&process.view()?, words, query),
            "/dashboard/rule" => rule::page(&process.view()?, words, inspector, query).await,
            "/dashboard/backend" => backend::page(&process.view()?, words, inspector, query).await,
            "/dashboard/listeners" => listeners::page(&process.view()?, inspector, query).await,
            "/dashboard/streams" => streams::page(&process.view()?, query),
            "/dashboard/connections" => connections::page(inspector, query).await,
            "/dashboard/requests" => requests::page(&self.recorded, query).await,
            "/dashboard/generations" => self.generations.page(query).await,
            "/dashboard/certificates" => certificates::page(&process.view()?, query),
            "/dashboard/gateways" => statuses::page(&process.view()?, query),
            "/dashboard/diagnostics" => diagnostics::page(&process.view()?, query),
            "/dashboard/explain" => explain::page(&process.view()?, words, query),
            _ => Err(Problem::no_page()),
        }
    }

    /// The recorded exchanges: docs/observe.md has the parameters.
    async fn requests(&self, query: Option<&str>) -> Response<Body> {
        match (self.recorded)(query.map(str::to_owned)).await {
            Ok(json) => page(StatusCode::OK, "application/json", json + "\n"),
            Err(problem) => page(StatusCode::BAD_REQUEST, TEXT_CONTENT_TYPE, problem + "\n"),
        }
    }

    /// The configurations of the last day and their costs: docs/observe.md.
    async fn generations(&self) -> Response<Body> {
        match self.generations.json().await {
            Ok(json) => page(StatusCode::OK, "application/json", json + "\n"),
            Err(error) => page(StatusCode::INTERNAL_SERVER_ERROR, TEXT_CONTENT_TYPE, format!("{error}\n")),
        }
    }

    fn events(&self, process: Process, end: Instant) -> Response<Body> {
        let Ok(place) = Arc::clone(&self.streams).try_acquire_owned() else {
            let text = format!("{MAX_STREAMS} pages already receive updates\n");
            return page(StatusCode::SERVICE_UNAVAILABLE, TEXT_CONTENT_TYPE, text);
        };
        let events = live::events(process, Arc::clone(&self.counter), place, end);
        respond(StatusCode::OK, "text/event-stream", Either::Right(Either::Right(events)))
    }
}

fn asset(content_type: &'static str, text: &str) -> Response<Body> {
    page(StatusCode::OK, content_type, text.to_owned())
}

fn redirect() -> Response<Body> {
    let mut response =
        page(StatusCode::FOUND, TEXT_CONTENT_TYPE, format!("the dashboard is at {FIRST_PAGE}\n"));
    response.headers_mut().insert(LOCATION, HeaderValue::from_static(FIRST_PAGE));
    response
}
