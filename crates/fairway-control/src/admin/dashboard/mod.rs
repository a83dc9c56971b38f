//! The dashboard: read-only pages for people, rendered here. They need no script; one keeps the numbers of the first page up to date.
//!
//! [`Dashboard`] finds the page of a path. `overview`, `hosts`, `rule`, `backend`, `listeners`, `streams`, `connections`, `certificates`,
//! `statuses`, `diagnostics`, `requests`, `generations` and `explain` make what the template of that name shows, and `live` makes the
//! events. What only the data plane and other replicas know, an [`Inspector`] tells. Whatever may be a secret is hidden before it gets into a page
//! ([`fairway_model::redaction`]), and no page walks more rules than it has to.

mod backend;
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
mod moment;
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
mod words;

use std::sync::Arc;

use http_body_util::Either;
use hyper::header::{
    CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, LOCATION, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{HeaderMap, Response, StatusCode, Uri};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::body::{Body, TEXT, page, respond};
use crate::generations::Generations;
use counter::Counter;
use page::Page;
use problem::Problem;
use query::Query;
use templates::Templates;

pub use counter::CountRequests;
pub use generations::{AskCosts, CostCount, GenerationCost};
pub use inspector::{
    Answering, ClientConnections, Connections, Inspector, LiveEndpoint, Others, Replica, Replicas,
    UnboundAddress,
};
pub use numbers::{FaultCount, Numbers, TimeBound};
pub(in crate::admin) use process::Process;
pub use requests::RecordedRequests;
pub use words::{AskedRequest, Words};

/// Streams of events at a time: each asks the workers for their numbers every other second.
const MAX_STREAMS: usize = 8;

const FIRST_PAGE: &str = "/dashboard/";
const STYLE_PATH: &str = "/dashboard/style.css";
const SCRIPT_PATH: &str = "/dashboard/live.js";
const ICON_PATH: &str = "/dashboard/icon.svg";
const EVENTS_PATH: &str = "/dashboard/events";
/// What the page of requests shows, as JSON.
const REQUESTS_PATH: &str = "/requests";
/// What the page of changes shows, as JSON.
const GENERATIONS_PATH: &str = "/generations";

/// A page loads nothing but what this server has, and no other site may frame it.
const LOADED_CONTENT: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; \
                              form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The pages for people.
pub struct Dashboard {
    words: Box<dyn Words>,
    counter: Arc<Counter>,
    recorded: RecordedRequests,
    generations: generations::Source,
    inspector: Box<dyn Inspector>,
    templates: Templates,
    streams: Arc<Semaphore>,
}

impl Dashboard {
    /// Pages that say things with `words`, and get the numbers of the data plane from `count`, its requests from `recorded`, and the
    /// rest of what others know from `inspector`.
    #[must_use]
    pub fn new(
        words: Box<dyn Words>,
        count: CountRequests,
        recorded: RecordedRequests,
        inspector: Box<dyn Inspector>,
    ) -> Self {
        Self {
            words,
            counter: Arc::new(Counter::new(count)),
            recorded,
            generations: generations::Source::empty(),
            inspector,
            templates: Templates::new(),
            streams: Arc::new(Semaphore::new(MAX_STREAMS)),
        }
    }

    /// The same with the configurations that are noted there, and what the data plane says they cost.
    #[must_use]
    pub fn with_generations(self, generations: Arc<Generations>, costs: AskCosts) -> Self {
        Self { generations: generations::Source::new(generations, costs), ..self }
    }

    /// Whether a path is one of the dashboard, or shows what it shows.
    pub(in crate::admin) fn has(path: &str) -> bool {
        ["/", "/dashboard", REQUESTS_PATH, GENERATIONS_PATH].contains(&path) || path.starts_with(FIRST_PAGE)
    }

    /// The response to a request for such a path, on a connection on which nothing may last longer than until
    /// `end`.
    pub(in crate::admin) async fn answer(
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
                page(StatusCode::FORBIDDEN, TEXT, cross_site::REFUSED.to_owned())
            }
            "/" | "/dashboard" => redirect(),
            STYLE_PATH => asset("text/css; charset=utf-8", include_str!("style.css")),
            SCRIPT_PATH => asset("text/javascript; charset=utf-8", include_str!("live.js")),
            ICON_PATH => asset("image/svg+xml", include_str!("icon.svg")),
            EVENTS_PATH => self.events(process, end),
            REQUESTS_PATH => self.requests(uri.query()).await,
            GENERATIONS_PATH => self.generations().await,
            _ => {
                let shown = self.page(path, &Query::read(uri.query()), &process).await;
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
                Ok(overview::page(process, &self.counter.now().await, &replicas))
            }
            "/dashboard/hosts" => hosts::all(&process.view()?, words, query),
            "/dashboard/host" => hosts::one(&process.view()?, words, query),
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

    /// The exchanges that the data plane remembers: docs/observe.md has the parameters.
    async fn requests(&self, query: Option<&str>) -> Response<Body> {
        match (self.recorded)(query.map(str::to_owned)).await {
            Ok(json) => page(StatusCode::OK, "application/json", json + "\n"),
            Err(problem) => page(StatusCode::BAD_REQUEST, TEXT, problem + "\n"),
        }
    }

    /// The configurations of the last day, and what they cost: docs/observe.md.
    async fn generations(&self) -> Response<Body> {
        match self.generations.json().await {
            Ok(json) => page(StatusCode::OK, "application/json", json + "\n"),
            Err(error) => page(StatusCode::INTERNAL_SERVER_ERROR, TEXT, format!("{error}\n")),
        }
    }

    fn events(&self, process: Process, end: Instant) -> Response<Body> {
        let Ok(place) = Arc::clone(&self.streams).try_acquire_owned() else {
            let text = format!("{MAX_STREAMS} pages are kept up to date already\n");
            return page(StatusCode::SERVICE_UNAVAILABLE, TEXT, text);
        };
        let events = live::events(process, Arc::clone(&self.counter), place, end);
        respond(StatusCode::OK, "text/event-stream", Either::Right(Either::Right(events)))
    }
}

fn asset(content_type: &'static str, text: &str) -> Response<Body> {
    page(StatusCode::OK, content_type, text.to_owned())
}

fn redirect() -> Response<Body> {
    let mut response = page(StatusCode::FOUND, TEXT, format!("the dashboard is at {FIRST_PAGE}\n"));
    response.headers_mut().insert(LOCATION, HeaderValue::from_static(FIRST_PAGE));
    response
}
