//! Converts the steps of a rule to filters of a route, and reports what is lost. Guards are converted to policies elsewhere.

use fairway_model::{
    ADD_HEADER_STATUSES, ConditionalHeaders, ConditionalResponse, Cors, CorsOrigin, ErrorPages, Fallback,
    Guard, HeaderEdit, HeaderOperation, HeaderTemplate, HttpsRedirect, Mirror, MirrorTarget, PathRewrite,
    Phases, Redirect, RedirectTarget, RequestEdit, ResponseContent, ResponseEdit, RuleLabels, RuleStep,
    TemplatePart, UpstreamResponseEdit,
};
use fairway_objects::annotations::is_hop_header;
use fairway_objects::gateway_api::{
    HttpCorsFilter, HttpHeader, HttpHeaderFilter, HttpRequestRedirectFilter, HttpRouteFilter,
    HttpUrlRewriteFilter,
};
use fairway_objects::policies::{PathSubstitution, RouteFilterSpec};

use crate::gateway::own_filter::{self, Headers};
use crate::gateway::paths;
use crate::gateway::protection;
use crate::gateway::remark::Remark;

/// The annotations for redirects: to a URL, and within a host.
const TO_URL: &[&str] = &["permanent-redirect", "temporal-redirect", "fairway.dev/redirect"];
const TO_ROOT: &[&str] = &["app-root"];
const RELATIVE_REDIRECT_ANNOTATIONS: &[&str] = &["relative-redirects"];
const CORS_ANNOTATIONS: &[&str] = &["enable-cors", "cors-allow-origin"];
const MIRROR_ANNOTATIONS: &[&str] = &["mirror-target", "mirror-host", "mirror-request-body"];
const SNIPPET_ANNOTATIONS: &[&str] = &["configuration-snippet", "server-snippet"];
const RETRY_ANNOTATIONS: &[&str] = &["proxy-next-upstream"];
const HEADER_ANNOTATIONS: &[&str] = &["fairway.dev/request-headers", "fairway.dev/response-headers"];

/// The statuses that a redirect may have (Gateway API `HTTPRequestRedirectFilter.statusCode`).
const REDIRECT_STATUSES: [u16; 5] = [301, 302, 303, 307, 308];

/// The steps of a rule, grouped by the features of a route.
#[derive(Debug, Default)]
pub(crate) struct Filters<'f> {
    request: HttpHeaderFilter,
    response: HttpHeaderFilter,
    /// Strict-Transport-Security of responses over TLS.
    hsts: Option<&'f str>,
    cors: Option<HttpCorsFilter>,
    /// The redirect of plain requests to https.
    pub(crate) to_https: Option<&'f HttpsRedirect>,
    pub(crate) redirect: Option<HttpRequestRedirectFilter>,
    host: Option<String>,
    /// The new path, which depends on the match.
    pub(crate) path: Option<&'f PathRewrite>,
    pub(crate) mirrors: Vec<&'f Mirror>,
    /// The steps that require an HTTPRouteFilter.
    route_filters: RouteFilterSpec,
    /// Statuses after which the request is retried on another endpoint.
    pub(crate) retry_statuses: &'f [u16],
    /// Error responses that another backend serves.
    pub(crate) pages: Option<&'f ErrorPages>,
    /// The backend that serves requests while there are no endpoints.
    pub(crate) fallback: Option<&'f Fallback>,
    /// Guards, which filters do not express.
    pub(crate) guards: Vec<&'f Guard>,
    /// The protections that would be missing, so that the rule must be closed.
    pub(crate) closed: Vec<&'static str>,
    /// Why requests would not be handled as they should be.
    pub(crate) lost: Vec<String>,
    pub(crate) remarks: Vec<Remark>,
}

impl<'f> Filters<'f> {
    /// Groups the steps of a rule.
    pub(crate) fn from_phases(phases: &'f Phases, rule: Context<'_>) -> Self {
        let mut all = Self::default();
        phases.steps().for_each(|step| all.add_step(step, rule));
        all.closed.dedup();
        all
    }

    fn add_step(&mut self, step: RuleStep<'f>, rule: Context<'_>) {
        match step {
            // The first step that responds ends the exchange.
            RuleStep::Guard(Guard::HttpsRedirect(to_https)) if self.redirect.is_none() => {
                self.to_https = Some(to_https);
            }
            RuleStep::Guard(Guard::Redirect(redirect)) if !self.responds() => self.redirect(redirect),
            RuleStep::Guard(Guard::Respond(_)) if self.redirect.is_some() || self.responds() => {}
            RuleStep::Guard(Guard::Respond(respond)) => self.respond(respond, rule),
            RuleStep::Guard(guard) => self.guards.push(guard),
            RuleStep::Extension(it) if !it.failure_mode_allow => {
                self.closed.push("the service that must process its requests");
            }
            RuleStep::Response(ResponseEdit::Cors(cors)) => self.cors(cors),
            RuleStep::Request(RequestEdit::Headers(edit)) => merge_edit(&mut self.request, edit),
            RuleStep::Response(ResponseEdit::Headers(edit)) => merge_edit(&mut self.response, edit),
            RuleStep::RequestHeaders(fields) => self.add_headers(fields, Direction::Request, rule),
            RuleStep::Response(ResponseEdit::Fields(fields)) => {
                self.add_headers(fields, Direction::Response, rule);
            }
            RuleStep::ConditionalHeaders(fields) => {
                self.add_conditional_headers(fields, Direction::Request, rule);
            }
            RuleStep::Response(ResponseEdit::Chosen(fields)) => {
                self.add_conditional_headers(fields, Direction::Response, rule);
            }
            RuleStep::UpstreamResponse(UpstreamResponseEdit::Hide(names)) => {
                self.response.remove.extend(names.iter().map(ToString::to_string));
            }
            RuleStep::Response(ResponseEdit::StrictTransportSecurity(value)) => self.hsts = Some(value),
            RuleStep::Path(path) => self.path = Some(path),
            RuleStep::Request(RequestEdit::ForwardedPrefix(path)) => {
                self.route_filters.forwarded_prefix =
                    Some(path).filter(|_| rule.has_own_filters).and_then(own_filter::substitution);
                if self.route_filters.forwarded_prefix.is_none() {
                    self.remarks.extend(unsupported_remark(step));
                }
            }
            RuleStep::Request(RequestEdit::Host(host)) => self.host = Some(host.to_string()),
            RuleStep::Mirror(mirror) => self.mirrors.push(mirror),
            RuleStep::ErrorPages(pages) => self.pages = Some(pages),
            RuleStep::RetryStatuses(statuses) => {
                let remark =
                    "the same endpoint is retried if there is no other, and no budget limits retries";
                self.remarks.push(Remark::differs(RETRY_ANNOTATIONS, remark));
                self.retry_statuses = statuses;
            }
            RuleStep::Fallback(fallback) if !is_of_canary(fallback) => self.fallback = Some(fallback),
            other => self.remarks.extend(unsupported_remark(other)),
        }
    }

    fn redirect(&mut self, rule_redirect: &Redirect) {
        match redirect(rule_redirect, &mut self.remarks) {
            Ok(redirect) => self.redirect = self.redirect.take().or(Some(redirect)),
            Err(why) => {
                self.remarks.push(Remark::lost(TO_URL, why.clone()));
                self.lost.push(why);
            }
        }
    }

    fn cors(&mut self, rule_cors: &Cors) {
        let remark = "only preflights get a response; ingress-nginx responds to every OPTIONS request";
        self.remarks.push(Remark::differs(CORS_ANNOTATIONS, remark));
        if rule_cors.origins.iter().any(|origin| matches!(origin, CorsOrigin::OneLabel { .. })) {
            let remark = "the wildcard of an origin also matches several labels";
            self.remarks.push(Remark::differs(CORS_ANNOTATIONS, remark));
        }
        self.cors = Some(cors(rule_cors));
    }

    /// Whether the rule itself responds to every request.
    pub(crate) fn responds(&self) -> bool {
        self.route_filters.direct_response.is_some()
    }

    /// A response of the rule itself, or a guard that closes it.
    fn respond(&mut self, direct_response: &ConditionalResponse, rule: Context<'_>) {
        let response = Some(direct_response).filter(|_| rule.has_own_filters);
        let Some((response, headers)) =
            response.and_then(|conditional| own_filter::response(conditional, rule.labels))
        else {
            return self
                .closed
                .extend(protection::protection_name(&Guard::Respond(direct_response.clone().into())));
        };
        if direct_response.content == ResponseContent::Status {
            let remark = "the response has no body; in ingress-nginx the body shows the status";
            self.remarks.push(Remark::differs(SNIPPET_ANNOTATIONS, remark));
        }
        self.route_filters.direct_response = Some(response);
        if let Some(headers) = headers {
            self.route_filters.response_headers.get_or_insert_default().set.extend(headers.set);
        }
        self.remarks.push(Remark::same(SNIPPET_ANNOTATIONS));
    }

    /// Adds headers that replace others.
    fn add_headers(&mut self, fields: &[HeaderTemplate], direction: Direction, rule: Context<'_>) {
        for field in fields {
            if !self.add_header(field, direction, Headers::Replaced, rule) {
                let remark = format!("the value of the header {} contains parts of the request", field.name);
                self.remarks.push(Remark::lost(HEADER_ANNOTATIONS, remark));
            }
        }
    }

    /// Adds headers of snippets.
    fn add_conditional_headers(
        &mut self,
        conditional: &ConditionalHeaders,
        direction: Direction,
        rule: Context<'_>,
    ) {
        let of_success = conditional.statuses == ADD_HEADER_STATUSES;
        if !conditional.when.is_empty() || !(conditional.statuses.is_empty() || of_success) {
            let remark = "headers that snippets set or add conditionally are not set or added";
            return self.remarks.push(Remark::lost(SNIPPET_ANNOTATIONS, remark));
        }
        let headers =
            if conditional.operation == HeaderOperation::Set { Headers::Replaced } else { Headers::Kept };
        for field in &conditional.fields {
            if !self.add_header(field, direction, headers, rule) {
                let remark = format!("the header {} of a snippet is neither set nor added", field.name);
                self.remarks.push(Remark::lost(SNIPPET_ANNOTATIONS, remark));
            }
        }
        if of_success {
            let remark = "headers of add_header without always are added to responses with any status";
            self.remarks.push(Remark::differs(SNIPPET_ANNOTATIONS, remark));
        }
        self.remarks.push(Remark::same(SNIPPET_ANNOTATIONS));
    }

    /// Adds a header: through the Gateway API if its value is the same for every request, otherwise through an HTTPRouteFilter.
    /// `false` if neither can express it.
    fn add_header(
        &mut self,
        field: &HeaderTemplate,
        direction: Direction,
        headers: Headers,
        rule: Context<'_>,
    ) -> bool {
        let (edit, own) = match direction {
            Direction::Request => (&mut self.request, &mut self.route_filters.request_headers),
            Direction::Response => (&mut self.response, &mut self.route_filters.response_headers),
        };
        let Some(value) = constant_value(field).filter(|_| !is_hop_header(&field.name)) else {
            return rule.has_own_filters && own_filter::add_header(own, field, headers, rule.labels);
        };
        let name = field.name.to_string();
        match (headers, value.is_empty()) {
            (Headers::Replaced, true) => edit.remove.push(name),
            (Headers::Replaced, false) => set_header(edit, &name, &value),
            (Headers::Kept, true) => {}
            (Headers::Kept, false) => edit.add.push(HttpHeader { name, value }),
        }
        true
    }

    /// The spec of the HTTPRouteFilter with the new path; `None` if the rule needs none.
    pub(crate) fn own_filter_spec(&self, path: Option<PathSubstitution>) -> Option<RouteFilterSpec> {
        let mut spec = self.route_filters.clone();
        if self.redirect.is_some() || self.responds() {
            (spec.forwarded_prefix, spec.request_headers) = (None, None);
        } else {
            spec.path_rewrite = path;
        }
        (spec != RouteFilterSpec::default()).then_some(spec)
    }

    /// The filters of the route in the order in which Fairway applies them, with `path` as the new path.
    pub(crate) fn for_route(
        &self,
        path: Option<&fairway_objects::gateway_api::HttpPathModifier>,
        over_tls: bool,
    ) -> Vec<HttpRouteFilter> {
        let mut filters = Vec::new();
        if let Some(cors) = &self.cors {
            filters.push(HttpRouteFilter { cors: Some(cors.clone()), ..filter_of_kind("CORS") });
        }
        if !is_empty(&self.request) {
            let edit = Some(self.request.clone());
            filters.push(HttpRouteFilter {
                request_header_modifier: edit,
                ..filter_of_kind("RequestHeaderModifier")
            });
        }
        let mut response = self.response.clone();
        if let Some(value) = self.hsts.filter(|_| over_tls) {
            set_header(&mut response, "Strict-Transport-Security", value);
        }
        if !is_empty(&response) {
            let edit = Some(response);
            filters.push(HttpRouteFilter {
                response_header_modifier: edit,
                ..filter_of_kind("ResponseHeaderModifier")
            });
        }
        if let Some(redirect) = &self.redirect {
            let redirect = Some(redirect.clone());
            filters.push(HttpRouteFilter { request_redirect: redirect, ..filter_of_kind("RequestRedirect") });
        } else if self.host.is_some() || path.is_some() {
            let rewrite = HttpUrlRewriteFilter { hostname: self.host.clone(), path: path.cloned() };
            filters.push(HttpRouteFilter { url_rewrite: Some(rewrite), ..filter_of_kind("URLRewrite") });
        }
        filters
    }
}

/// Properties of a rule other than its steps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context<'r> {
    pub(crate) labels: &'r RuleLabels,
    /// Whether its route may refer to HTTPRouteFilters.
    pub(crate) has_own_filters: bool,
}

/// Which headers are changed.
#[derive(Clone, Copy)]
enum Direction {
    Request,
    Response,
}

/// A filter without its value.
pub(crate) fn filter_of_kind(kind: &str) -> HttpRouteFilter {
    HttpRouteFilter { type_: kind.to_owned(), ..HttpRouteFilter::default() }
}

/// The redirect of plain requests to `https`.
pub(crate) fn to_https(https_redirect: &HttpsRedirect, port: u16) -> HttpRouteFilter {
    let redirect = HttpRequestRedirectFilter {
        scheme: Some("https".to_owned()),
        port: (port != 443).then_some(i32::from(port)),
        status_code: Some(i32::from(https_redirect.status)),
        ..HttpRequestRedirectFilter::default()
    };
    HttpRouteFilter { request_redirect: Some(redirect), ..filter_of_kind("RequestRedirect") }
}

/// Whether the fallback belongs to a canary without endpoints; it does not concern the main Service.
pub(crate) fn is_of_canary(fallback: &Fallback) -> bool {
    fallback.fields.is_empty()
}

/// The remark on a step that has no counterpart.
fn unsupported_remark(step: RuleStep<'_>) -> Option<Remark> {
    let (about, what): (&'static [&'static str], _) = match step {
        RuleStep::Extension(_) => {
            (&[], "the service does not process its requests: use an ExtensionPolicy for the route")
        }
        RuleStep::Client(_) => (&["fairway.dev/real-ip"], "the client address depends only on the settings"),
        RuleStep::TlsBackend(_) => {
            (&["backend-protocol"], "requests to endpoints are not encrypted, also for clients with TLS")
        }
        RuleStep::Http1(_) => {
            (&["proxy-http-version", "connection-proxy-header"], "HTTP/1.1 is used, as by default")
        }
        RuleStep::Request(RequestEdit::ForwardedPrefix(_)) => (
            &["x-forwarded-prefix"],
            "endpoints do not get the header, whose value contains parts of the path",
        ),
        RuleStep::HeadLimit(_) => (&["proxy-buffer-size"], "the default limit of response heads applies"),
        RuleStep::ResponseRate(_) => (&["limit-rate", "limit-rate-after"], "responses have no rate limit"),
        RuleStep::UpstreamResponse(UpstreamResponseEdit::Cookies(_)) => {
            (&["proxy-cookie-domain", "proxy-cookie-path"], "cookies of endpoints are not changed")
        }
        RuleStep::UpstreamResponse(UpstreamResponseEdit::Location(_)) => {
            (&["proxy-redirect-from", "proxy-redirect-to"], "the Location header of endpoints is not changed")
        }
        RuleStep::Unlogged => (&["enable-access-log"], "requests are written to the access log"),
        RuleStep::Tracing(_) => (
            &["enable-opentelemetry", "opentelemetry-operation-name", "opentelemetry-trust-incoming-span"],
            "requests are traced like all requests of the listener: according to tracing of its ClientTrafficPolicy, otherwise \
             to the settings ConfigMap",
        ),
        RuleStep::GrpcWeb => {
            return Some(Remark::differs(&["backend-protocol"], "gRPC-Web is not translated"));
        }
        _ => return None,
    };
    Some(Remark::lost(about, what))
}

fn redirect(
    rule_redirect: &Redirect,
    remarks: &mut Vec<Remark>,
) -> Result<HttpRequestRedirectFilter, String> {
    if !REDIRECT_STATUSES.contains(&rule_redirect.status) {
        return Err(format!("a redirect cannot have the status {}", rule_redirect.status));
    }
    let filter =
        HttpRequestRedirectFilter { status_code: Some(rule_redirect.status.into()), ..Default::default() };
    let path = |path: &PathRewrite| {
        paths::redirect_path(path).ok_or_else(|| "a redirect cannot lead to such a path".to_owned())
    };
    Ok(match &rule_redirect.target {
        RedirectTarget::Url(url) => {
            let parts = url_of(url).ok_or_else(|| format!("a redirect cannot lead to {url}"))?;
            remarks.push(Remark::differs(TO_URL, "the query of the request follows the new URL"));
            parts.redirect(filter.status_code)
        }
        RedirectTarget::Path(to) => {
            remarks.push(Remark::differs(RELATIVE_REDIRECT_ANNOTATIONS, "Location has scheme and host"));
            HttpRequestRedirectFilter { path: Some(path(&PathRewrite::Full(to.clone()))?), ..filter }
        }
        RedirectTarget::Host(host) => {
            HttpRequestRedirectFilter { hostname: Some(host.to_string()), ..filter }
        }
        RedirectTarget::Parts { scheme, host, port, path: to, keep_query } => {
            if !keep_query {
                let remark = "the query of the request follows the new path";
                remarks.push(Remark::differs(TO_ROOT, remark));
            }
            HttpRequestRedirectFilter {
                scheme: scheme.as_ref().map(ToString::to_string),
                hostname: host.as_ref().map(ToString::to_string),
                port: port.map(i32::from),
                path: to.as_ref().map(path).transpose()?,
                ..filter
            }
        }
    })
}

/// The parts of a URL that a redirect can have.
struct Url<'u> {
    scheme: &'u str,
    host: &'u str,
    port: Option<u16>,
    path: &'u str,
}

/// Splits a URL. `None` if it has a part that a redirect cannot have: a query, a fragment, or an address in brackets.
fn url_of(url: &str) -> Option<Url<'_>> {
    let (scheme, rest) = url.split_once("://")?;
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, Some(port.parse().ok()?)),
        None => (authority, None),
    };
    let plain = !host.is_empty() && !host.contains(['[', '@', '?', '#']) && !path.contains(['?', '#']);
    (plain && matches!(scheme, "http" | "https")).then_some(Url { scheme, host, port, path })
}

impl Url<'_> {
    fn redirect(&self, status_code: Option<i32>) -> HttpRequestRedirectFilter {
        let path = if self.path.is_empty() { "/" } else { self.path };
        HttpRequestRedirectFilter {
            scheme: Some(self.scheme.to_owned()),
            hostname: Some(self.host.to_owned()),
            port: self.port.map(i32::from),
            path: paths::redirect_path(&PathRewrite::Full(path.into())),
            status_code,
        }
    }
}

fn cors(cors: &Cors) -> HttpCorsFilter {
    HttpCorsFilter {
        allow_origins: cors.origins.iter().flat_map(cors_origins).collect(),
        allow_methods: comma_separated(&cors.methods),
        allow_headers: comma_separated(&cors.headers),
        expose_headers: comma_separated(&cors.expose),
        allow_credentials: cors.credentials.then_some(true),
        max_age: i32::try_from(cors.max_age).ok(),
    }
}

/// The allowed origins. An origin without a scheme becomes one for each scheme.
fn cors_origins(allowed: &CorsOrigin) -> Vec<String> {
    match allowed {
        CorsOrigin::Any => vec!["*".to_owned()],
        CorsOrigin::Exact(origin) => vec![origin.to_string()],
        CorsOrigin::OneLabel { before, after } | CorsOrigin::Wildcard { before, after } => {
            match before.is_empty() {
                true => vec![format!("http://*{after}"), format!("https://*{after}")],
                false => vec![format!("{before}*{after}")],
            }
        }
    }
}

fn comma_separated(text: &str) -> Vec<String> {
    let names = text.split([',', ' ', '\t']).filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

fn merge_edit(into: &mut HttpHeaderFilter, edit: &HeaderEdit) {
    let field = |field: &fairway_model::HeaderField| HttpHeader {
        name: field.name.to_string(),
        value: field.value.to_string(),
    };
    into.remove.extend(edit.remove.iter().map(ToString::to_string));
    for it in &edit.set {
        set_header(into, &it.name, &it.value);
    }
    into.add.extend(edit.add.iter().map(field));
}

/// Sets a header. The last value of a name wins, because a list of the Gateway API contains each name once.
fn set_header(into: &mut HttpHeaderFilter, name: &str, value: &str) {
    into.set.retain(|field| !field.name.eq_ignore_ascii_case(name));
    into.set.push(HttpHeader { name: name.to_owned(), value: value.to_owned() });
}

fn is_empty(edit: &HttpHeaderFilter) -> bool {
    edit.add.is_empty() && edit.remove.is_empty() && edit.set.is_empty()
}

fn constant_value(field: &HeaderTemplate) -> Option<String> {
    let text = |part: &TemplatePart| match part {
        TemplatePart::Text(text) => Some(text.to_string()),
        _ => None,
    };
    field.value.0.iter().map(text).collect()
}

/// Remarks on mirrored requests, which always have the Host and path of the original request.
pub(crate) fn mirror_remarks(mirror: &Mirror) -> Vec<Remark> {
    let mut found = Vec::new();
    if mirror.host.is_some() {
        found.push(Remark::differs(
            MIRROR_ANNOTATIONS,
            "mirrored requests have the Host of the original request",
        ));
    }
    match &mirror.target {
        MirrorTarget::Forwarded => {}
        MirrorTarget::Received(before) if before.is_empty() => {}
        MirrorTarget::Received(before) => {
            found.push(Remark::lost(
                MIRROR_ANNOTATIONS,
                format!("mirrored requests do not have {before} before their path"),
            ));
        }
        MirrorTarget::Fixed(path) => {
            let remark = format!("mirrored requests have the path of the original request instead of {path}");
            found.push(Remark::lost(MIRROR_ANNOTATIONS, remark));
        }
    }
    if mirror.max_body == 0 {
        found.push(Remark::differs(MIRROR_ANNOTATIONS, "bodies are mirrored too"));
    }
    found
}

/// The remark on a mirror that is not a Service.
pub(crate) fn without_mirror(name: &str) -> Remark {
    Remark::lost(MIRROR_ANNOTATIONS, format!("{name} is not a Service, so requests are not mirrored"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::gateway::remark::Outcome;

    fn filters_of(phases: &Phases) -> Filters<'_> {
        Filters::from_phases(phases, Context { labels: &RuleLabels::default(), has_own_filters: true })
    }

    #[test]
    fn headers_of_snippets_use_the_gateway_api_if_it_can_express_them() {
        let field = |name: &str, part: TemplatePart| HeaderTemplate {
            name: name.into(),
            value: fairway_model::Template(vec![part]),
        };
        let edits = |fields: Vec<HeaderTemplate>| {
            let origin = "x".into();
            let (when, statuses) = (Vec::new(), ADD_HEADER_STATUSES.to_vec());
            Phases::from(ResponseEdit::Chosen(Arc::new(ConditionalHeaders {
                origin,
                when,
                statuses,
                operation: HeaderOperation::Add,
                fields,
            })))
        };
        let phases =
            edits(vec![field("X-A", TemplatePart::Text("a".into())), field("X-B", TemplatePart::Address)]);
        let found = filters_of(&phases);
        assert_eq!(found.response.add.len(), 1);
        assert_eq!(
            found.own_filter_spec(None).unwrap().response_headers.unwrap().add[0].value,
            "{client.address}"
        );
        let fates: Vec<_> = found.remarks.iter().map(|remark| remark.fate).collect();
        assert_eq!(fates, [Outcome::Differs, Outcome::Same]);
        let labels = RuleLabels::default();
        let foreign = Filters::from_phases(&phases, Context { labels: &labels, has_own_filters: false });
        assert_eq!(foreign.remarks[0].fate, Outcome::Lost);
    }

    #[test]
    fn guards_are_left_to_policies_and_steps_without_a_filter_are_lost() {
        let phases = Phases { unlogged: true, ..Guard::OverTls.into() };
        let found = filters_of(&phases);
        assert_eq!(found.guards, [&Guard::OverTls]);
        assert_eq!(
            found.remarks,
            [Remark::lost(&["enable-access-log"], "requests are written to the access log")]
        );
    }

    #[test]
    fn tracing_is_left_to_the_listener() {
        let phases = Phases { tracing: Some(Arc::default()), ..Phases::default() };
        let found = filters_of(&phases);
        assert!(found.closed.is_empty());
        let [remark] = &found.remarks[..] else { panic!("{:?}", found.remarks) };
        assert_eq!(remark.fate, Outcome::Lost);
        assert!(remark.about.contains(&"opentelemetry-trust-incoming-span"));
        assert!(remark.what.contains("ClientTrafficPolicy"), "{}", remark.what);
    }

    #[test]
    fn a_url_is_split_into_the_parts_of_a_redirect() {
        let read = |url: &'static str| {
            let it = url_of(url)?;
            Some((it.scheme, it.host, it.port, it.path))
        };
        assert_eq!(read("https://new.test"), Some(("https", "new.test", None, "")));
        assert_eq!(read("http://new.test:81/a"), Some(("http", "new.test", Some(81), "/a")));
        for url in ["https://new.test/?a=b", "https://[::1]/", "ftp://a/", "https://u@h/"] {
            assert_eq!(read(url), None, "{url}");
        }
    }

    #[test]
    fn an_origin_without_a_scheme_becomes_one_per_scheme() {
        let origin = CorsOrigin::OneLabel { before: "".into(), after: ".a.test".into() };
        assert_eq!(cors_origins(&origin), ["http://*.a.test", "https://*.a.test"]);
    }

    #[test]
    fn names_are_separated_by_commas_spaces_or_both() {
        assert_eq!(comma_separated("GET, PUT POST,"), ["GET", "PUT", "POST"]);
    }

    #[test]
    fn strict_transport_security_is_only_for_responses_over_tls() {
        let phases = ResponseEdit::StrictTransportSecurity("max-age=1".into()).into();
        let found = filters_of(&phases);
        assert!(found.for_route(None, false).is_empty());
        let set = found.for_route(None, true).pop().and_then(|it| it.response_header_modifier).unwrap().set;
        assert_eq!((set[0].name.as_str(), set[0].value.as_str()), ("Strict-Transport-Security", "max-age=1"));
    }
}
