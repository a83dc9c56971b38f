//! The filters of a rule as steps: one ordered list for each phase, with everything prepared that does not depend on the
//! request. The data plane runs them; here they are only made.
//!
//! A rule without filters has empty lists and costs nothing. `R` is a rule that a step forwards by.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use fairway_http::{Head, Known, ReadyFields};
use fairway_model::{
    AccessList, AnswerRate, AuthCookies, BackendKey, BasicAuth, ClientCertificate, ConcurrencyLimit,
    CookieRewrite, Cors, Deny, EndpointHop, ErrorPages, Fallback, FieldTemplate, Filter, HeaderEdit,
    HeaderField, HttpsRedirect, LocationRewrite, Match, Mirror, PathForm, PathRewrite, RateLimit, RealIp,
    Redirect, RedirectTarget, Timeouts,
};
use fairway_pattern::Pattern;

use crate::candidate::PathTest;
use crate::conditions::Conditions;
use crate::cors::CorsAnswer;
use crate::guards::{AnyOf, Asking, Trailers};
use crate::request::{Fields, Request};
use crate::rewrite::CompiledRewrite;

/// The steps of a rule.
#[derive(Clone, Debug)]
pub struct Steps<R> {
    /// Between the match and the action, up to the first that answers.
    pub request: Box<[RequestStep<R>]>,
    /// Before the first of them: who the client is.
    pub real_ip: Option<Box<RealIp>>,
    /// With the request as it is forwarded, beside forwarding it.
    pub forward: Box<[Copying<R>]>,
    /// Who serves while there are no endpoints: the first that has some.
    pub fallbacks: Box<[Falling<R>]>,
    /// Of the endpoints' answers: those whose request is tried elsewhere, where that is safe. In ascending order.
    pub retried: Box<[u16]>,
    /// With the heads of endpoints' answers, before the next.
    pub received: Box<[ReceivedStep]>,
    /// With the head of every answer of the rule, whoever made it.
    pub answer: Box<[AnswerStep<R>]>,
    /// How endpoints are spoken to.
    pub endpoint: EndpointRequest,
    /// What bounds endpoints' answers.
    pub bounds: AnswerBounds,
    /// What becomes of the trailers of requests.
    pub trailers: Trailers,
    /// What becomes of gRPC-Web, request and answer with their bodies.
    pub grpc_web: GrpcWeb,
    /// At the end: whether the access log has a line for the exchange.
    pub log: Logging,
}

/// How endpoints are spoken to.
#[derive(Clone, Debug, Default)]
pub struct EndpointRequest {
    /// Those of HTTP/1.
    pub hop: EndpointHop,
    /// Edits of fields that Fairway writes itself: done once they are written.
    pub edits: Box<[FieldEdits]>,
    /// What is set in the request at last, when it is otherwise as its endpoint gets it.
    pub fields: Option<Arc<[FieldTemplate]>>,
}

/// What bounds endpoints' answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnswerBounds {
    /// Bytes that a head may have in any case.
    pub head: u32,
    /// How fast a body goes to the client.
    pub rate: Option<AnswerRate>,
}

/// What becomes of gRPC-Web.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GrpcWeb {
    /// It is the endpoint's.
    #[default]
    Passed,
    /// The endpoint sees gRPC.
    Translated,
}

/// What of an exchange is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Logging {
    /// A line.
    #[default]
    Line,
    /// Nothing.
    Nothing,
}

/// What is done with a request's head.
#[derive(Clone, Debug)]
pub enum RequestStep<R> {
    /// Answers requests in the clear.
    HttpsRedirect(HttpsRedirect),
    /// Answers every request.
    Redirect(CompiledRedirect),
    /// Refuses clients by address.
    Access(AccessList),
    /// Refuses clients by their certificates.
    Certificate(Box<CompiledCertificate>),
    /// Refuses requests in the clear.
    OverTls,
    /// Refuses requests by what they are.
    Deny(CompiledDeny),
    /// Answers preflights of allowed origins.
    Preflight(Arc<Cors>),
    /// Refuses requests while the action has no endpoint for any.
    Endpoint,
    /// Edits fields.
    Edit(FieldEdits),
    /// Sets `Host`.
    Host(Arc<str>),
    /// Makes another target.
    Path(CompiledRewrite),
    /// Sets `X-Forwarded-Prefix` to a part of the path.
    Prefix(CompiledRewrite),
    /// Waits for another service's word.
    Ask(Box<Asking<R>>),
    /// Waits until the password is verified.
    Password(Box<BasicAuth>),
    /// Waits for the first of several guards that lets the request pass.
    Any(Box<AnyOf<R>>),
    /// Refuses clients that ask too often.
    Rate(PolicyId, RateLimit),
    /// Refuses clients that have too much under way, and counts what is let through until it is over.
    Concurrency(PolicyId, ConcurrencyLimit),
}

/// What is done with an answer's head.
#[derive(Clone, Debug)]
pub enum AnswerStep<R> {
    /// Lets another backend answer instead. Before the others.
    Replace(Box<Replacing<R>>),
    /// Adds what browsers ask for.
    Cors(Box<CorsAnswer>),
    /// Adds the cookies of the service that was asked.
    Cookies(AuthCookies),
    /// Edits fields.
    Edit(FieldEdits),
    /// Sets fields.
    Fields(Arc<[FieldTemplate]>),
    /// Sets `Strict-Transport-Security` on answers over TLS.
    StrictTransportSecurity(Arc<str>),
}

/// What is done with the head of an endpoint's answer.
#[derive(Clone, Debug)]
pub enum ReceivedStep {
    /// Removes fields, before the proxy adds any of its own.
    Hide(Arc<[Arc<str>]>),
    /// Replaces attributes of cookies.
    Cookies(CookieRewrite),
    /// Replaces the beginning of URLs.
    Location(LocationRewrite),
}

/// What the counts of a policy belong to: the same for the same name, in every snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PolicyId(u64);

impl PolicyId {
    /// Of the policy that has this name.
    #[must_use]
    pub fn of(policy: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        policy.hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// A copy of requests.
#[derive(Clone, Debug)]
pub struct Copying<R> {
    /// Which ones, and how much of them.
    pub mirror: Mirror,
    /// Where the copies go: a rule of its own, without steps.
    pub rule: R,
}

/// Answers that another backend makes.
#[derive(Clone, Debug)]
pub struct Replacing<R> {
    /// Which ones, and what is said about them.
    pub pages: ErrorPages,
    /// Where the question goes: a rule of its own, with the steps for pages. `None`: nowhere.
    pub rule: Option<R>,
}

/// Another backend for requests that have no endpoint.
#[derive(Clone, Debug)]
pub struct Falling<R> {
    /// Who, and what it is told.
    pub to: Fallback,
    /// Where the requests go: a rule of its own, without steps.
    pub rule: R,
}

/// A redirect whose new path is prepared.
#[derive(Clone, Debug)]
pub struct CompiledRedirect {
    /// 300..=308.
    pub status: u16,
    /// Where to.
    pub target: RedirectTarget,
    /// The new path, where the target has one.
    pub path: Option<CompiledRewrite>,
}

/// Whose certificates are good enough.
#[derive(Clone, Debug)]
pub struct CompiledCertificate {
    /// What is asked for.
    pub of: ClientCertificate,
    subject: Option<Arc<Pattern>>,
}

impl CompiledCertificate {
    fn compiled(of: &ClientCertificate) -> Result<Self, String> {
        let subject = of.subject.as_ref().map(|pattern| {
            Pattern::anywhere(pattern)
                .map_err(|why| format!("the regular expression of the subject, {pattern:?}, {why}"))
        });
        Ok(Self { of: of.clone(), subject: subject.transpose()? })
    }

    /// Whether a certificate for this subject may pass; the subject of none is empty.
    #[must_use]
    pub fn takes(&self, subject: &str) -> bool {
        self.subject.as_ref().is_none_or(|pattern| pattern.is_match(subject.as_bytes()))
    }
}

/// Requests that are refused.
#[derive(Clone, Debug)]
pub struct CompiledDeny {
    /// What they are answered: 400..=599.
    pub status: u16,
    /// Whether that is every request.
    pub all: bool,
    when: Box<[(PathTest, Option<Conditions>)]>,
    form: PathForm,
}

impl CompiledDeny {
    fn compiled(deny: &Deny, form: PathForm) -> Result<Self, String> {
        let when = deny.when.iter().map(|of| Ok((PathTest::compiled(&of.path)?, Conditions::compiled(of)?)));
        let all = deny.when == [Match::default()];
        Ok(Self { status: deny.status, all, when: when.collect::<Result<_, String>>()?, form })
    }

    /// Whether a request is one of them. Every value of a name counts, and one that is too long to be compared is one of
    /// them.
    pub fn covers<F: Fields>(&self, request: &Request<'_, F>) -> bool {
        let path = match self.form {
            PathForm::Normalised => request.normalised,
            PathForm::Decoded => request.decoded,
        };
        let holds = |(test, conditions): &(PathTest, Option<Conditions>)| {
            test.covered(path).is_some() && conditions.as_ref().is_none_or(|it| it.refuse(request))
        };
        self.when.iter().any(holds)
    }
}

/// Edits of fields that may be made: not of those that say where the message ends or what becomes of the connection, and
/// there is always one `Host`. In the order of their lists.
#[derive(Clone, Debug)]
pub struct FieldEdits {
    /// All fields of these names go.
    pub remove: Box<[Arc<str>]>,
    /// These replace all of their name.
    pub set: ReadyFields,
    /// These come beside what is there.
    pub add: ReadyFields,
}

impl<R> Default for Steps<R> {
    fn default() -> Self {
        Self {
            request: [].into(),
            real_ip: None,
            forward: [].into(),
            fallbacks: [].into(),
            retried: [].into(),
            received: [].into(),
            answer: [].into(),
            endpoint: EndpointRequest::default(),
            bounds: AnswerBounds::default(),
            trailers: Trailers::default(),
            grpc_web: GrpcWeb::default(),
            log: Logging::default(),
        }
    }
}

impl<R> Steps<R> {
    /// Compiles `filters` for a host whose rules see `form`. `inner` makes the rules that steps forward by.
    ///
    /// # Errors
    /// With the rewrite that cannot be compiled, as a sentence.
    pub(crate) fn compiled(
        filters: &[Filter],
        form: PathForm,
        inner: &mut impl FnMut(InnerRule<'_>) -> R,
    ) -> Result<Self, String> {
        let mut steps = Lists {
            request: Vec::new(),
            real_ip: None,
            forward: Vec::new(),
            fallbacks: Vec::new(),
            retried: Vec::new(),
            replace: Vec::new(),
            received: Vec::new(),
            answer: Vec::new(),
            hop: <_>::default(),
            trailers: Trailers::default(),
            grpc_web: GrpcWeb::default(),
            log: Logging::default(),
        };
        for filter in filters {
            steps.add(filter, form, filters, inner)?;
        }
        steps.retried.sort_unstable();
        Ok(Self {
            request: steps.request.into(),
            real_ip: steps.real_ip,
            forward: steps.forward.into(),
            fallbacks: steps.fallbacks.into(),
            retried: steps.retried.into(),
            received: steps.received.into(),
            answer: steps.replace.into_iter().chain(steps.answer).collect(),
            endpoint: steps.hop.0,
            bounds: steps.hop.1,
            trailers: steps.trailers,
            grpc_web: steps.grpc_web,
            log: steps.log,
        })
    }

    /// The steps of a share's rule, with what those of the whole rule add to answers and no filter of the share's says.
    pub(crate) fn within(mut self, outer: &Self) -> Self {
        let cookies = outer.answer.iter().filter_map(|step| match step {
            AnswerStep::Cookies(which) => Some(AnswerStep::Cookies(*which)),
            _ => None,
        });
        self.answer = std::mem::take(&mut self.answer).into_iter().chain(cookies).collect();
        let edits = std::mem::take(&mut self.endpoint.edits).into_iter();
        self.endpoint.edits = outer.endpoint.edits.iter().cloned().chain(edits).collect();
        self.trailers = outer.trailers;
        self
    }

    /// All rewrites of paths.
    pub(crate) fn rewrites(&self) -> impl Iterator<Item = &CompiledRewrite> {
        self.request.iter().filter_map(|step| match step {
            RequestStep::Path(rewrite) | RequestStep::Prefix(rewrite) => Some(rewrite),
            RequestStep::Redirect(redirect) => redirect.path.as_ref(),
            _ => None,
        })
    }

    /// All rules that steps forward by.
    pub(crate) fn rules(&self) -> impl Iterator<Item = &R> {
        let asked = self.request.iter().filter_map(|step| match step {
            RequestStep::Ask(asking) => asking.rule.as_ref(),
            RequestStep::Any(any) => any.asking.as_ref().and_then(|asking| asking.rule.as_ref()),
            _ => None,
        });
        let replaced = self.answer.iter().filter_map(|step| match step {
            AnswerStep::Replace(replacing) => replacing.rule.as_ref(),
            _ => None,
        });
        let falling = self.fallbacks.iter().map(|falling| &falling.rule);
        asked.chain(self.forward.iter().map(|copying| &copying.rule)).chain(falling).chain(replaced)
    }
}

/// A rule that a step forwards by.
pub(crate) struct InnerRule<'a> {
    /// Where to.
    pub(crate) backend: &'a BackendKey,
    /// How long each step may take; none is as the outer rule says.
    pub(crate) timeouts: Option<Timeouts>,
    /// What is done to its answers.
    pub(crate) filters: Vec<Filter>,
}

/// Steps in the making.
struct Lists<R> {
    request: Vec<RequestStep<R>>,
    real_ip: Option<Box<RealIp>>,
    forward: Vec<Copying<R>>,
    fallbacks: Vec<Falling<R>>,
    retried: Vec<u16>,
    replace: Vec<AnswerStep<R>>,
    received: Vec<ReceivedStep>,
    answer: Vec<AnswerStep<R>>,
    /// How endpoints are spoken to, and what bounds their answers.
    hop: (EndpointRequest, AnswerBounds),
    trailers: Trailers,
    grpc_web: GrpcWeb,
    log: Logging,
}

impl<R> Lists<R> {
    fn add(
        &mut self,
        filter: &Filter,
        form: PathForm,
        all: &[Filter],
        inner: &mut impl FnMut(InnerRule<'_>) -> R,
    ) -> Result<(), String> {
        let Self { request, forward, replace, received, answer, hop: (endpoint, bounds), .. } = self;
        match filter {
            Filter::HttpsRedirect(to) => request.push(RequestStep::HttpsRedirect(to.clone())),
            Filter::Redirect(to) => {
                request.push(RequestStep::Redirect(CompiledRedirect::compiled(to, form)?));
            }
            Filter::Access(list) => request.push(RequestStep::Access(list.clone())),
            Filter::ClientCertificate(of) => {
                request.push(RequestStep::Certificate(Box::new(CompiledCertificate::compiled(of)?)));
            }
            Filter::OverTls => request.push(RequestStep::OverTls),
            Filter::Deny(deny) => request.push(RequestStep::Deny(CompiledDeny::compiled(deny, form)?)),
            Filter::NeedsEndpoint => request.push(RequestStep::Endpoint),
            Filter::RealIp(real_ip_of) => self.real_ip = Some(Box::new(real_ip_of.clone())),
            Filter::Cors(cors) => {
                let cors = Arc::new(cors.clone());
                request.push(RequestStep::Preflight(Arc::clone(&cors)));
                answer.push(AnswerStep::Cors(Box::new(CorsAnswer::of(cors))));
            }
            Filter::RequestHeaders(edit) => {
                // Fields that Fairway writes itself are edited once they are written.
                let ours = FieldEdits::of(edit, Known::is_of_the_client);
                let others = FieldEdits::of(edit, |known| !known.is_of_the_client());
                let edits = std::mem::take(&mut endpoint.edits).into_iter();
                endpoint.edits = edits.chain((!ours.is_empty()).then_some(ours)).collect();
                request.extend((!others.is_empty()).then_some(RequestStep::Edit(others)));
            }
            Filter::ResponseHeaders(edit) => answer.push(AnswerStep::Edit(FieldEdits::of(edit, |_| true))),
            Filter::StrictTransportSecurity(value) => {
                answer.push(AnswerStep::StrictTransportSecurity(Arc::clone(value)));
            }
            Filter::EndpointHop(it) => endpoint.hop = *it,
            Filter::EndpointFields(fields) => endpoint.fields = Some(Arc::clone(fields)),
            Filter::AnswerFields(fields) => answer.push(AnswerStep::Fields(Arc::clone(fields))),
            Filter::HiddenFields(names) => received.push(ReceivedStep::Hide(Arc::clone(names))),
            Filter::AnswerHead(bytes) => bounds.head = *bytes,
            Filter::AnswerRate(rate) => bounds.rate = Some(*rate),
            // Chooses among backends, as the action does.
            Filter::SecuredBackend(_) => {}
            Filter::AnswerCookies(cookies) => received.push(ReceivedStep::Cookies(cookies.clone())),
            Filter::AnswerLocation(to) => received.push(ReceivedStep::Location(to.clone())),
            Filter::RewritePath(path) => {
                request.push(RequestStep::Path(CompiledRewrite::compiled(path, form)?));
            }
            Filter::ForwardedPrefix(path) => {
                request.push(RequestStep::Prefix(CompiledRewrite::compiled(path, form)?));
            }
            Filter::RewriteHost(host) => request.push(RequestStep::Host(Arc::clone(host))),
            Filter::ExternalAuth(_) | Filter::BasicAuth(_) | Filter::AnyGuard(_) => self.guard(filter, inner),
            Filter::RateLimit(limit) => {
                request.push(RequestStep::Rate(PolicyId::of(&limit.policy), limit.clone()));
            }
            Filter::ConcurrencyLimit(limit) => {
                request.push(RequestStep::Concurrency(PolicyId::of(&limit.policy), limit.clone()));
            }
            Filter::Mirror(mirror) => {
                let rule = inner(InnerRule { backend: &mirror.backend, timeouts: None, filters: Vec::new() });
                forward.push(Copying { mirror: mirror.clone(), rule });
            }
            Filter::ErrorPages(pages) => {
                let filters = || all.iter().filter(|filter| is_of_pages(filter)).cloned().collect();
                let backend = pages.backend.as_ref();
                let rule =
                    backend.map(|backend| inner(InnerRule { backend, timeouts: None, filters: filters() }));
                replace.push(AnswerStep::Replace(Box::new(Replacing { pages: pages.clone(), rule })));
            }
            Filter::Fallback(to) => {
                let rule = inner(InnerRule { backend: &to.backend, timeouts: None, filters: Vec::new() });
                self.fallbacks.push(Falling { to: to.clone(), rule });
            }
            Filter::RetryStatuses(statuses) => self.retried.extend(statuses),
            Filter::GrpcWeb => self.grpc_web = GrpcWeb::Translated,
            Filter::Unlogged => self.log = Logging::Nothing,
        }
        Ok(())
    }
}

impl<R> Lists<R> {
    /// Adds a filter that waits for somebody.
    fn guard(&mut self, filter: &Filter, inner: &mut impl FnMut(InnerRule<'_>) -> R) {
        let mut rule = |backend: &BackendKey, timeouts| {
            inner(InnerRule { backend, timeouts: Some(timeouts), filters: Vec::new() })
        };
        self.trailers = Trailers::Dropped;
        let step = match filter {
            Filter::ExternalAuth(auth) => {
                self.answer.push(AnswerStep::Cookies(auth.cookies));
                RequestStep::Ask(Box::new(Asking::new(auth, &mut rule)))
            }
            Filter::BasicAuth(basic) => RequestStep::Password(Box::new(basic.clone())),
            Filter::AnyGuard(any) => {
                self.answer.extend(any.external.iter().map(|auth| AnswerStep::Cookies(auth.cookies)));
                RequestStep::Any(Box::new(AnyOf::new(any, &mut rule)))
            }
            _ => return,
        };
        self.request.push(step);
    }
}

/// The filters by which the requests of a share are forwarded: its own, and those of its rule that act on what comes
/// after the choice of a backend.
pub(crate) fn of_share(own: &[Filter], rule: &[Filter]) -> Vec<Filter> {
    own.iter().chain(rule.iter().filter(|filter| is_of_what_follows(filter))).cloned().collect()
}

/// Whether it acts on requests that have a backend, or on answers.
fn is_of_what_follows(filter: &Filter) -> bool {
    is_of_answers(filter)
        || matches!(
            filter,
            Filter::EndpointFields(_)
                | Filter::EndpointHop(_)
                | Filter::AnswerHead(_)
                | Filter::AnswerRate(_)
                | Filter::AnswerCookies(_)
                | Filter::AnswerLocation(_)
                | Filter::ErrorPages(_)
                | Filter::RetryStatuses(_)
                | Filter::GrpcWeb
                | Filter::Unlogged
        )
}

/// Whether it acts on pages, too. They are made outside of the location whose answers they replace, as in ingress-nginx, so
/// that only what holds for the whole proxy reaches them.
fn is_of_pages(filter: &Filter) -> bool {
    matches!(filter, Filter::AnswerFields(_) | Filter::HiddenFields(_))
}

/// Whether it acts on every answer of its rule, whoever made it.
fn is_of_answers(filter: &Filter) -> bool {
    matches!(
        filter,
        Filter::Cors(_)
            | Filter::ResponseHeaders(_)
            | Filter::AnswerFields(_)
            | Filter::HiddenFields(_)
            | Filter::StrictTransportSecurity(_)
    )
}

impl CompiledRedirect {
    fn compiled(to: &Redirect, form: PathForm) -> Result<Self, String> {
        let path = match &to.target {
            // What is said in full is said as it is, without a query of its own.
            RedirectTarget::Parts {
                path: Some(path @ (PathRewrite::Prefix(_) | PathRewrite::Regex { .. })),
                ..
            } => Some(CompiledRewrite::compiled(path, form)?),
            RedirectTarget::Parts { .. }
            | RedirectTarget::Url(_)
            | RedirectTarget::Path(_)
            | RedirectTarget::Host(_) => None,
        };
        Ok(Self { status: to.status, target: to.target.clone(), path })
    }
}

impl FieldEdits {
    /// Makes them.
    #[inline]
    pub fn apply(&self, head: &mut Head) {
        for name in &self.remove {
            head.remove(name.as_bytes());
        }
        head.set_ready(&self.set);
        head.append_ready(&self.add);
    }

    fn is_empty(&self) -> bool {
        self.remove.is_empty() && self.set.is_empty() && self.add.is_empty()
    }

    /// Those of an edit that may be made, of the `chosen` names.
    fn of(edit: &HeaderEdit, chosen: impl Fn(Known) -> bool) -> Self {
        let known = |name: &str| Known::of(name.as_bytes());
        let may = |name: &str| !known(name).is_of_one_hop() && chosen(known(name));
        let is_host = |field: &HeaderField| known(&field.name) == Known::Host;
        let removed = edit.remove.iter().filter(|name| may(name) && known(name) != Known::Host);
        let set = edit.set.iter().filter(|field| may(&field.name));
        let added = edit.add.iter().filter(|field| may(&field.name));
        // One more `Host` is another `Host`.
        let (hosts, added): (Vec<&HeaderField>, Vec<&HeaderField>) = added.partition(|field| is_host(field));
        Self {
            remove: removed.cloned().collect(),
            set: ReadyFields::distinct(set.chain(hosts).map(name_and_value)),
            add: ReadyFields::new(added.into_iter().map(name_and_value)),
        }
    }
}

fn name_and_value(field: &HeaderField) -> (&[u8], &[u8]) {
    (field.name.as_bytes(), field.value.as_bytes())
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    fn field(name: &str) -> HeaderField {
        HeaderField { name: name.into(), value: "v".into() }
    }

    fn names(fields: &ReadyFields) -> Vec<&str> {
        fields.iter().map(|field| std::str::from_utf8(field.name).unwrap()).collect()
    }

    #[test]
    fn what_belongs_to_the_hop_is_not_edited_and_there_is_one_host() {
        let edit = HeaderEdit {
            remove: ["x-a", "host", "Connection", "content-length"].map(Into::into).into(),
            set: vec![field("X-B"), field("Transfer-Encoding"), field("Host")],
            add: vec![field("X-C"), field("host"), field("Upgrade")],
        };
        let edits = FieldEdits::of(&edit, |_| true);
        assert_eq!(edits.remove.iter().map(|name| &**name).collect::<Vec<_>>(), ["x-a"]);
        assert_eq!((names(&edits.set), names(&edits.add)), (vec!["X-B", "host"], vec!["X-C"]));
    }

    /// Of few names, so that they meet.
    fn some_fields() -> impl Strategy<Value = Vec<HeaderField>> {
        let names = select(vec!["X-A", "x-a", "X-B", "X-Longer", "Date", "date", "Server"]);
        let field = |(name, value): (&str, String)| HeaderField { name: name.into(), value: value.into() };
        vec((names, "[a-z]").prop_map(field), 0..4)
    }

    proptest! {
        #[test]
        fn edits_come_out_as_if_each_were_made_by_itself(
            had in some_fields(),
            remove in vec(select(vec!["x-a", "x-b", "date", "x-none"]), 0..3),
            set in some_fields(),
            add in some_fields(),
        ) {
            let mut edited = Head::new();
            edited.start_response(200);
            had.iter().map(name_and_value).for_each(|(name, value)| edited.append(name, value));
            let mut expected = edited.clone();
            remove.iter().for_each(|name| expected.remove(name.as_bytes()));
            set.iter().map(name_and_value).for_each(|(name, value)| expected.set(name, value));
            add.iter().map(name_and_value).for_each(|(name, value)| expected.append(name, value));
            let remove: Vec<Arc<str>> = remove.into_iter().map(Arc::from).collect();
            FieldEdits::of(&HeaderEdit { remove, set, add }, |_| true).apply(&mut edited);
            prop_assert_eq!(edited.fields().collect::<Vec<_>>(), expected.fields().collect::<Vec<_>>());
            for known in [Known::Date, Known::Server] {
                prop_assert_eq!(edited.first(known), expected.first(known));
            }
            let lines = |head: &Head| {
                let mut lines = Vec::new();
                head.for_each_run(|run| lines.extend_from_slice(run));
                lines
            };
            prop_assert_eq!(lines(&edited), lines(&expected));
        }
    }

    #[test]
    fn what_fairway_writes_itself_is_edited_at_last() {
        let set = |name: &str| HeaderEdit { set: vec![field(name)], ..HeaderEdit::default() };
        let both = HeaderEdit { add: vec![field("X-A")], ..set("X-Forwarded-Proto") };
        let filters = [both, set("x-real-ip"), set("X-B")].map(Filter::RequestHeaders);
        let steps = Steps::<()>::compiled(&filters, PathForm::Decoded, &mut |_| ()).unwrap();
        let ours: Vec<_> = steps.endpoint.edits.iter().flat_map(|edits| names(&edits.set)).collect();
        assert_eq!(ours, ["X-Forwarded-Proto", "x-real-ip"]);
        let [RequestStep::Edit(first), RequestStep::Edit(second)] = &*steps.request else {
            panic!("two steps")
        };
        assert_eq!((names(&first.add), names(&second.set)), (vec!["X-A"], vec!["X-B"]));
        assert!(first.set.is_empty());
    }

    #[test]
    fn steps_keep_the_order_of_the_filters_within_their_phase() {
        let edit = || HeaderEdit { set: vec![field("X-A")], ..HeaderEdit::default() };
        let filters = [
            Filter::ResponseHeaders(edit()),
            Filter::RewriteHost("a".into()),
            Filter::StrictTransportSecurity("max-age=1".into()),
            Filter::RequestHeaders(edit()),
        ];
        let steps = Steps::<()>::compiled(&filters, PathForm::Decoded, &mut |_| ()).unwrap();
        assert!(matches!(*steps.request, [RequestStep::Host(_), RequestStep::Edit(_)]));
        assert!(matches!(*steps.answer, [AnswerStep::Edit(_), AnswerStep::StrictTransportSecurity(_)]));
        assert_eq!(steps.rewrites().count(), 0);
    }
}
