//! Filters of rules and of their backends as those of the model. Owns which cannot be applied; a filter that cannot
//! is never left out, but closes its rule.

use std::sync::Arc;

use fairway_model::{
    BackendKey, Cors, CorsManner, CorsOrigin, HeaderEdit, HeaderField, HostPattern, Mirror, MirrorTarget,
    PathRewrite, Redirect, RedirectTarget, RequestEdit, RouteFilters, WildcardSpan,
};
use fairway_objects::gateway_api::{
    Fraction, GrpcRouteFilter, HttpCorsFilter, HttpHeader, HttpHeaderFilter, HttpPathModifier,
    HttpRequestMirrorFilter, HttpRequestRedirectFilter, HttpRouteFilter, HttpUrlRewriteFilter,
    LocalObjectReference,
};

use crate::backend::Reference;
use crate::condition::Fault;
use crate::http_route_filter::{RuleFilter, is_filter};

/// The largest body of a request that is copied.
const COPIED_BODY: u64 = 1 << 20;
/// How long browsers may remember the answer to a preflight (Gateway API `HTTPCORSFilter.maxAge`).
const MAX_AGE: u32 = 5;

/// Why filters cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// They are wrong themselves.
    Invalid(Fault),
    /// The filter that a reference names does not exist, or cannot be used.
    Unresolved(Fault),
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Self::Invalid(fault)
    }
}

impl Refusal {
    /// What is wrong.
    pub(crate) fn fault(&self) -> &Fault {
        match self {
            Self::Invalid(fault) | Self::Unresolved(fault) => fault,
        }
    }
}

/// An HTTPRouteFilter by its name, or why it cannot be used.
pub(crate) type FilterOf<'a> = &'a mut dyn FnMut(&str) -> Result<RuleFilter, Fault>;

/// What filters are read with.
pub(crate) struct Reader<'a> {
    /// The HTTPRouteFilters of the route's namespace; `None` where none may be named.
    pub(crate) named: Option<FilterOf<'a>>,
    /// The backend of a mirror; `None` where the reference leads nowhere.
    pub(crate) mirror: &'a mut dyn FnMut(Reference<'_>) -> Option<BackendKey>,
    /// Whether all matches of the rule have a prefix that can be replaced.
    pub(crate) prefixes: bool,
}

/// What filters of both kinds of routes have in common.
struct Common<'a> {
    kind: &'a str,
    request: Option<&'a HttpHeaderFilter>,
    response: Option<&'a HttpHeaderFilter>,
    mirror: Option<&'a HttpRequestMirrorFilter>,
}

const EXTENSION: &str = "ExtensionRef";
/// The type of the filter that asks another service.
pub(crate) const EXTERNAL_AUTH: &str = "ExternalAuth";

impl Common<'_> {
    /// The value of the filter's kind, which it must have.
    fn given<T>(&self, value: Option<T>) -> Result<T, Fault> {
        value.ok_or_else(|| unsupported(format!("the filter {} has no value", self.kind)))
    }
}

impl Reader<'_> {
    /// Those of an HTTPRoute.
    pub(crate) fn http(&mut self, filters: &[HttpRouteFilter]) -> Result<RouteFilters, Refusal> {
        let mut made = self.http_alone(filters)?;
        for filter in filters.iter().filter(|filter| filter.type_ == EXTENSION) {
            self.named(filter.extension_ref.as_ref())?.add_to(&mut made)?;
        }
        Ok(made)
    }

    /// Those of an HTTPRoute that refer to no other object.
    fn http_alone(&mut self, filters: &[HttpRouteFilter]) -> Result<RouteFilters, Fault> {
        let count = |kind: &str| filters.iter().filter(|filter| filter.type_ == kind).count();
        if count("RequestRedirect") > 0 && count("URLRewrite") > 0 {
            let problem = "RequestRedirect and URLRewrite exclude each other in a rule";
            return Err(Fault::new("IncompatibleFilters", problem));
        }
        for kind in ["RequestRedirect", "URLRewrite", "CORS"] {
            if count(kind) > 1 {
                let problem = format!("{kind} can be used only once in a list of filters");
                return Err(Fault::new("IncompatibleFilters", problem));
            }
        }
        let mut made = RouteFilters::default();
        for filter in filters.iter().filter(|filter| filter.type_ != EXTENSION) {
            self.add_http(filter, &mut made)?;
        }
        Ok(made)
    }

    /// The filter that an `extensionRef` names.
    fn named(&mut self, reference: Option<&LocalObjectReference>) -> Result<RuleFilter, Refusal> {
        match (reference, &mut self.named) {
            (Some(reference), Some(named)) if is_filter(reference) => {
                named(&reference.name).map_err(Refusal::Unresolved)
            }
            (Some(reference), None) if is_filter(reference) => {
                Err(unsupported("a filter of a backend has no HTTPRouteFilter".to_owned()).into())
            }
            _ => Err(unsupported(format!("the filter {EXTENSION} is not supported")).into()),
        }
    }

    fn add_http(&mut self, filter: &HttpRouteFilter, made: &mut RouteFilters) -> Result<(), Fault> {
        let common = Common {
            kind: &filter.type_,
            request: filter.request_header_modifier.as_ref(),
            response: filter.response_header_modifier.as_ref(),
            mirror: filter.request_mirror.as_ref(),
        };
        match &*filter.type_ {
            "RequestRedirect" => {
                let it = common.given(filter.request_redirect.as_ref())?;
                made.redirect = Some(self.redirect(it)?);
            }
            "URLRewrite" => self.rewrite(common.given(filter.url_rewrite.as_ref())?, made)?,
            // Whoever reads the guards of a rule has read it, and closes the rule of a backend with one.
            EXTERNAL_AUTH => {}
            "CORS" => made.cors = Some(Arc::new(cors(common.given(filter.cors.as_ref())?)?)),
            _ => self.common(&common, made)?,
        }
        Ok(())
    }

    /// Those of a GRPCRoute.
    pub(crate) fn grpc(&mut self, filters: &[GrpcRouteFilter]) -> Result<RouteFilters, Refusal> {
        let mut made = RouteFilters::default();
        for filter in filters {
            if filter.type_ == EXTENSION {
                self.named(filter.extension_ref.as_ref())?.add_to_calls(&mut made)?;
                continue;
            }
            let common = Common {
                kind: &filter.type_,
                request: filter.request_header_modifier.as_ref(),
                response: filter.response_header_modifier.as_ref(),
                mirror: filter.request_mirror.as_ref(),
            };
            self.common(&common, &mut made)?;
        }
        Ok(made)
    }

    /// A filter that both kinds of routes have; a mirror that leads nowhere is none.
    fn common(&mut self, filter: &Common<'_>, made: &mut RouteFilters) -> Result<(), Fault> {
        match filter.kind {
            "RequestHeaderModifier" => {
                made.request.push(RequestEdit::Headers(edit(filter.given(filter.request)?)?));
            }
            "ResponseHeaderModifier" => made.answer.push(edit(filter.given(filter.response)?)?),
            "RequestMirror" => made.mirrors.extend(self.mirror(filter.given(filter.mirror)?)?),
            other => return Err(unsupported(format!("the filter {other} is not supported"))),
        }
        Ok(())
    }

    fn mirror(&mut self, of: &HttpRequestMirrorFilter) -> Result<Option<Mirror>, Fault> {
        let (numerator, denominator) = match (&of.fraction, of.percent) {
            (Some(Fraction { numerator, denominator }), _) => (*numerator, denominator.unwrap_or(100)),
            (None, Some(percent)) => (percent, 100),
            (None, None) => (1, 1),
        };
        let share = (u32::try_from(numerator), u32::try_from(denominator));
        let (Ok(numerator), Ok(denominator @ 1..)) = share else {
            return Err(unsupported(format!("{numerator}/{denominator} is no part of the requests")));
        };
        let backend = (self.mirror)((&of.backend_ref).into());
        let mirror = |backend| Mirror {
            backend,
            numerator,
            denominator,
            most_body: COPIED_BODY,
            target: MirrorTarget::Forwarded,
            host: None,
        };
        Ok(backend.map(mirror))
    }

    fn redirect(&self, of: &HttpRequestRedirectFilter) -> Result<Redirect, Fault> {
        let status = of.status_code.unwrap_or(302);
        let Some(status) = u16::try_from(status).ok().filter(|it| matches!(it, 301..=303 | 307 | 308)) else {
            return Err(unsupported(format!("{status} is no status of a redirect")));
        };
        if let Some(scheme) = of.scheme.as_deref().filter(|scheme| !matches!(*scheme, "http" | "https")) {
            return Err(unsupported(format!("the scheme {scheme} is not known")));
        }
        let port =
            of.port.map(|port| u16::try_from(port).map_err(|_| unsupported(format!("{port} is no port"))));
        let target = RedirectTarget::Parts {
            scheme: of.scheme.as_deref().map(Into::into),
            host: of.hostname.as_deref().map(host).transpose()?,
            port: port.transpose()?,
            path: of.path.as_ref().map(|path| self.path(path)).transpose()?,
            keep_query: true,
        };
        Ok(Redirect { status, target })
    }

    fn rewrite(&self, of: &HttpUrlRewriteFilter, made: &mut RouteFilters) -> Result<(), Fault> {
        made.request.extend(of.hostname.as_deref().map(host).transpose()?.map(RequestEdit::Host));
        made.path = of.path.as_ref().map(|path| self.path(path)).transpose()?;
        Ok(())
    }

    fn path(&self, of: &HttpPathModifier) -> Result<PathRewrite, Fault> {
        match (&*of.type_, &of.replace_full_path, &of.replace_prefix_match) {
            ("ReplaceFullPath", Some(path), _) => Ok(PathRewrite::Full(on_one_line(path)?)),
            ("ReplacePrefixMatch", _, Some(_)) if !self.prefixes => {
                Err(unsupported("ReplacePrefixMatch needs matches of type PathPrefix".to_owned()))
            }
            ("ReplacePrefixMatch", _, Some(prefix)) => Ok(PathRewrite::Prefix(on_one_line(prefix)?)),
            (kind, _, _) => {
                Err(unsupported(format!("the path modifier {kind} is not known, or has no value")))
            }
        }
    }
}

/// A host that stands in a header (Gateway API `PreciseHostname`).
fn host(text: &str) -> Result<Arc<str>, Fault> {
    match HostPattern::parse(text, WildcardSpan::OneLabel) {
        Ok(HostPattern::Exact(_)) => Ok(text.into()),
        _ => Err(unsupported(format!("{text:?} is no name of a host"))),
    }
}

/// A path that stands in a header or a request line.
fn on_one_line(path: &str) -> Result<Arc<str>, Fault> {
    match path.bytes().any(|byte| byte.is_ascii_control()) {
        false => Ok(path.into()),
        true => Err(unsupported(format!("the path {path:?} has a control character"))),
    }
}

fn edit(of: &HttpHeaderFilter) -> Result<HeaderEdit, Fault> {
    Ok(HeaderEdit {
        remove: of.remove.iter().map(|name| name.to_ascii_lowercase().into()).collect(),
        set: fields(&of.set)?,
        add: fields(&of.add)?,
    })
}

/// Of several entries of one name, whatever its case, the first counts (Gateway API `HTTPHeader.name`).
fn fields(of: &[HttpHeader]) -> Result<Vec<HeaderField>, Fault> {
    let mut fields: Vec<HeaderField> = Vec::with_capacity(of.len());
    for it in of {
        if !fields.iter().any(|before| before.name.eq_ignore_ascii_case(&it.name)) {
            fields.push(field(it)?);
        }
    }
    Ok(fields)
}

/// RFC 9110 §5.1 and §5.5.
fn field(of: &HttpHeader) -> Result<HeaderField, Fault> {
    let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if of.name.is_empty() || !of.name.bytes().all(is_token) {
        return Err(unsupported(format!("\"{}\" is no name of a header", of.name)));
    }
    if of.value.bytes().any(|b| matches!(b, b'\r' | b'\n' | 0)) {
        return Err(unsupported(format!("the value of the header {} has more than one line", of.name)));
    }
    Ok(HeaderField { name: of.name.as_str().into(), value: of.value.as_str().into() })
}

fn cors(of: &HttpCorsFilter) -> Result<Cors, Fault> {
    let credentials = of.allow_credentials.unwrap_or(false);
    let joined = |list: &[String]| -> Arc<str> {
        match list.iter().any(|it| it == "*") {
            true => "*".into(),
            false => list.join(", ").into(),
        }
    };
    let expose = of.expose_headers.iter().filter(|name| !(credentials && *name == "*")).cloned();
    let max_age =
        of.max_age.map(|age| u32::try_from(age).map_err(|_| unsupported(format!("maxAge is {age}"))));
    Ok(Cors {
        origins: of.allow_origins.iter().map(|origin| self::origin(origin)).collect(),
        methods: joined(&of.allow_methods),
        headers: joined(&of.allow_headers),
        expose: joined(&expose.collect::<Vec<_>>()),
        credentials,
        max_age: max_age.transpose()?.unwrap_or(MAX_AGE),
        manner: CorsManner::GatewayApi,
    })
}

/// A port that is the scheme's own is left out, as browsers leave it out (RFC 6454 §6.2).
fn origin(text: &str) -> CorsOrigin {
    if text == "*" {
        return CorsOrigin::Any;
    }
    let own = [("http://", ":80"), ("https://", ":443")];
    let own = own.iter().find(|(scheme, _)| text.starts_with(scheme));
    let text = own.and_then(|(_, port)| text.strip_suffix(port)).unwrap_or(text);
    match text.split_once('*') {
        Some((before, after)) => CorsOrigin::Wildcard { before: before.into(), after: after.into() },
        None => CorsOrigin::Exact(text.into()),
    }
}

fn unsupported(problem: String) -> Fault {
    Fault::new("UnsupportedValue", problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(filters: &[HttpRouteFilter], prefixes: bool) -> Result<RouteFilters, Fault> {
        let read =
            Reader { named: None, mirror: &mut |_| Some("shop/copy:80".into()), prefixes }.http(filters);
        read.map_err(|refusal| refusal.fault().clone())
    }

    fn rewrite(kind: &str) -> HttpRouteFilter {
        let path = HttpPathModifier {
            type_: kind.into(),
            replace_full_path: Some("/full".into()),
            replace_prefix_match: Some("/prefix".into()),
        };
        HttpRouteFilter {
            type_: "URLRewrite".into(),
            url_rewrite: Some(HttpUrlRewriteFilter { hostname: None, path: Some(path) }),
            ..HttpRouteFilter::default()
        }
    }

    #[test]
    fn a_prefix_is_replaced_only_where_all_matches_have_one() {
        assert!(read(&[rewrite("ReplacePrefixMatch")], true).is_ok());
        assert_eq!(read(&[rewrite("ReplacePrefixMatch")], false).unwrap_err().reason, "UnsupportedValue");
        assert!(read(&[rewrite("ReplaceFullPath")], false).is_ok());
        assert_eq!(read(&[rewrite("ReplaceSuffix")], true).unwrap_err().reason, "UnsupportedValue");
    }

    #[test]
    fn what_is_not_known_or_excludes_another_is_refused() {
        let kind = |kind: &str| HttpRouteFilter { type_: kind.into(), ..HttpRouteFilter::default() };
        assert_eq!(read(&[kind("ExtensionRef")], true).unwrap_err().reason, "UnsupportedValue");
        let redirect = HttpRouteFilter {
            request_redirect: Some(HttpRequestRedirectFilter::default()),
            ..kind("RequestRedirect")
        };
        assert!(read(std::slice::from_ref(&redirect), true).is_ok());
        for (status, is_redirect) in [(300, false), (301, true), (304, false), (305, false), (308, true)] {
            let to = HttpRequestRedirectFilter {
                status_code: Some(status),
                ..HttpRequestRedirectFilter::default()
            };
            let redirect = HttpRouteFilter { request_redirect: Some(to), ..kind("RequestRedirect") };
            assert_eq!(read(&[redirect], true).is_ok(), is_redirect, "{status}");
        }
        let both = read(&[redirect.clone(), rewrite("ReplaceFullPath")], true);
        assert_eq!(both.unwrap_err().reason, "IncompatibleFilters");
        let twice = read(&[redirect.clone(), redirect], true).unwrap_err();
        assert_eq!(
            (twice.reason, &*twice.message),
            ("IncompatibleFilters", "RequestRedirect can be used only once in a list of filters")
        );
    }

    #[test]
    fn no_host_or_path_writes_a_header_of_its_own() {
        let redirect = |host: &str| HttpRouteFilter {
            type_: "RequestRedirect".into(),
            request_redirect: Some(HttpRequestRedirectFilter {
                hostname: Some(host.into()),
                ..HttpRequestRedirectFilter::default()
            }),
            ..HttpRouteFilter::default()
        };
        let rewritten = |host: Option<&str>, path: &str| {
            let mut filter = rewrite("ReplaceFullPath");
            let it = filter.url_rewrite.as_mut().unwrap();
            it.hostname = host.map(Into::into);
            it.path.as_mut().unwrap().replace_full_path = Some(path.into());
            read(&[filter], true)
        };
        for wrong in ["a.test\r\nSet-Cookie: b", "a.test\n", "a test", "*.test", "a.test:80", ""] {
            assert!(read(&[redirect(wrong)], true).is_err(), "{wrong:?}");
            assert!(rewritten(Some(wrong), "/").is_err(), "{wrong:?}");
        }
        assert!(read(&[redirect("a.test")], true).is_ok());
        assert!(rewritten(Some("a.test"), "/a b").is_ok());
        assert!(rewritten(None, "/\r\nSet-Cookie: b").is_err());
    }

    #[test]
    fn of_header_names_that_differ_only_in_case_the_first_counts() {
        let header = |name: &str, value: &str| HttpHeader { name: name.into(), value: value.into() };
        let twice = vec![header("X-A", "1"), header("x-b", "2"), header("x-a", "3")];
        let both = HttpHeaderFilter { set: twice.clone(), add: twice, ..HttpHeaderFilter::default() };
        let edit = edit(&both).unwrap();
        for fields in [&edit.set, &edit.add] {
            let names: Vec<_> = fields.iter().map(|it| (&*it.name, &*it.value)).collect();
            assert_eq!(names, [("X-A", "1"), ("x-b", "2")]);
        }
    }

    #[test]
    fn origins_have_no_port_that_is_their_scheme_s_own() {
        for (text, read) in [
            ("*", CorsOrigin::Any),
            ("https://a.test:443", CorsOrigin::Exact("https://a.test".into())),
            ("http://a.test:443", CorsOrigin::Exact("http://a.test:443".into())),
            ("http://*:80", CorsOrigin::Wildcard { before: "http://".into(), after: "".into() }),
            (
                "https://*.a.test:8443",
                CorsOrigin::Wildcard { before: "https://".into(), after: ".a.test:8443".into() },
            ),
        ] {
            assert_eq!(origin(text), read, "{text}");
        }
    }

    #[test]
    fn parts_of_requests_are_mirrored() {
        let mirror = |fraction: Option<(i32, Option<i32>)>, percent| HttpRequestMirrorFilter {
            fraction: fraction.map(|(numerator, denominator)| Fraction { numerator, denominator }),
            percent,
            ..HttpRequestMirrorFilter::default()
        };
        for (of, share) in [
            (mirror(None, None), Some((1, 1))),
            (mirror(None, Some(20)), Some((20, 100))),
            (mirror(Some((1, Some(8))), None), Some((1, 8))),
            (mirror(Some((5, None)), None), Some((5, 100))),
            (mirror(Some((1, Some(0))), None), None),
        ] {
            let mirror = &mut |_: Reference<'_>| Some("shop/copy:80".into());
            let mut reader = Reader { named: None, mirror, prefixes: true };
            let found = match reader.mirror(&of) {
                Ok(Some(it)) => Some((it.numerator, it.denominator)),
                _ => None,
            };
            assert_eq!(found, share);
        }
    }
}
