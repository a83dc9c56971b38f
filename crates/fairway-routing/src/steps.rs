//! The phases of a rule as steps, with everything prepared that does not depend on the request. The data plane runs them; here
//! they are only made, one function for each phase.
//!
//! A rule without phases has empty lists and costs nothing. `R` is a rule that a step forwards by.

use std::sync::Arc;
use std::time::Duration;

use fairway_extension::processing::Prepared;
use fairway_http::{Head, Known, ReadyFields};
use fairway_model::{
    AccessList, AnswerBounds, AnswerEdit, Answers, ApiKeyAuth, AuthCookies, BackendKey, BasicAuth, Buffering,
    ClientCertificate, Compression, ConcurrencyLimit, Cors, Deny, EndpointHop, ErrorPages, Extension,
    Fallback, FieldTemplate, Forwarding, GeoFields, GrpcService, Guard, HeaderEdit, HeaderField,
    HttpsRedirect, Match, Mirror, PathForm, PathRewrite, Phases, RateLimit, RealIp, ReceivedEdit, Redirect,
    RedirectTarget, RequestEdit, RouteFilters, Timeouts, Tracing,
};
use fairway_pattern::Pattern;
use fairway_token::digest;

use crate::authorization::AuthorizationCheck;
use crate::candidate::PathTest;
use crate::chosen::{CompiledChosen, CompiledRespond};
use crate::conditions::Conditions;
use crate::cors::CorsAnswer;
use crate::guards::{AnyOf, Asking, AskingGrpc, LoginCheck, TokenCheck};
use crate::request::{Fields, Request};
use crate::rewrite::CompiledRewrite;

/// The steps of a rule, by phase.
#[derive(Clone, Debug)]
pub struct Steps<R> {
    /// Who the client is.
    pub client: Option<Box<RealIp>>,
    /// Asked in order, up to the first that answers.
    pub guards: Box<[GuardStep<R>]>,
    /// Whether a guard asks for API keys, which go no further than all guards.
    pub takes_api_keys: bool,
    /// Whether a guard asks for logins, whose cookies go no further than all guards.
    pub takes_logins: bool,
    /// Done to the heads of requests that every guard let pass.
    pub request: Box<[RequestStep]>,
    /// Services that see requests and responses, in the order in which requests meet them.
    pub extensions: Box<[Extending<R>]>,
    /// How requests reach endpoints.
    pub forwarding: ForwardingSteps<R>,
    /// What becomes of answers.
    pub answers: AnswerSteps<R>,
    /// What bounds endpoints' answers.
    pub bounds: AnswerBounds,
    /// What guards and headers have of databases of addresses.
    pub geo: GeoFields,
    /// Whether a header has the name that the client asked for in its handshake.
    pub reads_server_name: bool,
    /// Whether the access log has no line for the exchange.
    pub unlogged: bool,
    /// How the exchange is traced; as the listener says where there is nothing.
    pub tracing: Option<Arc<Tracing>>,
}

/// A question that a request must pass.
#[derive(Clone, Debug)]
pub enum GuardStep<R> {
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
    /// Answers requests that meet conditions.
    Respond(Box<CompiledRespond>),
    /// Answers preflights of allowed origins.
    Preflight(Arc<Cors>),
    /// Refuses requests while the action has no endpoint for any.
    Endpoint,
    /// Waits for another service's word.
    Ask(Box<Asking<R>>),
    /// Waits for the word of a service that speaks gRPC.
    AskGrpc(Box<AskingGrpc<R>>),
    /// Waits until the password is verified.
    Password(Box<BasicAuth>),
    /// Lets through who shows a token; waits where it was not verified before.
    Token(Box<TokenCheck<R>>),
    /// Lets through who has logged in at a provider; waits where the session was not opened before.
    Login(Box<LoginCheck<R>>),
    /// Lets through who knows an API key.
    ApiKey(Arc<ApiKeyAuth>),
    /// Lets through to whom it is allowed.
    Authorize(Box<AuthorizationCheck>),
    /// Waits for the first of several guards that lets the request pass.
    Any(Box<AnyOf<R>>),
    /// Refuses clients that ask too often.
    Rate(PolicyId, RateLimit),
    /// Refuses clients that have too much under way, and counts what is let through until it is over.
    Concurrency(PolicyId, ConcurrencyLimit),
}

/// What is done to a request's head.
#[derive(Clone, Debug)]
pub enum RequestStep {
    /// Edits fields.
    Edit(FieldEdits),
    /// Sets `Host`.
    Host(Arc<str>),
    /// Sets `X-Forwarded-Prefix` to a part of the path.
    Prefix(CompiledRewrite),
}

/// How requests reach endpoints.
#[derive(Clone, Debug)]
pub struct ForwardingSteps<R> {
    /// Makes another target.
    pub path: Option<CompiledRewrite>,
    /// Edits of fields that Fairway writes itself: done once they are written.
    pub edits: Box<[FieldEdits]>,
    /// What is set in the request at last, when it is otherwise as its endpoint gets it.
    pub fields: Option<Arc<[FieldTemplate]>>,
    /// What is set or added behind these, where conditions hold.
    pub chosen: Box<[CompiledChosen]>,
    /// How endpoints of HTTP/1 are spoken to.
    pub hop: EndpointHop,
    /// Copies of requests.
    pub mirrors: Box<[Copying<R>]>,
    /// Who serves while there are no endpoints: the first that has some.
    pub fallbacks: Box<[Falling<R>]>,
    /// Of the endpoints' answers: those whose request is tried elsewhere, where that is safe. In ascending order.
    pub retried: Box<[u16]>,
    /// Whether the trailers of requests end here: endpoints that take trailers for fields would believe what only a guard may say.
    pub drops_trailers: bool,
    /// Whether the endpoint sees gRPC in the place of gRPC-Web.
    pub grpc_web: bool,
    /// Which bodies are held before they go on.
    pub buffering: Option<Box<Buffering>>,
}

/// What becomes of answers.
#[derive(Clone, Debug)]
pub struct AnswerSteps<R> {
    /// Done to the heads of endpoints' answers.
    pub received: Box<[ReceivedEdit]>,
    /// Lets another backend answer instead.
    pub replacing: Option<Box<Replacing<R>>>,
    /// Done to the head of every answer, whoever made it.
    pub edits: Box<[AnswerStep]>,
    /// How the bodies of endpoints' answers are compressed.
    pub compression: Option<Arc<Compression>>,
}

/// What is done to the head of every answer.
#[derive(Clone, Debug)]
pub enum AnswerStep {
    /// Adds what browsers ask for.
    Cors(Box<CorsAnswer>),
    /// Adds the cookies of the service that was asked.
    Cookies(AuthCookies),
    /// Adds the headers that an authorization service gave.
    Granted,
    /// Edits fields.
    Edit(FieldEdits),
    /// Sets fields.
    Fields(Arc<[FieldTemplate]>),
    /// Sets or adds fields, where conditions hold.
    Chosen(Box<CompiledChosen>),
    /// Sets `Strict-Transport-Security` on answers over TLS.
    StrictTransportSecurity(Arc<str>),
}

/// What the counts of a policy belong to: the same for the same name, in every snapshot and replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PolicyId(u64);

impl PolicyId {
    /// Of the policy that has this name.
    #[must_use]
    pub fn of(policy: &str) -> Self {
        let mut number = [0; 8];
        number.copy_from_slice(&digest(policy.as_bytes())[..8]);
        Self(u64::from_be_bytes(number))
    }

    /// The one that another replica calls so.
    #[must_use]
    pub fn from_number(number: u64) -> Self {
        Self(number)
    }

    /// What replicas call it.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0
    }
}

/// A service that sees requests and responses.
#[derive(Clone, Debug)]
pub struct Extending<R> {
    /// Which, what it may do, and what all its streams send.
    pub prepared: Arc<Prepared>,
    /// Where its streams go: a rule of its own, without steps.
    pub rule: R,
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
            Pattern::anywhere(pattern, false)
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
            client: None,
            guards: [].into(),
            takes_api_keys: false,
            takes_logins: false,
            request: [].into(),
            extensions: [].into(),
            forwarding: ForwardingSteps {
                path: None,
                edits: [].into(),
                fields: None,
                chosen: [].into(),
                hop: EndpointHop::default(),
                mirrors: [].into(),
                fallbacks: [].into(),
                retried: [].into(),
                drops_trailers: false,
                grpc_web: false,
                buffering: None,
            },
            answers: AnswerSteps {
                received: [].into(),
                replacing: None,
                edits: [].into(),
                compression: None,
            },
            bounds: AnswerBounds::default(),
            geo: GeoFields::NONE,
            reads_server_name: false,
            unlogged: false,
            tracing: None,
        }
    }
}

impl<R> Steps<R> {
    /// Compiles `phases` for a host whose rules see `form`. `inner` makes the rules that steps forward by.
    ///
    /// # Errors
    /// With what cannot be compiled, as a sentence.
    pub(crate) fn compiled(
        phases: &Phases,
        form: PathForm,
        inner: &mut dyn FnMut(InnerRule<'_>) -> R,
    ) -> Result<Self, String> {
        let guards = phases.guards.iter().map(|guard| GuardStep::compiled(guard, form, inner));
        let guards = guards.collect::<Result<Box<[_]>, String>>()?;
        let mut forwarding = forwarding(phases, form, inner)?;
        forwarding.drops_trailers = guards.iter().any(GuardStep::speaks_for_the_client);
        let steps = Self {
            client: phases.client.clone(),
            takes_api_keys: guards.iter().any(|guard| guard.api_key().is_some()),
            takes_logins: guards.iter().any(|guard| matches!(guard, GuardStep::Login(_))),
            request: request(&phases.request, form)?,
            extensions: extensions(&phases.extensions, inner),
            forwarding,
            answers: answers(&phases.answers, &guards, inner)?,
            guards,
            bounds: phases.bounds,
            geo: GeoFields::NONE,
            reads_server_name: false,
            unlogged: phases.unlogged,
            tracing: phases.tracing.clone(),
        };
        let reads_server_name = steps.written_headers().any(|header| header.value.reads_server_name());
        Ok(Self { geo: steps.geo_fields(), reads_server_name, ..steps })
    }

    /// What guards, and the headers of requests and answers, have of databases of addresses.
    fn geo_fields(&self) -> GeoFields {
        let asked = self.guards.iter().filter_map(|guard| match guard {
            GuardStep::Authorize(check) => Some(check.geo_fields()),
            _ => None,
        });
        let of_headers: GeoFields =
            self.written_headers().flat_map(|header| header.value.geo_fields()).collect();
        asked.fold(of_headers, GeoFields::and)
    }

    /// The headers that are set in requests and responses, also where that depends on conditions.
    fn written_headers(&self) -> impl Iterator<Item = &FieldTemplate> {
        let of_responses = self.answers.edits.iter().filter_map(|step| match step {
            AnswerStep::Fields(headers) => Some(&**headers),
            AnswerStep::Chosen(chosen) => Some(&*chosen.of.fields),
            _ => None,
        });
        let of_requests = self.forwarding.fields.as_deref().into_iter();
        let chosen = self.forwarding.chosen.iter().map(|chosen| &*chosen.of.fields);
        of_requests.chain(chosen).chain(of_responses).flatten()
    }

    /// The steps of a share's rule, with what those of the whole rule add to requests and answers and no phase of the share's says.
    pub(crate) fn within(mut self, outer: &Self) -> Self {
        let cookies = outer.answers.edits.iter().filter_map(|step| match step {
            AnswerStep::Cookies(which) => Some(AnswerStep::Cookies(*which)),
            AnswerStep::Granted => Some(AnswerStep::Granted),
            _ => None,
        });
        self.answers.edits = std::mem::take(&mut self.answers.edits).into_iter().chain(cookies).collect();
        let edits = std::mem::take(&mut self.forwarding.edits).into_iter();
        self.forwarding.edits = outer.forwarding.edits.iter().cloned().chain(edits).collect();
        self.forwarding.drops_trailers = outer.forwarding.drops_trailers;
        self
    }

    /// Whether none of them asks anything of the client, counts it, or lets others than endpoints see its requests. What is not known to
    /// be harmless waits for the handshake.
    pub(crate) fn take_early_data(&self) -> bool {
        let ForwardingSteps { mirrors, .. } = &self.forwarding;
        let asks_nothing = |guard: &GuardStep<R>| {
            matches!(
                guard,
                GuardStep::HttpsRedirect(_)
                    | GuardStep::Redirect(_)
                    | GuardStep::OverTls
                    | GuardStep::Endpoint
                    | GuardStep::Preflight(_)
            )
        };
        self.guards.iter().all(asks_nothing)
            && self.extensions.is_empty()
            && mirrors.is_empty()
            && self.answers.replacing.is_none()
    }

    /// All rewrites of paths.
    pub(crate) fn rewrites(&self) -> impl Iterator<Item = &CompiledRewrite> {
        let redirects = self.guards.iter().filter_map(|guard| match guard {
            GuardStep::Redirect(redirect) => redirect.path.as_ref(),
            _ => None,
        });
        let prefixes = self.request.iter().filter_map(|step| match step {
            RequestStep::Prefix(rewrite) => Some(rewrite),
            _ => None,
        });
        redirects.chain(prefixes).chain(&self.forwarding.path)
    }

    /// All rules that steps forward by.
    pub(crate) fn rules(&self) -> impl Iterator<Item = &R> {
        let asked = self.guards.iter().filter_map(|guard| match guard {
            GuardStep::AskGrpc(asking) => Some(&asking.rule),
            _ => guard.asking()?.rule.as_ref(),
        });
        let extending = self.extensions.iter().map(|extending| &extending.rule);
        let issuers = self.guards.iter().filter_map(GuardStep::token).flat_map(TokenCheck::rules);
        let providers = self.guards.iter().flat_map(|guard| match guard {
            GuardStep::Login(check) => &check.rules[..],
            _ => &[],
        });
        let ForwardingSteps { mirrors, fallbacks, .. } = &self.forwarding;
        let copied = mirrors.iter().map(|copying| &copying.rule);
        let falling = fallbacks.iter().map(|falling| &falling.rule);
        let replaced = self.answers.replacing.iter().filter_map(|replacing| replacing.rule.as_ref());
        asked.chain(extending).chain(issuers).chain(providers).chain(copied).chain(falling).chain(replaced)
    }
}

/// A rule that a step forwards by.
pub(crate) struct InnerRule<'a> {
    /// Where to.
    pub(crate) backend: &'a BackendKey,
    /// How long each step may take; none is as the outer rule says.
    pub(crate) timeouts: Option<Timeouts>,
    /// What is done to its answers.
    pub(crate) answers: Answers,
}

impl<R> GuardStep<R> {
    fn compiled(
        guard: &Guard,
        form: PathForm,
        inner: &mut dyn FnMut(InnerRule<'_>) -> R,
    ) -> Result<Self, String> {
        let mut rule = |backend: &BackendKey, timeouts| {
            inner(InnerRule { backend, timeouts: Some(timeouts), answers: Answers::default() })
        };
        Ok(match guard {
            Guard::HttpsRedirect(to) => Self::HttpsRedirect(to.clone()),
            Guard::Redirect(to) => Self::Redirect(CompiledRedirect::compiled(to, form)?),
            Guard::Access(list) => Self::Access(list.clone()),
            Guard::ClientCertificate(of) => Self::Certificate(Box::new(CompiledCertificate::compiled(of)?)),
            Guard::OverTls => Self::OverTls,
            Guard::Deny(deny) => Self::Deny(CompiledDeny::compiled(deny, form)?),
            Guard::Respond(respond) => Self::Respond(Box::new(CompiledRespond::compiled(respond)?)),
            Guard::NeedsEndpoint => Self::Endpoint,
            Guard::Preflight(cors) => Self::Preflight(Arc::clone(cors)),
            Guard::ExternalAuth(auth) => Self::Ask(Box::new(Asking::new(auth, &mut rule))),
            Guard::GrpcAuth(auth) => Self::AskGrpc(Box::new(AskingGrpc::new(auth, &mut rule))),
            Guard::BasicAuth(basic) => Self::Password(Box::new(basic.clone())),
            Guard::Jwt(auth) => Self::Token(Box::new(TokenCheck::new(auth, &mut rule)?)),
            Guard::Oidc(auth) => Self::Login(Box::new(LoginCheck::new(auth, &mut rule))),
            Guard::ApiKey(auth) => Self::ApiKey(Arc::clone(auth)),
            Guard::Authorize(of) => Self::Authorize(Box::new(AuthorizationCheck::compiled(of)?)),
            Guard::Any(any) => Self::Any(Box::new(AnyOf::new(any, &mut rule)?)),
            Guard::RateLimit(limit) => Self::Rate(PolicyId::of(&limit.policy), limit.clone()),
            Guard::ConcurrencyLimit(limit) => Self::Concurrency(PolicyId::of(&limit.policy), limit.clone()),
        })
    }

    /// The question that it puts to another service.
    fn asking(&self) -> Option<&Asking<R>> {
        match self {
            Self::Ask(asking) => Some(asking),
            Self::Any(any) => any.asking.as_ref(),
            _ => None,
        }
    }

    /// The API key that it asks for.
    #[must_use]
    pub fn api_key(&self) -> Option<&ApiKeyAuth> {
        match self {
            Self::ApiKey(auth) => Some(auth),
            Self::Any(any) => any.api_key.as_deref(),
            _ => None,
        }
    }

    /// The token that it asks for.
    fn token(&self) -> Option<&TokenCheck<R>> {
        match self {
            Self::Token(check) => Some(check),
            Self::Any(any) => any.jwt.as_ref(),
            _ => None,
        }
    }

    /// Whether it may tell the endpoint who the client is.
    fn speaks_for_the_client(&self) -> bool {
        let is_whole = matches!(self, Self::AskGrpc(_) | Self::Password(_) | Self::Login(_) | Self::Any(_));
        is_whole || self.asking().is_some() || self.token().is_some() || self.api_key().is_some()
    }
}

/// How long nothing may move on the stream of an extension.
const STREAM_IDLE: Duration = Duration::from_secs(24 * 60 * 60);

fn extensions<R>(
    extensions: &[Arc<Extension>],
    inner: &mut dyn FnMut(InnerRule<'_>) -> R,
) -> Box<[Extending<R>]> {
    let extending = |extension: &Arc<Extension>| {
        let GrpcService { backend, timeouts, .. } = &extension.service;
        let answers = Answers::default();
        // A stream lasts as long as its exchange, and may be silent for all that time; its messages have timeouts of their own.
        let timeouts = Timeouts { read: STREAM_IDLE, send: STREAM_IDLE, request: None, ..*timeouts };
        let rule = inner(InnerRule { backend, timeouts: Some(timeouts), answers });
        Extending { prepared: Arc::new(Prepared::new(Arc::clone(extension))), rule }
    };
    extensions.iter().map(extending).collect()
}

fn request(edits: &[RequestEdit], form: PathForm) -> Result<Box<[RequestStep]>, String> {
    let mut steps = Vec::with_capacity(edits.len());
    for edit in edits {
        match edit {
            RequestEdit::Headers(edit) => {
                let edits = FieldEdits::of(edit, |known| !known.is_of_the_client());
                steps.extend((!edits.is_empty()).then_some(RequestStep::Edit(edits)));
            }
            RequestEdit::Host(host) => steps.push(RequestStep::Host(Arc::clone(host))),
            RequestEdit::ForwardedPrefix(path) => {
                steps.push(RequestStep::Prefix(CompiledRewrite::compiled(path, form)?));
            }
        }
    }
    Ok(steps.into())
}

fn forwarding<R>(
    phases: &Phases,
    form: PathForm,
    inner: &mut dyn FnMut(InnerRule<'_>) -> R,
) -> Result<ForwardingSteps<R>, String> {
    let usual = Forwarding::default();
    // They choose among backends, as the action does: `secured` and `sticky`.
    let Forwarding {
        path,
        fields,
        chosen,
        hop,
        secured: _,
        fallbacks,
        retry_statuses,
        mirrors,
        grpc_web,
        buffering,
        sticky: _,
    } = phases.forwarding.as_deref().unwrap_or(&usual);
    let mut rule =
        |backend: &BackendKey| inner(InnerRule { backend, timeouts: None, answers: Answers::default() });
    // Fields that Fairway writes itself are edited once they are written.
    let ours = phases.request.iter().filter_map(|edit| match edit {
        RequestEdit::Headers(edit) => Some(FieldEdits::of(edit, Known::is_of_the_client)),
        RequestEdit::Host(_) | RequestEdit::ForwardedPrefix(_) => None,
    });
    let mut retried = retry_statuses.clone();
    retried.sort_unstable();
    Ok(ForwardingSteps {
        path: path.as_ref().map(|path| CompiledRewrite::compiled(path, form)).transpose()?,
        edits: ours.filter(|edits| !edits.is_empty()).collect(),
        fields: fields.clone(),
        chosen: chosen.iter().map(CompiledChosen::compiled).collect::<Result<_, _>>()?,
        hop: *hop,
        mirrors: mirrors
            .iter()
            .map(|mirror| Copying { mirror: mirror.clone(), rule: rule(&mirror.backend) })
            .collect(),
        fallbacks: fallbacks.iter().map(|to| Falling { to: to.clone(), rule: rule(&to.backend) }).collect(),
        retried: retried.into(),
        drops_trailers: false,
        grpc_web: *grpc_web,
        buffering: (*buffering != Buffering::default()).then(|| Box::new(*buffering)),
    })
}

fn answers<R>(
    answers: &Answers,
    guards: &[GuardStep<R>],
    inner: &mut dyn FnMut(InnerRule<'_>) -> R,
) -> Result<AnswerSteps<R>, String> {
    let mut edits = answers.edits.iter().map(AnswerStep::compiled).collect::<Result<Vec<_>, _>>()?;
    // Cookies of whoever was asked come before what the rule says about all answers, so that it may remove them.
    let of_all = |step: &AnswerStep| !matches!(step, AnswerStep::Cors(_) | AnswerStep::Fields(_));
    let at = edits.iter().position(of_all).unwrap_or(edits.len());
    let given = guards.iter().filter_map(|guard| match guard {
        GuardStep::AskGrpc(_) => Some(AnswerStep::Granted),
        _ => guard.asking().map(|asking| AnswerStep::Cookies(asking.auth.cookies)),
    });
    edits.splice(at..at, given);
    let replacing = answers.pages.as_deref().map(|pages| {
        let rule = |backend| inner(InnerRule { backend, timeouts: None, answers: answers.of_pages() });
        Box::new(Replacing { pages: pages.clone(), rule: pages.backend.as_ref().map(rule) })
    });
    Ok(AnswerSteps {
        received: answers.received.as_slice().into(),
        replacing,
        edits: edits.into(),
        compression: answers.compression.clone(),
    })
}

impl AnswerStep {
    fn compiled(edit: &AnswerEdit) -> Result<Self, String> {
        Ok(match edit {
            AnswerEdit::Cors(cors) => Self::Cors(Box::new(CorsAnswer::of(Arc::clone(cors)))),
            AnswerEdit::Headers(edit) => Self::Edit(FieldEdits::of(edit, |_| true)),
            AnswerEdit::Fields(fields) => Self::Fields(Arc::clone(fields)),
            AnswerEdit::Chosen(fields) => Self::Chosen(Box::new(CompiledChosen::compiled(fields)?)),
            AnswerEdit::StrictTransportSecurity(value) => Self::StrictTransportSecurity(Arc::clone(value)),
        })
    }
}

/// What is done with the requests of a share: what its own filters say, and what its rule says about all that comes after the choice
/// of a backend. Services see the requests of a share once its backend is chosen: those of the rule, then those of the share.
pub(crate) fn of_share(own: Option<&RouteFilters>, rule: &Phases) -> Phases {
    let mut phases = own.cloned().map(Phases::from).unwrap_or_default();
    // Services of the rule come first, so that what a service of the share picks is not changed behind it.
    phases.extensions.splice(0..0, rule.extensions.iter().cloned());
    if let Some(of_rule) = &rule.forwarding {
        let Forwarding { fields, chosen, hop, retry_statuses, grpc_web, buffering, .. } = (**of_rule).clone();
        let unset = Forwarding::default();
        phases.add(Forwarding { fields, chosen, hop, retry_statuses, grpc_web, buffering, ..unset });
    }
    let Answers { mut edits, pages, .. } = std::mem::take(&mut phases.answers);
    edits.extend_from_slice(&rule.answers.edits);
    phases.answers = Answers { edits, ..rule.answers.clone() };
    phases.answers.pages = pages.or(phases.answers.pages);
    // Those of the rule first; guards were asked before the choice, and they were not.
    let extensions = rule.extensions.iter().chain(&phases.extensions).cloned().collect();
    let tracing = rule.tracing.clone();
    Phases { extensions, bounds: rule.bounds, unlogged: rule.unlogged, tracing, ..phases }
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
mod tests;
