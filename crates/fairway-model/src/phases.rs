//! What a rule does besides its action, by phase: client address, guards, request edits, extensions, forwarding,
//! response edits, limits, logging and tracing. Each phase has its own type that can hold only what belongs there.

use std::cell::RefCell;
use std::sync::{Arc, LazyLock};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::backend::{BackendKey, StickyBackends};
use crate::buffering::Buffering;
use crate::compression::Compression;
use crate::condition::{ConditionalHeaders, ConditionalResponse};
use crate::cors::Cors;
use crate::default::is_default;
use crate::edit::{HeaderEdit, PathRewrite, RequestEdit, ResponseEdit, UpstreamResponseEdit};
use crate::extension::Extension;
use crate::field::HeaderTemplate;
use crate::forwarding::{Fallback, Forwarding, Mirror};
use crate::guard::Guard;
use crate::hop::Http1Options;
use crate::redirect::Redirect;
use crate::response::{ErrorPages, ResponseRate};
use crate::tracing::Tracing;

/// What a rule does besides its action, in the order in which a request and its response meet it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Phases {
    /// How the client address is determined; `None` uses the connection's.
    #[serde(skip_serializing_if = "is_default")]
    pub client: Option<Box<RealIp>>,
    /// Checked in order; the first that responds ends the exchange.
    #[serde(skip_serializing_if = "is_default")]
    pub guards: Vec<Guard>,
    /// Applied in order to the heads of requests that passed all guards.
    #[serde(skip_serializing_if = "is_default")]
    pub request: Vec<RequestEdit>,
    /// Services that see requests that passed all guards, in this order, and their responses in reverse order.
    #[serde(skip_serializing_if = "is_default")]
    pub extensions: Vec<Arc<Extension>>,
    /// Forwarding settings that differ from the defaults. Boxed, like everything that most rules do not have: every
    /// Ingress stores phases.
    #[serde(skip_serializing_if = "is_default")]
    pub forwarding: Option<Box<Forwarding>>,
    /// How responses are changed.
    #[serde(skip_serializing_if = "is_default")]
    pub answers: ResponseHandling,
    /// Limits on the responses of endpoints.
    #[serde(skip_serializing_if = "is_default")]
    pub bounds: ResponseLimits,
    /// Whether the exchange is left out of the access log; metrics still count it.
    #[serde(skip_serializing_if = "is_default")]
    pub unlogged: bool,
    /// Tracing; `None` uses the listener's settings.
    #[serde(skip_serializing_if = "is_default")]
    pub tracing: Option<Arc<Tracing>>,
}

/// The client address from a header of trusted peers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RealIp {
    /// Header with the client address or a list of addresses, in lower case.
    pub header: Arc<str>,
    /// Peers whose header is trusted.
    pub trusted: Vec<IpNet>,
    /// Whether the last address of the list counts even if it is in `trusted` (nginx without `real_ip_recursive`),
    /// instead of the last address that is not.
    #[serde(default, skip_serializing_if = "is_default")]
    pub last_only: bool,
}

/// How the responses of a rule are changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResponseHandling {
    /// Applied in order to the response heads of endpoints.
    #[serde(skip_serializing_if = "is_default")]
    pub received: Vec<UpstreamResponseEdit>,
    /// Responses that are replaced with error pages, including the proxy's own.
    #[serde(skip_serializing_if = "is_default")]
    pub pages: Option<Box<ErrorPages>>,
    /// Applied in order to the head of every response, including the proxy's own.
    #[serde(skip_serializing_if = "is_default")]
    pub edits: Vec<ResponseEdit>,
    /// Compression of responses from endpoints, after all edits.
    #[serde(skip_serializing_if = "is_default")]
    pub compression: Option<Arc<Compression>>,
}

impl ResponseHandling {
    /// The edits that also apply to error pages. Pages are generated outside of the location whose responses they
    /// replace, as in ingress-nginx, so only proxy-wide settings apply.
    #[must_use]
    pub fn for_error_pages(&self) -> Self {
        let received = self.received.iter().filter(|edit| matches!(edit, UpstreamResponseEdit::Hide(_)));
        let edits = self.edits.iter().filter(|edit| matches!(edit, ResponseEdit::Fields(_)));
        Self {
            received: received.cloned().collect(),
            pages: None,
            edits: edits.cloned().collect(),
            compression: self.compression.clone(),
        }
    }
}

/// Limits on the responses of endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResponseLimits {
    /// Bytes that a response head may have even if the process-wide limit is lower.
    #[serde(skip_serializing_if = "is_default")]
    pub head: u32,
    /// Bandwidth limit for response bodies.
    #[serde(skip_serializing_if = "is_default")]
    pub rate: Option<ResponseRate>,
}

/// Route filters of a whole rule or of one backend (Gateway API `HTTPRoute.spec.rules[].filters` and
/// `backendRefs[].filters`). Filters of a backend see only requests that the rule has already admitted, so they
/// cannot protect anything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RouteFilters {
    /// Answers preflight requests and adds headers to responses.
    #[serde(skip_serializing_if = "is_default")]
    pub cors: Option<Arc<Cors>>,
    /// Redirects every request.
    #[serde(skip_serializing_if = "is_default")]
    pub redirect: Option<Redirect>,
    /// Responds to every request.
    #[serde(skip_serializing_if = "is_default")]
    pub respond: Option<Arc<ConditionalResponse>>,
    /// Applied in order to request heads.
    #[serde(skip_serializing_if = "is_default")]
    pub request: Vec<RequestEdit>,
    /// As [`Forwarding::path`].
    #[serde(skip_serializing_if = "is_default")]
    pub path: Option<PathRewrite>,
    /// As [`Forwarding::chosen`].
    #[serde(skip_serializing_if = "is_default")]
    pub fields: Vec<Arc<ConditionalHeaders>>,
    /// As [`Forwarding::mirrors`].
    #[serde(skip_serializing_if = "is_default")]
    pub mirrors: Vec<Mirror>,
    /// Header edits for every response, in order, after the CORS headers.
    #[serde(skip_serializing_if = "is_default")]
    #[serde(rename = "answer")]
    pub reply: Vec<HeaderEdit>,
    /// Sets and adds headers of every response, in order, after those edits.
    #[serde(rename = "answer_fields", skip_serializing_if = "is_default")]
    pub conditional_response_headers: Vec<Arc<ConditionalHeaders>>,
    /// As [`Phases::extensions`].
    #[serde(skip_serializing_if = "is_default")]
    pub extensions: Vec<Arc<Extension>>,
    /// As [`ResponseHandling::pages`]; for a single backend, instead of the rule's.
    #[serde(skip_serializing_if = "is_default")]
    pub pages: Option<Box<ErrorPages>>,
}

impl From<RouteFilters> for Phases {
    fn from(filters: RouteFilters) -> Self {
        let RouteFilters {
            cors,
            redirect,
            respond,
            request,
            path,
            fields,
            mirrors,
            reply: answer,
            conditional_response_headers: answer_fields,
            extensions,
            pages,
        } = filters;
        let answering =
            [cors.clone().map(Guard::Preflight), redirect.map(Guard::Redirect), respond.map(Guard::Respond)];
        let forwarding = Forwarding { path, chosen: fields, mirrors, ..Forwarding::default() };
        Self {
            guards: answering.into_iter().flatten().collect(),
            request,
            extensions,
            forwarding: forwarding.if_not_empty(),
            answers: ResponseHandling {
                edits: cors
                    .map(ResponseEdit::Cors)
                    .into_iter()
                    .chain(answer.into_iter().map(ResponseEdit::Headers))
                    .chain(answer_fields.into_iter().map(ResponseEdit::Chosen))
                    .collect(),
                pages,
                ..ResponseHandling::default()
            },
            ..Self::default()
        }
    }
}

impl From<RealIp> for Phases {
    fn from(client: RealIp) -> Self {
        Self { client: Some(Box::new(client)), ..Self::default() }
    }
}

impl From<Guard> for Phases {
    fn from(guard: Guard) -> Self {
        Self { guards: vec![guard], ..Self::default() }
    }
}

/// Answers preflight requests and adds headers to responses.
impl From<Cors> for Phases {
    fn from(cors: Cors) -> Self {
        RouteFilters { cors: Some(Arc::new(cors)), ..RouteFilters::default() }.into()
    }
}

impl From<RequestEdit> for Phases {
    fn from(edit: RequestEdit) -> Self {
        Self { request: vec![edit], ..Self::default() }
    }
}

impl From<Forwarding> for Phases {
    fn from(forwarding: Forwarding) -> Self {
        Self { forwarding: forwarding.if_not_empty(), ..Self::default() }
    }
}

impl From<Mirror> for Phases {
    fn from(mirror: Mirror) -> Self {
        Forwarding { mirrors: vec![mirror], ..Forwarding::default() }.into()
    }
}

impl From<Fallback> for Phases {
    fn from(fallback: Fallback) -> Self {
        Forwarding { fallbacks: vec![fallback], ..Forwarding::default() }.into()
    }
}

impl From<ResponseHandling> for Phases {
    fn from(responses: ResponseHandling) -> Self {
        Self { answers: responses, ..Self::default() }
    }
}

impl From<UpstreamResponseEdit> for Phases {
    fn from(edit: UpstreamResponseEdit) -> Self {
        ResponseHandling { received: vec![edit], ..ResponseHandling::default() }.into()
    }
}

impl From<Arc<Compression>> for Phases {
    fn from(compression: Arc<Compression>) -> Self {
        ResponseHandling { compression: Some(compression), ..ResponseHandling::default() }.into()
    }
}

impl From<ErrorPages> for Phases {
    fn from(pages: ErrorPages) -> Self {
        ResponseHandling { pages: Some(Box::new(pages)), ..ResponseHandling::default() }.into()
    }
}

impl From<ResponseEdit> for Phases {
    fn from(edit: ResponseEdit) -> Self {
        ResponseHandling { edits: vec![edit], ..ResponseHandling::default() }.into()
    }
}

impl From<ResponseLimits> for Phases {
    fn from(bounds: ResponseLimits) -> Self {
        Self { bounds, ..Self::default() }
    }
}

/// Combines all of them in order. For single-valued settings, the last one counts.
impl FromIterator<Phases> for Phases {
    fn from_iter<I: IntoIterator<Item = Self>>(parts: I) -> Self {
        let mut all = Self::default();
        parts.into_iter().for_each(|part| all.add(part));
        all
    }
}

thread_local! {
    static LAST_SHARED: RefCell<Arc<Phases>> = RefCell::new(Phases::none());
}

impl Phases {
    /// The phases of a rule that does nothing but its action; all such rules share one value.
    #[must_use]
    pub fn none() -> Arc<Self> {
        static NONE: LazyLock<Arc<Phases>> = LazyLock::new(Arc::default);
        Arc::clone(&NONE)
    }

    /// Adds the phases of `more` after the existing ones. Single-valued settings of `more` replace existing ones.
    pub fn add(&mut self, addition: impl Into<Self>) {
        let Self { client, guards, request, extensions, forwarding, answers, bounds, unlogged, tracing } =
            addition.into();
        self.client = client.or(self.client.take());
        self.guards.extend(guards);
        self.request.extend(request);
        self.extensions.extend(extensions);
        if let Some(forwarding) = forwarding {
            self.forwarding.get_or_insert_default().add(*forwarding);
        }
        self.answers.received.extend(answers.received);
        self.answers.pages = answers.pages.or(self.answers.pages.take());
        self.answers.edits.extend(answers.edits);
        self.answers.compression = answers.compression.or(self.answers.compression.take());
        self.bounds.head = if bounds.head == 0 { self.bounds.head } else { bounds.head };
        self.bounds.rate = bounds.rate.or(self.bounds.rate);
        self.unlogged |= unlogged;
        self.tracing = tracing.or(self.tracing.take());
    }

    /// As rules store them: consecutive rules with equal phases share one value.
    #[must_use]
    pub fn shared(mut self) -> Arc<Self> {
        if self == Self::default() {
            return Self::none();
        }
        LAST_SHARED.with_borrow_mut(|last| {
            if self != **last {
                self.shrink_to_fit();
                *last = Arc::new(self);
            }
            Arc::clone(last)
        })
    }

    /// Removes spare capacity: a growing list reserves room for four members, which is most of the memory of a list
    /// with one.
    fn shrink_to_fit(&mut self) {
        self.guards.shrink_to_fit();
        self.request.shrink_to_fit();
        self.extensions.shrink_to_fit();
        if let Some(forwarding) = &mut self.forwarding {
            forwarding.chosen.shrink_to_fit();
            forwarding.fallbacks.shrink_to_fit();
            forwarding.mirrors.shrink_to_fit();
        }
        self.answers.received.shrink_to_fit();
        self.answers.edits.shrink_to_fit();
    }

    /// All steps in order, for code that shows or translates a rule.
    pub fn steps(&self) -> impl Iterator<Item = RuleStep<'_>> {
        let Self { client, guards, request, extensions, forwarding, answers, bounds, unlogged, tracing } =
            self;
        let last = [
            (bounds.head > 0).then_some(RuleStep::HeadLimit(bounds.head)),
            bounds.rate.map(RuleStep::ResponseRate),
            unlogged.then_some(RuleStep::Unlogged),
            tracing.as_deref().map(RuleStep::Tracing),
        ];
        client
            .iter()
            .map(|client| RuleStep::Client(client))
            .chain(guards.iter().map(RuleStep::Guard))
            .chain(request.iter().map(RuleStep::Request))
            .chain(extensions.iter().map(|extension| RuleStep::Extension(extension)))
            .chain(forwarding.iter().flat_map(|forwarding| forwarding_steps(forwarding)))
            .chain(answers.received.iter().map(RuleStep::UpstreamResponse))
            .chain(answers.pages.iter().map(|pages| RuleStep::ErrorPages(pages)))
            .chain(answers.edits.iter().map(RuleStep::Response))
            .chain(answers.compression.iter().map(|compression| RuleStep::Compression(compression)))
            .chain(last.into_iter().flatten())
    }
}

/// The steps that describe forwarding.
fn forwarding_steps(forwarding: &Forwarding) -> impl Iterator<Item = RuleStep<'_>> {
    let Forwarding {
        path,
        fields,
        chosen,
        hop,
        tls_backend: secured,
        fallbacks,
        retry_statuses,
        mirrors,
        grpc_web,
        buffering,
        sticky,
    } = forwarding;
    let descriptions = [
        path.as_ref().map(RuleStep::Path),
        secured.as_ref().map(RuleStep::TlsBackend),
        (*hop != Http1Options::default()).then_some(RuleStep::Http1(*hop)),
        fields.as_deref().map(RuleStep::RequestHeaders),
        grpc_web.then_some(RuleStep::GrpcWeb),
        (!retry_statuses.is_empty()).then_some(RuleStep::RetryStatuses(retry_statuses)),
        (*buffering != Buffering::default()).then_some(RuleStep::Buffering(*buffering)),
        sticky.as_deref().map(RuleStep::Sticky),
    ];
    let others = fallbacks.iter().map(RuleStep::Fallback).chain(mirrors.iter().map(RuleStep::Mirror));
    descriptions
        .into_iter()
        .flatten()
        .chain(chosen.iter().map(|fields| RuleStep::ConditionalHeaders(fields)))
        .chain(others)
}

/// One step of a rule, as returned by [`Phases::steps`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleStep<'a> {
    /// Determines the client address.
    Client(&'a RealIp),
    /// Checks requests before they are forwarded.
    Guard(&'a Guard),
    /// Edits requests.
    Request(&'a RequestEdit),
    /// Sends requests and responses to a service.
    Extension(&'a Extension),
    /// [`Forwarding::path`].
    Path(&'a PathRewrite),
    /// [`Forwarding::tls_backend`].
    TlsBackend(&'a BackendKey),
    /// [`Forwarding::hop`], if it differs from the default.
    Http1(Http1Options),
    /// [`Forwarding::fields`].
    RequestHeaders(&'a [HeaderTemplate]),
    /// One of [`Forwarding::chosen`].
    ConditionalHeaders(&'a ConditionalHeaders),
    /// [`Forwarding::grpc_web`].
    GrpcWeb,
    /// [`Forwarding::retry_statuses`].
    RetryStatuses(&'a [u16]),
    /// [`Forwarding::buffering`].
    Buffering(Buffering),
    /// [`Forwarding::sticky`].
    Sticky(&'a StickyBackends),
    /// One of [`Forwarding::fallbacks`].
    Fallback(&'a Fallback),
    /// One of [`Forwarding::mirrors`].
    Mirror(&'a Mirror),
    /// Edits the responses of endpoints.
    UpstreamResponse(&'a UpstreamResponseEdit),
    /// [`ResponseHandling::pages`].
    ErrorPages(&'a ErrorPages),
    /// Edits responses.
    Response(&'a ResponseEdit),
    /// [`ResponseHandling::compression`].
    Compression(&'a Compression),
    /// [`ResponseLimits::head`].
    HeadLimit(u32),
    /// [`ResponseLimits::rate`].
    ResponseRate(ResponseRate),
    /// [`Phases::unlogged`].
    Unlogged,
    /// [`Phases::tracing`].
    Tracing(&'a Tracing),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_phases_are_shared_and_defaults_are_omitted() {
        let refusing = || Phases { guards: vec![Guard::OverTls], ..Phases::default() }.shared();
        let (one, two) = (refusing(), refusing());
        assert!(Arc::ptr_eq(&one, &two));
        assert!(Arc::ptr_eq(&Phases::default().shared(), &Phases::none()));
        assert_eq!(serde_json::to_string(&Phases::default()).unwrap(), "{}");
        let json = serde_json::to_string(&one).unwrap();
        assert_eq!(json, r#"{"guards":["OverTls"]}"#);
        assert_eq!(serde_json::from_str::<Phases>(&json).unwrap(), *one);
    }

    #[test]
    fn steps_come_in_the_order_in_which_a_request_meets_them() {
        let phases = Phases {
            unlogged: true,
            bounds: ResponseLimits { head: 9, rate: None },
            answers: ResponseHandling {
                edits: vec![ResponseEdit::StrictTransportSecurity("a".into())],
                compression: Some(Arc::new(Compression { codings: Vec::new() })),
                ..ResponseHandling::default()
            },
            forwarding: Forwarding { grpc_web: true, ..Forwarding::default() }.if_not_empty(),
            request: vec![RequestEdit::Host("b".into())],
            guards: vec![Guard::NeedsEndpoint, Guard::OverTls],
            ..Phases::default()
        };
        let steps: Vec<_> = phases.steps().collect();
        let [
            RuleStep::Guard(Guard::NeedsEndpoint),
            RuleStep::Guard(Guard::OverTls),
            RuleStep::Request(_),
            RuleStep::GrpcWeb,
            RuleStep::Response(_),
            RuleStep::Compression(_),
            RuleStep::HeadLimit(9),
            RuleStep::Unlogged,
        ] = &*steps
        else {
            panic!("{steps:?}")
        };
    }
}
