//! What a rule does besides its action, phase by phase: who the client is, guards, edits of the request, forwarding, edits of
//! answers, bounds, log. Each phase is a type of its own that can hold only what belongs there.

use std::cell::RefCell;
use std::sync::{Arc, LazyLock};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::answer::{AnswerRate, ErrorPages};
use crate::backend::{BackendKey, StickyShares};
use crate::buffering::Buffering;
use crate::compression::Compression;
use crate::condition::{ChosenFields, Respond};
use crate::cors::Cors;
use crate::default::is_default;
use crate::edit::{AnswerEdit, HeaderEdit, PathRewrite, ReceivedEdit, RequestEdit};
use crate::extension::Extension;
use crate::field::FieldTemplate;
use crate::forwarding::{Fallback, Forwarding, Mirror};
use crate::guard::Guard;
use crate::hop::EndpointHop;
use crate::redirect::Redirect;
use crate::tracing::Tracing;

/// What a rule does besides its action, in the order in which a request and its answer meet it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Phases {
    /// Who the client is; what its connection says where there is nothing.
    #[serde(skip_serializing_if = "is_default")]
    pub client: Option<Box<RealIp>>,
    /// Asked in order; the first that answers ends the exchange.
    #[serde(skip_serializing_if = "is_default")]
    pub guards: Vec<Guard>,
    /// Done in order to the heads of requests that every guard let pass.
    #[serde(skip_serializing_if = "is_default")]
    pub request: Vec<RequestEdit>,
    /// Services that see requests which every guard let pass, and their responses, in this order; responses meet them in the reverse order.
    #[serde(skip_serializing_if = "is_default")]
    pub extensions: Vec<Arc<Extension>>,
    /// How requests reach endpoints, where it is not as usual. Boxed, like all that most rules do not have: every Ingress keeps phases.
    #[serde(skip_serializing_if = "is_default")]
    pub forwarding: Option<Box<Forwarding>>,
    /// What becomes of answers.
    #[serde(skip_serializing_if = "is_default")]
    pub answers: Answers,
    /// What bounds the answers of endpoints.
    #[serde(skip_serializing_if = "is_default")]
    pub bounds: AnswerBounds,
    /// Whether the exchange is kept out of the access log; metrics count it.
    #[serde(skip_serializing_if = "is_default")]
    pub unlogged: bool,
    /// How exchanges are traced; as the listener says where there is nothing.
    #[serde(skip_serializing_if = "is_default")]
    pub tracing: Option<Arc<Tracing>>,
}

/// Who the client is, where others speak for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RealIp {
    /// The header with its address, or a list of addresses, in lower case.
    pub header: Arc<str>,
    /// Who is believed.
    pub trusted: Vec<IpNet>,
    /// Whether the last address of the list counts, also where it is one of `trusted` (nginx without `real_ip_recursive`), and not the
    /// last that is none of these.
    #[serde(default, skip_serializing_if = "is_default")]
    pub last_only: bool,
}

/// What becomes of the answers of a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Answers {
    /// Done to the heads of endpoints' answers, in order.
    #[serde(skip_serializing_if = "is_default")]
    pub received: Vec<ReceivedEdit>,
    /// Which answers another backend makes, whoever made them first.
    #[serde(skip_serializing_if = "is_default")]
    pub pages: Option<Box<ErrorPages>>,
    /// Done to the head of every answer, whoever made it, in order.
    #[serde(skip_serializing_if = "is_default")]
    pub edits: Vec<AnswerEdit>,
    /// How the bodies of endpoints' answers are compressed, behind all edits.
    #[serde(skip_serializing_if = "is_default")]
    pub compression: Option<Arc<Compression>>,
}

impl Answers {
    /// What is done to pages, too. They are made outside of the location whose answers they replace, as in ingress-nginx, so that
    /// only what holds for the whole proxy reaches them.
    #[must_use]
    pub fn of_pages(&self) -> Self {
        let received = self.received.iter().filter(|edit| matches!(edit, ReceivedEdit::Hide(_)));
        let edits = self.edits.iter().filter(|edit| matches!(edit, AnswerEdit::Fields(_)));
        Self {
            received: received.cloned().collect(),
            pages: None,
            edits: edits.cloned().collect(),
            compression: self.compression.clone(),
        }
    }
}

/// What bounds the answers of endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AnswerBounds {
    /// Bytes that a head may have in any case, whatever the process allows.
    #[serde(skip_serializing_if = "is_default")]
    pub head: u32,
    /// How fast a body goes to the client.
    #[serde(skip_serializing_if = "is_default")]
    pub rate: Option<AnswerRate>,
}

/// What filters of a route do, on a whole rule or on the requests of one backend (Gateway API `HTTPRoute.spec.rules[].filters` and
/// `backendRefs[].filters`). Those of a backend act on requests that its rule let through already, so none of them protects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RouteFilters {
    /// Answers preflights, and adds fields to answers.
    #[serde(skip_serializing_if = "is_default")]
    pub cors: Option<Arc<Cors>>,
    /// Answers every request.
    #[serde(skip_serializing_if = "is_default")]
    pub redirect: Option<Redirect>,
    /// Answers every request.
    #[serde(skip_serializing_if = "is_default")]
    pub respond: Option<Arc<Respond>>,
    /// Done to the heads of requests, in order.
    #[serde(skip_serializing_if = "is_default")]
    pub request: Vec<RequestEdit>,
    /// As [`Forwarding::path`].
    #[serde(skip_serializing_if = "is_default")]
    pub path: Option<PathRewrite>,
    /// As [`Forwarding::chosen`].
    #[serde(skip_serializing_if = "is_default")]
    pub fields: Vec<Arc<ChosenFields>>,
    /// As [`Forwarding::mirrors`].
    #[serde(skip_serializing_if = "is_default")]
    pub mirrors: Vec<Mirror>,
    /// Changes the headers of every answer, in order, behind the fields of CORS.
    #[serde(skip_serializing_if = "is_default")]
    pub answer: Vec<HeaderEdit>,
    /// Sets and adds fields of every answer, in order, behind those changes.
    #[serde(skip_serializing_if = "is_default")]
    pub answer_fields: Vec<Arc<ChosenFields>>,
    /// As [`Phases::extensions`].
    #[serde(skip_serializing_if = "is_default")]
    pub extensions: Vec<Arc<Extension>>,
    /// As [`Answers::pages`]; of a share, in place of what the rule says.
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
            answer,
            answer_fields,
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
            forwarding: forwarding.kept(),
            answers: Answers {
                edits: cors
                    .map(AnswerEdit::Cors)
                    .into_iter()
                    .chain(answer.into_iter().map(AnswerEdit::Headers))
                    .chain(answer_fields.into_iter().map(AnswerEdit::Chosen))
                    .collect(),
                pages,
                ..Answers::default()
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

/// Its preflights are answered, and its fields added to answers.
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
        Self { forwarding: forwarding.kept(), ..Self::default() }
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

impl From<Answers> for Phases {
    fn from(answers: Answers) -> Self {
        Self { answers, ..Self::default() }
    }
}

impl From<ReceivedEdit> for Phases {
    fn from(edit: ReceivedEdit) -> Self {
        Answers { received: vec![edit], ..Answers::default() }.into()
    }
}

impl From<Arc<Compression>> for Phases {
    fn from(compression: Arc<Compression>) -> Self {
        Answers { compression: Some(compression), ..Answers::default() }.into()
    }
}

impl From<ErrorPages> for Phases {
    fn from(pages: ErrorPages) -> Self {
        Answers { pages: Some(Box::new(pages)), ..Answers::default() }.into()
    }
}

impl From<AnswerEdit> for Phases {
    fn from(edit: AnswerEdit) -> Self {
        Answers { edits: vec![edit], ..Answers::default() }.into()
    }
}

impl From<AnswerBounds> for Phases {
    fn from(bounds: AnswerBounds) -> Self {
        Self { bounds, ..Self::default() }
    }
}

/// Everything that all of them do, in their order; of what there can be one only, the last.
impl FromIterator<Phases> for Phases {
    fn from_iter<I: IntoIterator<Item = Self>>(parts: I) -> Self {
        let mut all = Self::default();
        parts.into_iter().for_each(|part| all.add(part));
        all
    }
}

thread_local! {
    static LAST: RefCell<Arc<Phases>> = RefCell::new(Phases::none());
}

impl Phases {
    /// Those of a rule that does nothing but its action; all such rules share them.
    #[must_use]
    pub fn none() -> Arc<Self> {
        static NONE: LazyLock<Arc<Phases>> = LazyLock::new(Arc::default);
        Arc::clone(&NONE)
    }

    /// Does this as well, behind what is done already; of what there can be one only, this replaces what there is.
    pub fn add(&mut self, more: impl Into<Self>) {
        let Self { client, guards, request, extensions, forwarding, answers, bounds, unlogged, tracing } =
            more.into();
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

    /// As a rule keeps them: rules that are made one after the other and do the same share one.
    #[must_use]
    pub fn kept(mut self) -> Arc<Self> {
        if self == Self::default() {
            return Self::none();
        }
        LAST.with_borrow_mut(|last| {
            if self != **last {
                self.shrink_to_fit();
                *last = Arc::new(self);
            }
            Arc::clone(last)
        })
    }

    /// Lists grow while they are made, and end with room for four members, which is most of them where they have one.
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

    /// Everything they do, one step after the other: for whoever shows or translates a rule.
    pub fn steps(&self) -> impl Iterator<Item = Step<'_>> {
        let Self { client, guards, request, extensions, forwarding, answers, bounds, unlogged, tracing } =
            self;
        let last = [
            (bounds.head > 0).then_some(Step::HeadBound(bounds.head)),
            bounds.rate.map(Step::Rate),
            unlogged.then_some(Step::Unlogged),
            tracing.as_deref().map(Step::Tracing),
        ];
        client
            .iter()
            .map(|client| Step::Client(client))
            .chain(guards.iter().map(Step::Guard))
            .chain(request.iter().map(Step::Request))
            .chain(extensions.iter().map(|extension| Step::Extension(extension)))
            .chain(forwarding.iter().flat_map(|forwarding| steps_of(forwarding)))
            .chain(answers.received.iter().map(Step::Received))
            .chain(answers.pages.iter().map(|pages| Step::Pages(pages)))
            .chain(answers.edits.iter().map(Step::Answer))
            .chain(answers.compression.iter().map(|compression| Step::Compression(compression)))
            .chain(last.into_iter().flatten())
    }
}

/// Those that say how requests reach endpoints.
fn steps_of(forwarding: &Forwarding) -> impl Iterator<Item = Step<'_>> {
    let Forwarding {
        path,
        fields,
        chosen,
        hop,
        secured,
        fallbacks,
        retry_statuses,
        mirrors,
        grpc_web,
        buffering,
        sticky,
    } = forwarding;
    let said = [
        path.as_ref().map(Step::Path),
        secured.as_ref().map(Step::Secured),
        (*hop != EndpointHop::default()).then_some(Step::Hop(*hop)),
        fields.as_deref().map(Step::EndpointFields),
        grpc_web.then_some(Step::GrpcWeb),
        (!retry_statuses.is_empty()).then_some(Step::RetryStatuses(retry_statuses)),
        (*buffering != Buffering::default()).then_some(Step::Buffering(*buffering)),
        sticky.as_deref().map(Step::Sticky),
    ];
    let others = fallbacks.iter().map(Step::Fallback).chain(mirrors.iter().map(Step::Mirror));
    said.into_iter().flatten().chain(chosen.iter().map(|fields| Step::Chosen(fields))).chain(others)
}

/// One thing that a rule does, as [`Phases::steps`] gives them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// Says who the client is.
    Client(&'a RealIp),
    /// Keeps requests from being forwarded.
    Guard(&'a Guard),
    /// Changes requests.
    Request(&'a RequestEdit),
    /// Lets a service see requests and responses.
    Extension(&'a Extension),
    /// [`Forwarding::path`].
    Path(&'a PathRewrite),
    /// [`Forwarding::secured`].
    Secured(&'a BackendKey),
    /// [`Forwarding::hop`], where it is not as usual.
    Hop(EndpointHop),
    /// [`Forwarding::fields`].
    EndpointFields(&'a [FieldTemplate]),
    /// One of [`Forwarding::chosen`].
    Chosen(&'a ChosenFields),
    /// [`Forwarding::grpc_web`].
    GrpcWeb,
    /// [`Forwarding::retry_statuses`].
    RetryStatuses(&'a [u16]),
    /// [`Forwarding::buffering`].
    Buffering(Buffering),
    /// [`Forwarding::sticky`].
    Sticky(&'a StickyShares),
    /// One of [`Forwarding::fallbacks`].
    Fallback(&'a Fallback),
    /// One of [`Forwarding::mirrors`].
    Mirror(&'a Mirror),
    /// Changes answers of endpoints.
    Received(&'a ReceivedEdit),
    /// [`Answers::pages`].
    Pages(&'a ErrorPages),
    /// Changes answers.
    Answer(&'a AnswerEdit),
    /// [`Answers::compression`].
    Compression(&'a Compression),
    /// [`AnswerBounds::head`].
    HeadBound(u32),
    /// [`AnswerBounds::rate`].
    Rate(AnswerRate),
    /// [`Phases::unlogged`].
    Unlogged,
    /// [`Phases::tracing`].
    Tracing(&'a Tracing),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_that_do_the_same_share_it_and_nothing_is_written_of_those_that_do_nothing() {
        let refusing = || Phases { guards: vec![Guard::OverTls], ..Phases::default() }.kept();
        let (one, two) = (refusing(), refusing());
        assert!(Arc::ptr_eq(&one, &two));
        assert!(Arc::ptr_eq(&Phases::default().kept(), &Phases::none()));
        assert_eq!(serde_json::to_string(&Phases::default()).unwrap(), "{}");
        let json = serde_json::to_string(&one).unwrap();
        assert_eq!(json, r#"{"guards":["OverTls"]}"#);
        assert_eq!(serde_json::from_str::<Phases>(&json).unwrap(), *one);
    }

    #[test]
    fn steps_come_in_the_order_in_which_a_request_meets_them() {
        let phases = Phases {
            unlogged: true,
            bounds: AnswerBounds { head: 9, rate: None },
            answers: Answers {
                edits: vec![AnswerEdit::StrictTransportSecurity("a".into())],
                compression: Some(Arc::new(Compression { codings: Vec::new() })),
                ..Answers::default()
            },
            forwarding: Forwarding { grpc_web: true, ..Forwarding::default() }.kept(),
            request: vec![RequestEdit::Host("b".into())],
            guards: vec![Guard::NeedsEndpoint, Guard::OverTls],
            ..Phases::default()
        };
        let steps: Vec<_> = phases.steps().collect();
        let [
            Step::Guard(Guard::NeedsEndpoint),
            Step::Guard(Guard::OverTls),
            Step::Request(_),
            Step::GrpcWeb,
            Step::Answer(_),
            Step::Compression(_),
            Step::HeadBound(9),
            Step::Unlogged,
        ] = &*steps
        else {
            panic!("{steps:?}")
        };
    }
}
