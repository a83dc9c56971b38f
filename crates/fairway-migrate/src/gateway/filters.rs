//! What a rule does, as filters of a route, and what of it is lost. Guards are left to policies.

use fairway_model::{
    AnswerEdit, ChosenFields, Content, Cors, CorsOrigin, ErrorPages, Fallback, FieldTemplate, Guard,
    HeaderEdit, HttpsRedirect, Manner, Mirror, MirrorTarget, OF_SUCCESS, PathRewrite, Phases, ReceivedEdit,
    Redirect, RedirectTarget, RequestEdit, Respond, RuleLabels, Step, TemplatePart,
};
use fairway_objects::annotations::is_of_the_hop;
use fairway_objects::gateway_api::{
    HttpCorsFilter, HttpHeader, HttpHeaderFilter, HttpRequestRedirectFilter, HttpRouteFilter,
    HttpUrlRewriteFilter,
};
use fairway_objects::policies::{PathSubstitution, RouteFilterSpec};

use crate::gateway::own_filter::{self, Headers};
use crate::gateway::paths;
use crate::gateway::protection;
use crate::gateway::remark::Remark;

/// What redirects of an Ingress ask for: to a URL, and within a host.
const TO_URL: &[&str] = &["permanent-redirect", "temporal-redirect", "fairway.dev/redirect"];
const TO_ROOT: &[&str] = &["app-root"];
const RELATIVE: &[&str] = &["relative-redirects"];
const CORS: &[&str] = &["enable-cors", "cors-allow-origin"];
const MIRROR: &[&str] = &["mirror-target", "mirror-host", "mirror-request-body"];
const SNIPPETS: &[&str] = &["configuration-snippet", "server-snippet"];
const RETRIES: &[&str] = &["proxy-next-upstream"];
const HEADERS: &[&str] = &["fairway.dev/request-headers", "fairway.dev/response-headers"];

/// The statuses that a redirect may have (Gateway API `HTTPRequestRedirectFilter.statusCode`).
const STATUSES: [u16; 5] = [301, 302, 303, 307, 308];

/// What a rule does, sorted by what a route has for them.
#[derive(Debug, Default)]
pub(crate) struct Filters<'f> {
    request: HttpHeaderFilter,
    response: HttpHeaderFilter,
    /// Strict-Transport-Security of answers over TLS.
    hsts: Option<&'f str>,
    cors: Option<HttpCorsFilter>,
    /// Sends plain requests to https.
    pub(crate) to_https: Option<&'f HttpsRedirect>,
    pub(crate) redirect: Option<HttpRequestRedirectFilter>,
    host: Option<String>,
    /// The new path, which depends on the match.
    pub(crate) path: Option<&'f PathRewrite>,
    pub(crate) mirrors: Vec<&'f Mirror>,
    /// What only a filter of Fairway's own says.
    own: RouteFilterSpec,
    /// Statuses after which another endpoint is asked.
    pub(crate) retry_statuses: &'f [u16],
    /// Which responses another backend makes.
    pub(crate) pages: Option<&'f ErrorPages>,
    /// Who serves while there are no endpoints.
    pub(crate) fallback: Option<&'f Fallback>,
    /// Guards that filters do not express.
    pub(crate) guards: Vec<&'f Guard>,
    /// Why the rule must not be served: each is what would be missing.
    pub(crate) closed: Vec<&'static str>,
    /// Why its requests would be answered otherwise than they should be.
    pub(crate) lost: Vec<String>,
    pub(crate) remarks: Vec<Remark>,
}

impl<'f> Filters<'f> {
    /// Sorts what a rule does.
    pub(crate) fn of(phases: &'f Phases, rule: Context<'_>) -> Self {
        let mut all = Self::default();
        phases.steps().for_each(|step| all.take(step, rule));
        all.closed.dedup();
        all
    }

    fn take(&mut self, step: Step<'f>, rule: Context<'_>) {
        match step {
            // The first that answers ends the exchange.
            Step::Guard(Guard::HttpsRedirect(to_https)) if self.redirect.is_none() => {
                self.to_https = Some(to_https);
            }
            Step::Guard(Guard::Redirect(redirect)) if !self.responds() => self.redirect(redirect),
            Step::Guard(Guard::Respond(_)) if self.redirect.is_some() || self.responds() => {}
            Step::Guard(Guard::Respond(respond)) => self.respond(respond, rule),
            Step::Guard(guard) => self.guards.push(guard),
            Step::Extension(it) if !it.failure_mode_allow => {
                self.closed.push("the service that must see its requests");
            }
            Step::Answer(AnswerEdit::Cors(cors)) => self.cors(cors),
            Step::Request(RequestEdit::Headers(edit)) => merge(&mut self.request, edit),
            Step::Answer(AnswerEdit::Headers(edit)) => merge(&mut self.response, edit),
            Step::EndpointFields(fields) => self.fields(fields, Direction::Request, rule),
            Step::Answer(AnswerEdit::Fields(fields)) => self.fields(fields, Direction::Response, rule),
            Step::Chosen(fields) => self.chosen(fields, Direction::Request, rule),
            Step::Answer(AnswerEdit::Chosen(fields)) => self.chosen(fields, Direction::Response, rule),
            Step::Received(ReceivedEdit::Hide(names)) => {
                self.response.remove.extend(names.iter().map(ToString::to_string));
            }
            Step::Answer(AnswerEdit::StrictTransportSecurity(value)) => self.hsts = Some(value),
            Step::Path(path) => self.path = Some(path),
            Step::Request(RequestEdit::ForwardedPrefix(path)) => {
                self.own.forwarded_prefix =
                    Some(path).filter(|_| rule.has_own_filters).and_then(own_filter::substitution);
                if self.own.forwarded_prefix.is_none() {
                    self.remarks.extend(feature(step));
                }
            }
            Step::Request(RequestEdit::Host(host)) => self.host = Some(host.to_string()),
            Step::Mirror(mirror) => self.mirrors.push(mirror),
            Step::Pages(pages) => self.pages = Some(pages),
            Step::RetryStatuses(statuses) => {
                let what =
                    "the same endpoint is asked again where there is no other, and no budget limits retries";
                self.remarks.push(Remark::differs(RETRIES, what));
                self.retry_statuses = statuses;
            }
            Step::Fallback(fallback) if !is_of_canary(fallback) => self.fallback = Some(fallback),
            other => self.remarks.extend(feature(other)),
        }
    }

    fn redirect(&mut self, of: &Redirect) {
        match redirect(of, &mut self.remarks) {
            Ok(redirect) => self.redirect = self.redirect.take().or(Some(redirect)),
            Err(why) => {
                self.remarks.push(Remark::lost(TO_URL, why.clone()));
                self.lost.push(why);
            }
        }
    }

    fn cors(&mut self, of: &Cors) {
        let what = "only preflights are answered; ingress-nginx answers every OPTIONS";
        self.remarks.push(Remark::differs(CORS, what));
        if of.origins.iter().any(|origin| matches!(origin, CorsOrigin::OneLabel { .. })) {
            let what = "the star of an origin stands for several labels, too";
            self.remarks.push(Remark::differs(CORS, what));
        }
        self.cors = Some(cors(of));
    }

    /// Whether the rule answers every request itself.
    pub(crate) fn responds(&self) -> bool {
        self.own.direct_response.is_some()
    }

    /// A response of the rule itself, or a guard that closes it.
    fn respond(&mut self, of: &Respond, rule: Context<'_>) {
        let response = Some(of).filter(|_| rule.has_own_filters);
        let Some((response, headers)) = response.and_then(|of| own_filter::response(of, rule.labels)) else {
            return self.closed.extend(protection::name_of(&Guard::Respond(of.clone().into())));
        };
        if of.content == Content::Status {
            let what = "the response has no body, which says its status in ingress-nginx";
            self.remarks.push(Remark::differs(SNIPPETS, what));
        }
        self.own.direct_response = Some(response);
        if let Some(headers) = headers {
            self.own.response_headers.get_or_insert_default().set.extend(headers.set);
        }
        self.remarks.push(Remark::same(SNIPPETS));
    }

    /// Fields that replace others.
    fn fields(&mut self, fields: &[FieldTemplate], direction: Direction, rule: Context<'_>) {
        for field in fields {
            if !self.field(field, direction, Headers::Replaced, rule) {
                let what = format!("the field {} has parts of the request in its value", field.name);
                self.remarks.push(Remark::lost(HEADERS, what));
            }
        }
    }

    /// Fields of snippets.
    fn chosen(&mut self, of: &ChosenFields, direction: Direction, rule: Context<'_>) {
        let of_success = of.statuses == OF_SUCCESS;
        if !of.when.is_empty() || !(of.statuses.is_empty() || of_success) {
            let what = "the headers that snippets set or add under conditions are neither set nor added";
            return self.remarks.push(Remark::lost(SNIPPETS, what));
        }
        let headers = if of.manner == Manner::Set { Headers::Replaced } else { Headers::Kept };
        for field in &of.fields {
            if !self.field(field, direction, headers, rule) {
                let what = format!("the header {} of a snippet is neither set nor added", field.name);
                self.remarks.push(Remark::lost(SNIPPETS, what));
            }
        }
        if of_success {
            let what = "headers of add_header without always are on responses of all statuses";
            self.remarks.push(Remark::differs(SNIPPETS, what));
        }
        self.remarks.push(Remark::same(SNIPPETS));
    }

    /// Adds a field: as the Gateway API says it where its value is the same for every request, else as only a filter of Fairway's own
    /// does. `false` where neither does.
    fn field(
        &mut self,
        field: &FieldTemplate,
        direction: Direction,
        headers: Headers,
        rule: Context<'_>,
    ) -> bool {
        let (edit, own) = match direction {
            Direction::Request => (&mut self.request, &mut self.own.request_headers),
            Direction::Response => (&mut self.response, &mut self.own.response_headers),
        };
        let Some(value) = constant(field).filter(|_| !is_of_the_hop(&field.name)) else {
            return rule.has_own_filters && own_filter::add_header(own, field, headers, rule.labels);
        };
        let name = field.name.to_string();
        match (headers, value.is_empty()) {
            (Headers::Replaced, true) => edit.remove.push(name),
            (Headers::Replaced, false) => set(edit, &name, &value),
            (Headers::Kept, true) => {}
            (Headers::Kept, false) => edit.add.push(HttpHeader { name, value }),
        }
        true
    }

    /// What only a filter of Fairway's own says, with the new path.
    pub(crate) fn own(&self, path: Option<PathSubstitution>) -> Option<RouteFilterSpec> {
        let mut own = self.own.clone();
        if self.redirect.is_some() || self.responds() {
            (own.forwarded_prefix, own.request_headers) = (None, None);
        } else {
            own.path_rewrite = path;
        }
        (own != RouteFilterSpec::default()).then_some(own)
    }

    /// Those of the route in the order in which Fairway applies them, with `path` as the new path.
    pub(crate) fn for_route(
        &self,
        path: Option<&fairway_objects::gateway_api::HttpPathModifier>,
        over_tls: bool,
    ) -> Vec<HttpRouteFilter> {
        let mut filters = Vec::new();
        if let Some(cors) = &self.cors {
            filters.push(HttpRouteFilter { cors: Some(cors.clone()), ..kind("CORS") });
        }
        if !is_empty(&self.request) {
            let edit = Some(self.request.clone());
            filters.push(HttpRouteFilter { request_header_modifier: edit, ..kind("RequestHeaderModifier") });
        }
        let mut response = self.response.clone();
        if let Some(value) = self.hsts.filter(|_| over_tls) {
            set(&mut response, "Strict-Transport-Security", value);
        }
        if !is_empty(&response) {
            let edit = Some(response);
            filters
                .push(HttpRouteFilter { response_header_modifier: edit, ..kind("ResponseHeaderModifier") });
        }
        if let Some(redirect) = &self.redirect {
            let redirect = Some(redirect.clone());
            filters.push(HttpRouteFilter { request_redirect: redirect, ..kind("RequestRedirect") });
        } else if self.host.is_some() || path.is_some() {
            let rewrite = HttpUrlRewriteFilter { hostname: self.host.clone(), path: path.cloned() };
            filters.push(HttpRouteFilter { url_rewrite: Some(rewrite), ..kind("URLRewrite") });
        }
        filters
    }
}

/// What is known of a rule besides what it does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context<'r> {
    pub(crate) labels: &'r RuleLabels,
    /// Whether its route may name filters of Fairway's own.
    pub(crate) has_own_filters: bool,
}

/// Which fields are changed.
#[derive(Clone, Copy)]
enum Direction {
    Request,
    Response,
}

/// A filter without its value.
pub(crate) fn kind(kind: &str) -> HttpRouteFilter {
    HttpRouteFilter { type_: kind.to_owned(), ..HttpRouteFilter::default() }
}

/// The redirect of plain requests to `https`.
pub(crate) fn to_https(of: &HttpsRedirect, port: u16) -> HttpRouteFilter {
    let redirect = HttpRequestRedirectFilter {
        scheme: Some("https".to_owned()),
        port: (port != 443).then_some(i32::from(port)),
        status_code: Some(i32::from(of.status)),
        ..HttpRequestRedirectFilter::default()
    };
    HttpRouteFilter { request_redirect: Some(redirect), ..kind("RequestRedirect") }
}

/// Whether it is the word of a canary for the time without endpoints: it tells the main Service nothing.
pub(crate) fn is_of_canary(fallback: &Fallback) -> bool {
    fallback.fields.is_empty()
}

/// What else is lost with a step.
fn feature(step: Step<'_>) -> Option<Remark> {
    let (about, what): (&'static [&'static str], _) = match step {
        Step::Extension(_) => {
            (&[], "the service does not see its requests: an ExtensionPolicy for the route would ask it")
        }
        Step::Client(_) => (&["fairway.dev/real-ip"], "who the client is follows from the settings alone"),
        Step::Secured(_) => {
            (&["backend-protocol"], "endpoints are spoken to in the clear, also for clients with TLS")
        }
        Step::Hop(_) => (&["proxy-http-version", "connection-proxy-header"], "HTTP/1.1 is spoken as usual"),
        Step::Request(RequestEdit::ForwardedPrefix(_)) => (
            &["x-forwarded-prefix"],
            "endpoints do not get the field, which has parts of the path in its value",
        ),
        Step::HeadBound(_) => (&["proxy-buffer-size"], "the usual limit of the head of a response holds"),
        Step::Rate(_) => (&["limit-rate", "limit-rate-after"], "responses have no limit of their speed"),
        Step::Received(ReceivedEdit::Cookies(_)) => {
            (&["proxy-cookie-domain", "proxy-cookie-path"], "cookies of endpoints stay as they are")
        }
        Step::Received(ReceivedEdit::Location(_)) => {
            (&["proxy-redirect-from", "proxy-redirect-to"], "Location of endpoints stays as it is")
        }
        Step::Unlogged => (&["enable-access-log"], "requests are written to the access log"),
        Step::Tracing(_) => (
            &["enable-opentelemetry", "opentelemetry-operation-name", "opentelemetry-trust-incoming-span"],
            "requests are traced as those of the whole listener: as tracing of its ClientTrafficPolicy says, else as the settings \
             ConfigMap does",
        ),
        Step::GrpcWeb => return Some(Remark::differs(&["backend-protocol"], "gRPC-Web is not translated")),
        _ => return None,
    };
    Some(Remark::lost(about, what))
}

fn redirect(of: &Redirect, remarks: &mut Vec<Remark>) -> Result<HttpRequestRedirectFilter, String> {
    if !STATUSES.contains(&of.status) {
        return Err(format!("a redirect cannot have the status {}", of.status));
    }
    let filter = HttpRequestRedirectFilter { status_code: Some(of.status.into()), ..Default::default() };
    let path = |path: &PathRewrite| {
        paths::redirected(path).ok_or_else(|| "a redirect cannot lead to such a path".to_owned())
    };
    Ok(match &of.target {
        RedirectTarget::Url(url) => {
            let parts = url_of(url).ok_or_else(|| format!("a redirect cannot lead to {url}"))?;
            remarks.push(Remark::differs(TO_URL, "the query of the request follows the new URL"));
            parts.redirect(filter.status_code)
        }
        RedirectTarget::Path(to) => {
            remarks.push(Remark::differs(RELATIVE, "Location has scheme and host"));
            HttpRequestRedirectFilter { path: Some(path(&PathRewrite::Full(to.clone()))?), ..filter }
        }
        RedirectTarget::Host(host) => {
            HttpRequestRedirectFilter { hostname: Some(host.to_string()), ..filter }
        }
        RedirectTarget::Parts { scheme, host, port, path: to, keep_query } => {
            if !keep_query {
                let what = "the query of the request follows the new path";
                remarks.push(Remark::differs(TO_ROOT, what));
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

/// `None` where a URL has what a redirect cannot have: a query, a fragment, an address in brackets.
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
            path: paths::redirected(&PathRewrite::Full(path.into())),
            status_code,
        }
    }
}

fn cors(of: &Cors) -> HttpCorsFilter {
    HttpCorsFilter {
        allow_origins: of.origins.iter().flat_map(origin).collect(),
        allow_methods: listed(&of.methods),
        allow_headers: listed(&of.headers),
        expose_headers: listed(&of.expose),
        allow_credentials: of.credentials.then_some(true),
        max_age: i32::try_from(of.max_age).ok(),
    }
}

/// One without a scheme is one of each.
fn origin(of: &CorsOrigin) -> Vec<String> {
    match of {
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

fn listed(text: &str) -> Vec<String> {
    let names = text.split([',', ' ', '\t']).filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

fn merge(into: &mut HttpHeaderFilter, edit: &HeaderEdit) {
    let field = |field: &fairway_model::HeaderField| HttpHeader {
        name: field.name.to_string(),
        value: field.value.to_string(),
    };
    into.remove.extend(edit.remove.iter().map(ToString::to_string));
    for it in &edit.set {
        set(into, &it.name, &it.value);
    }
    into.add.extend(edit.add.iter().map(field));
}

/// The last one of a name counts: a list of the Gateway API has each name once.
fn set(into: &mut HttpHeaderFilter, name: &str, value: &str) {
    into.set.retain(|field| !field.name.eq_ignore_ascii_case(name));
    into.set.push(HttpHeader { name: name.to_owned(), value: value.to_owned() });
}

fn is_empty(edit: &HttpHeaderFilter) -> bool {
    edit.add.is_empty() && edit.remove.is_empty() && edit.set.is_empty()
}

fn constant(field: &FieldTemplate) -> Option<String> {
    let text = |part: &TemplatePart| match part {
        TemplatePart::Text(text) => Some(text.to_string()),
        _ => None,
    };
    field.value.0.iter().map(text).collect()
}

/// What is said of copies: they have the request's own host, and go wherever the request goes.
pub(crate) fn of_mirror(mirror: &Mirror) -> Vec<Remark> {
    let mut said = Vec::new();
    if mirror.host.is_some() {
        said.push(Remark::differs(MIRROR, "copies have the Host of the request"));
    }
    match &mirror.target {
        MirrorTarget::Forwarded => {}
        MirrorTarget::Received(before) if before.is_empty() => {}
        MirrorTarget::Received(before) => {
            said.push(Remark::lost(MIRROR, format!("copies do not have {before} before their path")));
        }
        MirrorTarget::Fixed(path) => {
            said.push(Remark::lost(MIRROR, format!("copies have the path of the request instead of {path}")));
        }
    }
    if mirror.most_body == 0 {
        said.push(Remark::differs(MIRROR, "bodies are copied, too"));
    }
    said
}

/// What is said of copies that nobody gets.
pub(crate) fn without_mirror(name: &str) -> Remark {
    Remark::lost(MIRROR, format!("{name} is no Service, so nobody gets copies"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::gateway::remark::Fate;

    fn of(phases: &Phases) -> Filters<'_> {
        Filters::of(phases, Context { labels: &RuleLabels::default(), has_own_filters: true })
    }

    #[test]
    fn headers_of_snippets_are_said_by_the_gateway_api_where_it_can() {
        let field = |name: &str, part: TemplatePart| FieldTemplate {
            name: name.into(),
            value: fairway_model::Template(vec![part]),
        };
        let chosen = |fields: Vec<FieldTemplate>| {
            let origin = "x".into();
            let (when, statuses) = (Vec::new(), OF_SUCCESS.to_vec());
            Phases::from(AnswerEdit::Chosen(Arc::new(ChosenFields {
                origin,
                when,
                statuses,
                manner: Manner::Add,
                fields,
            })))
        };
        let phases =
            chosen(vec![field("X-A", TemplatePart::Text("a".into())), field("X-B", TemplatePart::Address)]);
        let found = of(&phases);
        assert_eq!(found.response.add.len(), 1);
        assert_eq!(found.own(None).unwrap().response_headers.unwrap().add[0].value, "{client.address}");
        let fates: Vec<_> = found.remarks.iter().map(|remark| remark.fate).collect();
        assert_eq!(fates, [Fate::Differs, Fate::Same]);
        let labels = RuleLabels::default();
        let foreign = Filters::of(&phases, Context { labels: &labels, has_own_filters: false });
        assert_eq!(foreign.remarks[0].fate, Fate::Lost);
    }

    #[test]
    fn guards_are_for_policies_and_what_no_filter_has_is_lost() {
        let phases = Phases { unlogged: true, ..Guard::OverTls.into() };
        let found = of(&phases);
        assert_eq!(found.guards, [&Guard::OverTls]);
        assert_eq!(
            found.remarks,
            [Remark::lost(&["enable-access-log"], "requests are written to the access log")]
        );
    }

    #[test]
    fn how_requests_are_traced_is_left_to_the_listener() {
        let phases = Phases { tracing: Some(Arc::default()), ..Phases::default() };
        let found = of(&phases);
        assert!(found.closed.is_empty());
        let [remark] = &found.remarks[..] else { panic!("{:?}", found.remarks) };
        assert_eq!(remark.fate, Fate::Lost);
        assert!(remark.about.contains(&"opentelemetry-trust-incoming-span"));
        assert!(remark.what.contains("ClientTrafficPolicy"), "{}", remark.what);
    }

    #[test]
    fn a_url_becomes_the_parts_of_a_redirect() {
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
    fn an_origin_without_a_scheme_is_one_of_each() {
        let of = CorsOrigin::OneLabel { before: "".into(), after: ".a.test".into() };
        assert_eq!(origin(&of), ["http://*.a.test", "https://*.a.test"]);
    }

    #[test]
    fn names_are_separated_by_commas_spaces_or_both() {
        assert_eq!(listed("GET, PUT POST,"), ["GET", "PUT", "POST"]);
    }

    #[test]
    fn strict_transport_security_is_for_answers_over_tls() {
        let phases = AnswerEdit::StrictTransportSecurity("max-age=1".into()).into();
        let found = of(&phases);
        assert!(found.for_route(None, false).is_empty());
        let set = found.for_route(None, true).pop().and_then(|it| it.response_header_modifier).unwrap().set;
        assert_eq!((set[0].name.as_str(), set[0].value.as_str()), ("Strict-Transport-Security", "max-age=1"));
    }
}
