//! Compiles the phases of a rule into steps, preparing everything that does not depend on the request. The data plane
//! runs them; here is one function per phase.
//!
//! A rule without phases has empty lists, which cost nothing. `R` is a rule by which a step forwards.

use std::sync::Arc;
use std::time::Duration;

use fairway_extension::processing::PreparedExtension;
use fairway_http::{Head, Known, ReadyFields};
use fairway_model::{
    AccessList, ApiKeyAuth, AuthCookies, BackendKey, BasicAuth, Buffering, ClientCertificate, Compression,
    ConcurrencyLimit, Cors, Deny, ErrorPages, Extension, Fallback, Forwarding, GeoFields, GrpcService, Guard,
    HeaderEdit, HeaderField, HeaderTemplate, Http1Options, HttpsRedirect, Match, Mirror, PathForm,
    PathRewrite, Phases, RateLimit, RealIp, Redirect, RedirectTarget, RequestEdit, ResponseEdit,
    ResponseHandling, ResponseLimits, RouteFilters, Timeouts, Tracing, UpstreamResponseEdit,
};
use fairway_pattern::Pattern;
use fairway_token::digest;

use crate::authorization::AuthorizationCheck;
use crate::candidate::PathTest;
use crate::conditional::{CompiledConditionalHeaders, CompiledDirectResponse};
use crate::conditions::Conditions;
use crate::cors::CompiledCors;
use crate::guards::{AnyOfCheck, ExternalAuthCheck, GrpcAuthCheck, LoginCheck, TokenCheck};
use crate::request::{Fields, Request};
use crate::rewrite::CompiledRewrite;

/// The steps of a rule, by phase.
#[derive(Clone, Debug)]
pub struct Steps<R> {
    /// How to determine the client's address.
    pub client: Option<Box<RealIp>>,
    /// Run in order, until one responds.
    pub guards: Box<[GuardStep<R>]>,
    /// Whether a guard checks API keys, which are removed after all guards.
    pub takes_api_keys: bool,
    /// Whether a guard checks logins, whose cookies are removed after all guards.
    pub takes_logins: bool,
    /// Applied to requests that every guard let pass.
    pub request: Box<[RequestStep]>,
    /// Extension services, in the order that requests pass them.
    pub extensions: Box<[ExtensionStep<R>]>,
    /// How requests are forwarded.
    pub forwarding: ForwardingSteps<R>,
    /// How responses are processed.
    pub responses: ResponseSteps<R>,
    /// Limits of endpoints' responses.
    pub bounds: ResponseLimits,
    /// The GeoIP fields that guards and headers need.
    pub geo: GeoFields,
    /// Whether a header contains the name that the client requested in the TLS handshake.
    pub reads_server_name: bool,
    /// Whether the exchange is left out of the access log.
    pub unlogged: bool,
    /// How the exchange is traced; as the listener says if `None`.
    pub tracing: Option<Arc<Tracing>>,
}

/// A guard that a request must pass.
#[derive(Clone, Debug)]
pub enum GuardStep<R> {
    /// Redirects cleartext requests to https.
    HttpsRedirect(HttpsRedirect),
    /// Redirects every request.
    Redirect(CompiledRedirect),
    /// Refuses clients by address.
    Access(AccessList),
    /// Refuses clients by their certificates.
    Certificate(Box<CompiledCertificate>),
    /// Refuses cleartext requests.
    OverTls,
    /// Refuses requests by their attributes.
    Deny(CompiledDeny),
    /// Responds to requests that meet conditions.
    Respond(Box<CompiledDirectResponse>),
    /// Responds to preflights of allowed origins.
    Preflight(Arc<Cors>),
    /// Refuses requests while the action has no endpoints.
    Endpoint,
    /// Waits for the decision of an external service.
    Ask(Box<ExternalAuthCheck<R>>),
    /// Waits for the decision of a gRPC service.
    AskGrpc(Box<GrpcAuthCheck<R>>),
    /// Waits until the password is verified.
    Password(Box<BasicAuth>),
    /// Requires a valid token; waits if it was not verified before.
    Token(Box<TokenCheck<R>>),
    /// Requires a login at a provider; waits if the session was not opened before.
    Login(Box<LoginCheck<R>>),
    /// Requires an API key.
    ApiKey(Arc<ApiKeyAuth>),
    /// Applies authorization rules.
    Authorize(Box<AuthorizationCheck>),
    /// Waits for the first of several guards that passes.
    Any(Box<AnyOfCheck<R>>),
    /// Limits the request rate of clients.
    Rate(PolicyId, RateLimit),
    /// Limits the exchanges in flight of clients, and counts this one until it is over.
    Concurrency(PolicyId, ConcurrencyLimit),
}

/// A change to a request head.
#[derive(Clone, Debug)]
pub enum RequestStep {
    /// Edits headers.
    Edit(FieldEdits),
    /// Sets `Host`.
    Host(Arc<str>),
    /// Sets `X-Forwarded-Prefix` to a part of the path.
    Prefix(CompiledRewrite),
}

/// How requests are forwarded.
#[derive(Clone, Debug)]
pub struct ForwardingSteps<R> {
    /// Rewrites the target.
    pub path: Option<CompiledRewrite>,
    /// Edits of headers that Fairway writes itself, applied after they are written.
    pub edits: Box<[FieldEdits]>,
    /// Headers set last, when the request is otherwise as its endpoint gets it.
    pub fields: Option<Arc<[HeaderTemplate]>>,
    /// Conditional headers, set or added after these.
    pub conditional_headers: Box<[CompiledConditionalHeaders]>,
    /// How HTTP/1 endpoints are addressed.
    pub hop: Http1Options,
    /// Mirrors of requests.
    pub mirrors: Box<[MirrorStep<R>]>,
    /// Backends to use while there are no endpoints: the first that has some.
    pub fallbacks: Box<[FallbackStep<R>]>,
    /// Statuses of endpoints' responses after which the request is retried, if that is safe. In ascending order.
    pub retried: Box<[u16]>,
    /// Whether request trailers are dropped: endpoints that merge trailers into headers would trust values that only a
    /// guard may set.
    pub drops_trailers: bool,
    /// Whether gRPC-Web is converted to gRPC for the endpoint.
    pub grpc_web: bool,
    /// Which bodies are buffered before they are forwarded.
    pub buffering: Option<Box<Buffering>>,
}

/// How responses are processed.
#[derive(Clone, Debug)]
pub struct ResponseSteps<R> {
    /// Applied to heads of endpoints' responses.
    pub received: Box<[UpstreamResponseEdit]>,
    /// Replaces the response by one of another backend.
    pub replacing: Option<Box<ErrorPagesStep<R>>>,
    /// Applied to the head of every response, whatever its source.
    pub edits: Box<[ResponseStep]>,
    /// How the bodies of endpoints' responses are compressed.
    pub compression: Option<Arc<Compression>>,
}

/// A change to the head of every response.
#[derive(Clone, Debug)]
pub enum ResponseStep {
    /// Adds CORS headers.
    Cors(Box<CompiledCors>),
    /// Adds the cookies of the external authorization service.
    Cookies(AuthCookies),
    /// Adds the headers that an authorization service returned.
    Granted,
    /// Edits headers.
    Edit(FieldEdits),
    /// Sets headers.
    Fields(Arc<[HeaderTemplate]>),
    /// Sets or adds conditional headers.
    Chosen(Box<CompiledConditionalHeaders>),
    /// Sets `Strict-Transport-Security` on responses over TLS.
    StrictTransportSecurity(Arc<str>),
}

/// Identifies the counters of a policy: the same for the same name, in every snapshot and replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PolicyId(u64);

impl PolicyId {
    /// The id of the policy with this name.
    #[must_use]
    pub fn from_name(policy: &str) -> Self {
        let mut number = [0; 8];
        number.copy_from_slice(&digest(policy.as_bytes())[..8]);
        Self(u64::from_be_bytes(number))
    }

    /// The id that another replica sent.
    #[must_use]
    pub fn from_number(number: u64) -> Self {
        Self(number)
    }

    /// The number that replicas exchange.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0
    }
}

/// A service that processes requests and responses.
#[derive(Clone, Debug)]
pub struct ExtensionStep<R> {
    /// The service, its permissions, and what all its streams send.
    pub prepared: Arc<PreparedExtension>,
    /// The rule that forwards its streams, which has no steps.
    pub rule: R,
}

/// A mirror of requests.
#[derive(Clone, Debug)]
pub struct MirrorStep<R> {
    /// Which requests to mirror, and how much of them.
    pub mirror: Mirror,
    /// The rule that forwards the copies, which has no steps.
    pub rule: R,
}

/// Error pages from another backend.
#[derive(Clone, Debug)]
pub struct ErrorPagesStep<R> {
    /// Which responses to replace, and what the backend is told about them.
    pub pages: ErrorPages,
    /// The rule that forwards the request for a page, with the steps for pages. `None`: nowhere.
    pub rule: Option<R>,
}

/// A fallback backend for requests without an endpoint.
#[derive(Clone, Debug)]
pub struct FallbackStep<R> {
    /// The backend, and what it is told.
    pub fallback: Fallback,
    /// The rule that forwards the requests, which has no steps.
    pub rule: R,
}

/// A redirect with a compiled path rewrite.
#[derive(Clone, Debug)]
pub struct CompiledRedirect {
    /// 300..=308.
    pub status: u16,
    /// Where to.
    pub target: RedirectTarget,
    /// The new path, where the target has one.
    pub path: Option<CompiledRewrite>,
}

/// The client certificates that are accepted.
#[derive(Clone, Debug)]
pub struct CompiledCertificate {
    /// The requirement.
    pub source: ClientCertificate,
    subject: Option<Arc<Pattern>>,
}

impl CompiledCertificate {
    fn compiled(certificate: &ClientCertificate) -> Result<Self, String> {
        let subject = certificate.subject.as_ref().map(|pattern| {
            Pattern::anywhere(pattern, false)
                .map_err(|why| format!("the regular expression of the subject, {pattern:?}, {why}"))
        });
        Ok(Self { source: certificate.clone(), subject: subject.transpose()? })
    }

    /// Whether a certificate with this subject is accepted; no certificate has an empty subject.
    #[must_use]
    pub fn accepts_subject(&self, subject: &str) -> bool {
        self.subject.as_ref().is_none_or(|pattern| pattern.is_match(subject.as_bytes()))
    }
}

/// Requests that are denied.
#[derive(Clone, Debug)]
pub struct CompiledDeny {
    /// The status of the response: 400..=599.
    pub status: u16,
    /// Whether every request is denied.
    pub all_requests: bool,
    when: Box<[(PathTest, Option<Conditions>)]>,
    form: PathForm,
}

impl CompiledDeny {
    fn compiled(deny: &Deny, form: PathForm) -> Result<Self, String> {
        let when = deny
            .when
            .iter()
            .map(|condition| Ok((PathTest::compiled(&condition.path)?, Conditions::compiled(condition)?)));
        let all = deny.when == [Match::default()];
        Ok(Self { status: deny.status, all_requests: all, when: when.collect::<Result<_, String>>()?, form })
    }

    /// Whether a request is denied. Every value of a name is checked, and one that is too long to compare matches.
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

/// Permitted edits of headers: not of those that concern framing or the connection, and there is always one `Host`.
/// Applied in the order of the lists.
#[derive(Clone, Debug)]
pub struct FieldEdits {
    /// Removes all headers with these names.
    pub remove: Box<[Arc<str>]>,
    /// Sets these, replacing all of their name.
    pub set: ReadyFields,
    /// Adds these.
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
                conditional_headers: [].into(),
                hop: Http1Options::default(),
                mirrors: [].into(),
                fallbacks: [].into(),
                retried: [].into(),
                drops_trailers: false,
                grpc_web: false,
                buffering: None,
            },
            responses: ResponseSteps {
                received: [].into(),
                replacing: None,
                edits: [].into(),
                compression: None,
            },
            bounds: ResponseLimits::default(),
            geo: GeoFields::NONE,
            reads_server_name: false,
            unlogged: false,
            tracing: None,
        }
    }
}

impl<R> Steps<R> {
    /// Compiles `phases` for a host whose rules use `form`. `inner` makes the rules by which steps forward.
    ///
    /// # Errors
    /// What cannot be compiled, as a sentence.
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
            responses: response_steps(&phases.answers, &guards, inner)?,
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

    /// The GeoIP fields needed by guards and by request and response headers.
    fn geo_fields(&self) -> GeoFields {
        let auth_services = self.guards.iter().filter_map(|guard| match guard {
            GuardStep::Authorize(check) => Some(check.geo_fields()),
            _ => None,
        });
        let of_headers: GeoFields =
            self.written_headers().flat_map(|header| header.value.geo_fields()).collect();
        auth_services.fold(of_headers, GeoFields::and)
    }

    /// The headers that requests and responses get, including conditional ones.
    fn written_headers(&self) -> impl Iterator<Item = &HeaderTemplate> {
        let of_responses = self.responses.edits.iter().filter_map(|step| match step {
            ResponseStep::Fields(headers) => Some(&**headers),
            ResponseStep::Chosen(chosen) => Some(&*chosen.source.fields),
            _ => None,
        });
        let of_requests = self.forwarding.fields.as_deref().into_iter();
        let conditional = self.forwarding.conditional_headers.iter().map(|chosen| &*chosen.source.fields);
        of_requests.chain(conditional).chain(of_responses).flatten()
    }

    /// The steps of a share's rule, completed by those of the whole rule for requests and responses that the share's
    /// phases do not have.
    pub(crate) fn within(mut self, outer: &Self) -> Self {
        let cookies = outer.responses.edits.iter().filter_map(|step| match step {
            ResponseStep::Cookies(which) => Some(ResponseStep::Cookies(*which)),
            ResponseStep::Granted => Some(ResponseStep::Granted),
            _ => None,
        });
        self.responses.edits = std::mem::take(&mut self.responses.edits).into_iter().chain(cookies).collect();
        let edits = std::mem::take(&mut self.forwarding.edits).into_iter();
        self.forwarding.edits = outer.forwarding.edits.iter().cloned().chain(edits).collect();
        self.forwarding.drops_trailers = outer.forwarding.drops_trailers;
        self
    }

    /// Whether none of them checks or counts the client, or lets others than endpoints see its requests. Unknown steps
    /// wait for the handshake.
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
            && self.responses.replacing.is_none()
    }

    /// All path rewrites.
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

    /// All rules by which steps forward.
    pub(crate) fn rules(&self) -> impl Iterator<Item = &R> {
        let auth_services = self.guards.iter().filter_map(|guard| match guard {
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
        let replaced = self.responses.replacing.iter().filter_map(|replacing| replacing.rule.as_ref());
        auth_services
            .chain(extending)
            .chain(issuers)
            .chain(providers)
            .chain(copied)
            .chain(falling)
            .chain(replaced)
    }
}

/// A rule by which a step forwards.
pub(crate) struct InnerRule<'a> {
    /// The backend.
    pub(crate) backend: &'a BackendKey,
    /// The timeouts of each step; `None` uses those of the outer rule.
    pub(crate) timeouts: Option<Timeouts>,
    /// How its responses are processed.
    pub(crate) response_handling: ResponseHandling,
}

impl<R> GuardStep<R> {
    fn compiled(
        guard: &Guard,
        form: PathForm,
        inner: &mut dyn FnMut(InnerRule<'_>) -> R,
    ) -> Result<Self, String> {
        let mut rule = |backend: &BackendKey, timeouts| {
            inner(InnerRule {
                backend,
                timeouts: Some(timeouts),
                response_handling: ResponseHandling::default(),
            })
        };
        Ok(match guard {
            Guard::HttpsRedirect(to) => Self::HttpsRedirect(to.clone()),
            Guard::Redirect(to) => Self::Redirect(CompiledRedirect::compiled(to, form)?),
            Guard::Access(list) => Self::Access(list.clone()),
            Guard::ClientCertificate(certificate) => {
                Self::Certificate(Box::new(CompiledCertificate::compiled(certificate)?))
            }
            Guard::OverTls => Self::OverTls,
            Guard::Deny(deny) => Self::Deny(CompiledDeny::compiled(deny, form)?),
            Guard::Respond(respond) => Self::Respond(Box::new(CompiledDirectResponse::compiled(respond)?)),
            Guard::NeedsEndpoint => Self::Endpoint,
            Guard::Preflight(cors) => Self::Preflight(Arc::clone(cors)),
            Guard::ExternalAuth(auth) => Self::Ask(Box::new(ExternalAuthCheck::new(auth, &mut rule))),
            Guard::GrpcAuth(auth) => Self::AskGrpc(Box::new(GrpcAuthCheck::new(auth, &mut rule))),
            Guard::BasicAuth(basic) => Self::Password(Box::new(basic.clone())),
            Guard::Jwt(auth) => Self::Token(Box::new(TokenCheck::new(auth, &mut rule)?)),
            Guard::Oidc(auth) => Self::Login(Box::new(LoginCheck::new(auth, &mut rule))),
            Guard::ApiKey(auth) => Self::ApiKey(Arc::clone(auth)),
            Guard::Authorize(authorization) => {
                Self::Authorize(Box::new(AuthorizationCheck::compiled(authorization)?))
            }
            Guard::Any(any) => Self::Any(Box::new(AnyOfCheck::new(any, &mut rule)?)),
            Guard::RateLimit(limit) => Self::Rate(PolicyId::from_name(&limit.policy), limit.clone()),
            Guard::ConcurrencyLimit(limit) => {
                Self::Concurrency(PolicyId::from_name(&limit.policy), limit.clone())
            }
        })
    }

    /// Its external authorization check.
    fn asking(&self) -> Option<&ExternalAuthCheck<R>> {
        match self {
            Self::Ask(asking) => Some(asking),
            Self::Any(any) => any.asking.as_ref(),
            _ => None,
        }
    }

    /// Its API key check.
    #[must_use]
    pub fn api_key(&self) -> Option<&ApiKeyAuth> {
        match self {
            Self::ApiKey(auth) => Some(auth),
            Self::Any(any) => any.api_key.as_deref(),
            _ => None,
        }
    }

    /// Its token check.
    fn token(&self) -> Option<&TokenCheck<R>> {
        match self {
            Self::Token(check) => Some(check),
            Self::Any(any) => any.jwt.as_ref(),
            _ => None,
        }
    }

    /// Whether it may identify the client to the endpoint.
    fn speaks_for_the_client(&self) -> bool {
        let is_whole = matches!(self, Self::AskGrpc(_) | Self::Password(_) | Self::Login(_) | Self::Any(_));
        is_whole || self.asking().is_some() || self.token().is_some() || self.api_key().is_some()
    }
}

/// The idle timeout of an extension's stream.
const STREAM_IDLE: Duration = Duration::from_secs(24 * 60 * 60);

fn extensions<R>(
    extensions: &[Arc<Extension>],
    inner: &mut dyn FnMut(InnerRule<'_>) -> R,
) -> Box<[ExtensionStep<R>]> {
    let extending = |extension: &Arc<Extension>| {
        let GrpcService { backend, timeouts, .. } = &extension.service;
        let responses = ResponseHandling::default();
        // A stream lasts as long as its exchange, and may be idle for all that time; its messages have their own
        // timeouts.
        let timeouts = Timeouts { read: STREAM_IDLE, send: STREAM_IDLE, request: None, ..*timeouts };
        let rule = inner(InnerRule { backend, timeouts: Some(timeouts), response_handling: responses });
        ExtensionStep { prepared: Arc::new(PreparedExtension::new(Arc::clone(extension))), rule }
    };
    extensions.iter().map(extending).collect()
}

fn request(edits: &[RequestEdit], form: PathForm) -> Result<Box<[RequestStep]>, String> {
    let mut steps = Vec::with_capacity(edits.len());
    for edit in edits {
        match edit {
            RequestEdit::Headers(edit) => {
                let edits = FieldEdits::from_edit(edit, |known| !known.is_of_the_client());
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
    // They select backends, like the action: `secured` and `sticky`.
    let Forwarding {
        path,
        fields,
        chosen,
        hop,
        tls_backend: _,
        fallbacks,
        retry_statuses,
        mirrors,
        grpc_web,
        buffering,
        sticky: _,
    } = phases.forwarding.as_deref().unwrap_or(&usual);
    let mut rule = |backend: &BackendKey| {
        inner(InnerRule { backend, timeouts: None, response_handling: ResponseHandling::default() })
    };
    // Headers that Fairway writes itself are edited after they are written.
    let ours = phases.request.iter().filter_map(|edit| match edit {
        RequestEdit::Headers(edit) => Some(FieldEdits::from_edit(edit, Known::is_of_the_client)),
        RequestEdit::Host(_) | RequestEdit::ForwardedPrefix(_) => None,
    });
    let mut retried = retry_statuses.clone();
    retried.sort_unstable();
    Ok(ForwardingSteps {
        path: path.as_ref().map(|path| CompiledRewrite::compiled(path, form)).transpose()?,
        edits: ours.filter(|edits| !edits.is_empty()).collect(),
        fields: fields.clone(),
        conditional_headers: chosen
            .iter()
            .map(CompiledConditionalHeaders::compiled)
            .collect::<Result<_, _>>()?,
        hop: *hop,
        mirrors: mirrors
            .iter()
            .map(|mirror| MirrorStep { mirror: mirror.clone(), rule: rule(&mirror.backend) })
            .collect(),
        fallbacks: fallbacks
            .iter()
            .map(|to| FallbackStep { fallback: to.clone(), rule: rule(&to.backend) })
            .collect(),
        retried: retried.into(),
        drops_trailers: false,
        grpc_web: *grpc_web,
        buffering: (*buffering != Buffering::default()).then(|| Box::new(*buffering)),
    })
}

fn response_steps<R>(
    answers: &ResponseHandling,
    guards: &[GuardStep<R>],
    inner: &mut dyn FnMut(InnerRule<'_>) -> R,
) -> Result<ResponseSteps<R>, String> {
    let mut edits = answers.edits.iter().map(ResponseStep::compiled).collect::<Result<Vec<_>, _>>()?;
    // Cookies of the authorization service come before the rule's own response steps, which may remove them.
    let of_all = |step: &ResponseStep| !matches!(step, ResponseStep::Cors(_) | ResponseStep::Fields(_));
    let at = edits.iter().position(of_all).unwrap_or(edits.len());
    let tokens = guards.iter().filter_map(|guard| match guard {
        GuardStep::AskGrpc(_) => Some(ResponseStep::Granted),
        _ => guard.asking().map(|asking| ResponseStep::Cookies(asking.auth.cookies)),
    });
    edits.splice(at..at, tokens);
    let replacing = answers.pages.as_deref().map(|pages| {
        let rule = |backend| {
            inner(InnerRule { backend, timeouts: None, response_handling: answers.for_error_pages() })
        };
        Box::new(ErrorPagesStep { pages: pages.clone(), rule: pages.backend.as_ref().map(rule) })
    });
    Ok(ResponseSteps {
        received: answers.received.as_slice().into(),
        replacing,
        edits: edits.into(),
        compression: answers.compression.clone(),
    })
}

impl ResponseStep {
    fn compiled(edit: &ResponseEdit) -> Result<Self, String> {
        Ok(match edit {
            ResponseEdit::Cors(cors) => Self::Cors(Box::new(CompiledCors::new(Arc::clone(cors)))),
            ResponseEdit::Headers(edit) => Self::Edit(FieldEdits::from_edit(edit, |_| true)),
            ResponseEdit::Fields(fields) => Self::Fields(Arc::clone(fields)),
            ResponseEdit::Chosen(fields) => {
                Self::Chosen(Box::new(CompiledConditionalHeaders::compiled(fields)?))
            }
            ResponseEdit::StrictTransportSecurity(value) => Self::StrictTransportSecurity(Arc::clone(value)),
        })
    }
}

/// The phases for requests of a share: those of its own filters, and those of the rule that come after the choice of a
/// backend. Extension services of both process the requests of a share once its backend is chosen: first those of the
/// rule, then those of the share.
pub(crate) fn of_share(filters: Option<&RouteFilters>, rule: &Phases) -> Phases {
    let mut phases = filters.cloned().map(Phases::from).unwrap_or_default();
    // Services of the rule come first, so that they cannot change what a service of the share picks.
    phases.extensions.splice(0..0, rule.extensions.iter().cloned());
    if let Some(of_rule) = &rule.forwarding {
        let Forwarding { fields, chosen, hop, retry_statuses, grpc_web, buffering, .. } = (**of_rule).clone();
        let unset = Forwarding::default();
        phases.add(Forwarding { fields, chosen, hop, retry_statuses, grpc_web, buffering, ..unset });
    }
    let ResponseHandling { mut edits, pages, .. } = std::mem::take(&mut phases.answers);
    edits.extend_from_slice(&rule.answers.edits);
    phases.answers = ResponseHandling { edits, ..rule.answers.clone() };
    phases.answers.pages = pages.or(phases.answers.pages);
    // Those of the rule first; guards ran before the choice, and these did not.
    let extensions = rule.extensions.iter().chain(&phases.extensions).cloned().collect();
    let tracing = rule.tracing.clone();
    Phases { extensions, bounds: rule.bounds, unlogged: rule.unlogged, tracing, ..phases }
}

impl CompiledRedirect {
    fn compiled(to: &Redirect, form: PathForm) -> Result<Self, String> {
        let path = match &to.target {
            // A full replacement is used as it is, without its own query.
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
    /// Applies them.
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

    /// The permitted parts of an edit, for the `chosen` names.
    fn from_edit(edit: &HeaderEdit, is_selected: impl Fn(Known) -> bool) -> Self {
        let known = |name: &str| Known::from_name(name.as_bytes());
        let may = |name: &str| !known(name).is_of_one_hop() && is_selected(known(name));
        let is_host = |field: &HeaderField| known(&field.name) == Known::Host;
        let removed = edit.remove.iter().filter(|name| may(name) && known(name) != Known::Host);
        let set = edit.set.iter().filter(|field| may(&field.name));
        let added = edit.add.iter().filter(|field| may(&field.name));
        // Another `Host` replaces the `Host`.
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
