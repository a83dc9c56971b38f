//! Translates route and backend filters. A filter that cannot be applied closes its rule instead of being skipped.

use std::sync::Arc;

use fairway_model::{
    BackendKey, Cors, CorsMode, CorsOrigin, HeaderEdit, HeaderField, HostPattern, Mirror, MirrorTarget,
    PathRewrite, Redirect, RedirectTarget, RequestEdit, RouteFilters, WildcardSpan,
};
use fairway_objects::gateway_api::{
    Fraction, GrpcRouteFilter, HttpCorsFilter, HttpHeader, HttpHeaderFilter, HttpPathModifier,
    HttpRequestMirrorFilter, HttpRequestRedirectFilter, HttpRouteFilter, HttpUrlRewriteFilter,
    LocalObjectReference,
};

use crate::backend::BackendReference;
use crate::condition::Fault;
use crate::http_route_filter::{RuleFilter, is_filter};

/// Maximum body of a mirrored request.
const MAX_MIRRORED_BODY: u64 = 1 << 20;
/// How long browsers may cache a preflight response (Gateway API `HTTPCORSFilter.maxAge`).
const DEFAULT_CORS_MAX_AGE: u32 = 5;

/// Why filters cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FilterError {
    /// A filter is invalid.
    Invalid(Fault),
    /// The referenced filter does not exist or is unusable.
    Unresolved(Fault),
}

impl From<Fault> for FilterError {
    fn from(fault: Fault) -> Self {
        Self::Invalid(fault)
    }
}

impl FilterError {
    /// The fault.
    pub(crate) fn fault(&self) -> &Fault {
        match self {
            Self::Invalid(fault) | Self::Unresolved(fault) => fault,
        }
    }
}

/// Looks up an HTTPRouteFilter by name.
pub(crate) type FilterLookup<'a> = &'a mut dyn FnMut(&str) -> Result<RuleFilter, Fault>;

/// Reads filters.
pub(crate) struct FilterReader<'a> {
    /// HTTPRouteFilters of the route's namespace; `None` if they cannot be referenced.
    pub(crate) named: Option<FilterLookup<'a>>,
    /// Resolves the backend of a mirror; `None` if the reference is invalid.
    pub(crate) mirror: &'a mut dyn FnMut(BackendReference<'_>) -> Option<BackendKey>,
    /// Whether all matches of the rule have a prefix that can be replaced.
    pub(crate) prefixes: bool,
}

/// The common part of HTTPRoute and GRPCRoute filters.
struct CommonFilter<'a> {
    kind: &'a str,
    request: Option<&'a HttpHeaderFilter>,
    response: Option<&'a HttpHeaderFilter>,
    mirror: Option<&'a HttpRequestMirrorFilter>,
}

const EXTENSION: &str = "ExtensionRef";
/// The type of the external authorization filter.
pub(crate) const EXTERNAL_AUTH: &str = "ExternalAuth";

impl CommonFilter<'_> {
    /// The filter's value, which is required.
    fn required_value<T>(&self, value: Option<T>) -> Result<T, Fault> {
        value.ok_or_else(|| unsupported(format!("the filter {} has no value", self.kind)))
    }
}

impl FilterReader<'_> {
    /// The filters of an HTTPRoute.
    pub(crate) fn read_http(&mut self, filters: &[HttpRouteFilter]) -> Result<RouteFilters, FilterError> {
        let mut route_filters = self.read_inline_http(filters)?;
        for filter in filters.iter().filter(|filter| filter.type_ == EXTENSION) {
            self.read_named(filter.extension_ref.as_ref())?.add_to(&mut route_filters)?;
        }
        Ok(route_filters)
    }

    /// The filters of an HTTPRoute that reference no other object.
    fn read_inline_http(&mut self, filters: &[HttpRouteFilter]) -> Result<RouteFilters, Fault> {
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
        let mut route_filters = RouteFilters::default();
        for filter in filters.iter().filter(|filter| filter.type_ != EXTENSION) {
            self.add_http(filter, &mut route_filters)?;
        }
        Ok(route_filters)
    }

    /// The filter of an `extensionRef`.
    fn read_named(&mut self, reference: Option<&LocalObjectReference>) -> Result<RuleFilter, FilterError> {
        match (reference, &mut self.named) {
            (Some(reference), Some(named)) if is_filter(reference) => {
                named(&reference.name).map_err(FilterError::Unresolved)
            }
            (Some(reference), None) if is_filter(reference) => {
                Err(unsupported("a filter of a backend has no HTTPRouteFilter".to_owned()).into())
            }
            _ => Err(unsupported(format!("the filter {EXTENSION} is not supported")).into()),
        }
    }

    fn add_http(&mut self, filter: &HttpRouteFilter, route_filters: &mut RouteFilters) -> Result<(), Fault> {
        let common = CommonFilter {
            kind: &filter.type_,
            request: filter.request_header_modifier.as_ref(),
            response: filter.response_header_modifier.as_ref(),
            mirror: filter.request_mirror.as_ref(),
        };
        match &*filter.type_ {
            "RequestRedirect" => {
                let it = common.required_value(filter.request_redirect.as_ref())?;
                route_filters.redirect = Some(self.redirect(it)?);
            }
            "URLRewrite" => {
                self.rewrite(common.required_value(filter.url_rewrite.as_ref())?, route_filters)?;
            }
            // Already handled when reading the guards of the rule, which also closes the rule of a backend with this
            // filter.
            EXTERNAL_AUTH => {}
            "CORS" => {
                route_filters.cors = Some(Arc::new(cors(common.required_value(filter.cors.as_ref())?)?));
            }
            _ => self.add_common(&common, route_filters)?,
        }
        Ok(())
    }

    /// The filters of a GRPCRoute.
    pub(crate) fn read_grpc(&mut self, filters: &[GrpcRouteFilter]) -> Result<RouteFilters, FilterError> {
        let mut route_filters = RouteFilters::default();
        for filter in filters {
            if filter.type_ == EXTENSION {
                self.read_named(filter.extension_ref.as_ref())?.add_to_grpc(&mut route_filters)?;
                continue;
            }
            let common = CommonFilter {
                kind: &filter.type_,
                request: filter.request_header_modifier.as_ref(),
                response: filter.response_header_modifier.as_ref(),
                mirror: filter.request_mirror.as_ref(),
            };
            self.add_common(&common, &mut route_filters)?;
        }
        Ok(route_filters)
    }

    /// Adds a filter that both kinds of routes have; a mirror with an invalid reference is dropped.
    fn add_common(
        &mut self,
        filter: &CommonFilter<'_>,
        route_filters: &mut RouteFilters,
    ) -> Result<(), Fault> {
        match filter.kind {
            "RequestHeaderModifier" => {
                route_filters
                    .request
                    .push(RequestEdit::Headers(header_edit(filter.required_value(filter.request)?)?));
            }
            "ResponseHeaderModifier" => {
                route_filters.reply.push(header_edit(filter.required_value(filter.response)?)?);
            }
            "RequestMirror" => {
                route_filters.mirrors.extend(self.mirror(filter.required_value(filter.mirror)?)?);
            }
            other => return Err(unsupported(format!("the filter {other} is not supported"))),
        }
        Ok(())
    }

    fn mirror(&mut self, filter: &HttpRequestMirrorFilter) -> Result<Option<Mirror>, Fault> {
        let (numerator, denominator) = match (&filter.fraction, filter.percent) {
            (Some(Fraction { numerator, denominator }), _) => (*numerator, denominator.unwrap_or(100)),
            (None, Some(percent)) => (percent, 100),
            (None, None) => (1, 1),
        };
        let share = (u32::try_from(numerator), u32::try_from(denominator));
        let (Ok(numerator), Ok(denominator @ 1..)) = share else {
            return Err(unsupported(format!("{numerator}/{denominator} is no part of the requests")));
        };
        let backend = (self.mirror)((&filter.backend_ref).into());
        let mirror = |backend| Mirror {
            backend,
            numerator,
            denominator,
            max_body: MAX_MIRRORED_BODY,
            target: MirrorTarget::Forwarded,
            host: None,
        };
        Ok(backend.map(mirror))
    }

    fn redirect(&self, spec: &HttpRequestRedirectFilter) -> Result<Redirect, Fault> {
        let status = spec.status_code.unwrap_or(302);
        let Some(status) = u16::try_from(status).ok().filter(|it| matches!(it, 301..=303 | 307 | 308)) else {
            return Err(unsupported(format!("{status} is no status of a redirect")));
        };
        if let Some(scheme) = spec.scheme.as_deref().filter(|scheme| !matches!(*scheme, "http" | "https")) {
            return Err(unsupported(format!("the scheme {scheme} is not known")));
        }
        let port =
            spec.port.map(|port| u16::try_from(port).map_err(|_| unsupported(format!("{port} is no port"))));
        let target = RedirectTarget::Parts {
            scheme: spec.scheme.as_deref().map(Into::into),
            host: spec.hostname.as_deref().map(precise_hostname).transpose()?,
            port: port.transpose()?,
            path: spec.path.as_ref().map(|path| self.path(path)).transpose()?,
            keep_query: true,
        };
        Ok(Redirect { status, target })
    }

    fn rewrite(&self, filter: &HttpUrlRewriteFilter, route_filters: &mut RouteFilters) -> Result<(), Fault> {
        route_filters
            .request
            .extend(filter.hostname.as_deref().map(precise_hostname).transpose()?.map(RequestEdit::Host));
        route_filters.path = filter.path.as_ref().map(|path| self.path(path)).transpose()?;
        Ok(())
    }

    fn path(&self, modifier: &HttpPathModifier) -> Result<PathRewrite, Fault> {
        match (&*modifier.type_, &modifier.replace_full_path, &modifier.replace_prefix_match) {
            ("ReplaceFullPath", Some(path), _) => Ok(PathRewrite::Full(check_path(path)?)),
            ("ReplacePrefixMatch", _, Some(_)) if !self.prefixes => {
                Err(unsupported("ReplacePrefixMatch needs matches of type PathPrefix".to_owned()))
            }
            ("ReplacePrefixMatch", _, Some(prefix)) => Ok(PathRewrite::Prefix(check_path(prefix)?)),
            (kind, _, _) => {
                Err(unsupported(format!("the path modifier {kind} is not known, or has no value")))
            }
        }
    }
}

/// A host in a header (Gateway API `PreciseHostname`).
fn precise_hostname(text: &str) -> Result<Arc<str>, Fault> {
    match HostPattern::parse(text, WildcardSpan::OneLabel) {
        Ok(HostPattern::Exact(_)) => Ok(text.into()),
        _ => Err(unsupported(format!("{text:?} is no name of a host"))),
    }
}

/// A path in a header or request line.
fn check_path(path: &str) -> Result<Arc<str>, Fault> {
    match path.bytes().any(|byte| byte.is_ascii_control()) {
        false => Ok(path.into()),
        true => Err(unsupported(format!("the path {path:?} has a control character"))),
    }
}

fn header_edit(filter: &HttpHeaderFilter) -> Result<HeaderEdit, Fault> {
    Ok(HeaderEdit {
        remove: filter.remove.iter().map(|name| name.to_ascii_lowercase().into()).collect(),
        set: header_fields(&filter.set)?,
        add: header_fields(&filter.add)?,
    })
}

/// Of several entries with the same case-insensitive name, the first counts (Gateway API `HTTPHeader.name`).
fn header_fields(entries: &[HttpHeader]) -> Result<Vec<HeaderField>, Fault> {
    let mut fields: Vec<HeaderField> = Vec::with_capacity(entries.len());
    for it in entries {
        if !fields.iter().any(|before| before.name.eq_ignore_ascii_case(&it.name)) {
            fields.push(header_field(it)?);
        }
    }
    Ok(fields)
}

/// RFC 9110 §5.1 and §5.5.
fn header_field(header: &HttpHeader) -> Result<HeaderField, Fault> {
    let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if header.name.is_empty() || !header.name.bytes().all(is_token) {
        return Err(unsupported(format!("\"{}\" is no name of a header", header.name)));
    }
    if header.value.bytes().any(|b| matches!(b, b'\r' | b'\n' | 0)) {
        return Err(unsupported(format!("the value of the header {} has more than one line", header.name)));
    }
    Ok(HeaderField { name: header.name.as_str().into(), value: header.value.as_str().into() })
}

fn cors(spec: &HttpCorsFilter) -> Result<Cors, Fault> {
    let credentials = spec.allow_credentials.unwrap_or(false);
    let joined = |list: &[String]| -> Arc<str> {
        match list.iter().any(|it| it == "*") {
            true => "*".into(),
            false => list.join(", ").into(),
        }
    };
    let expose = spec.expose_headers.iter().filter(|name| !(credentials && *name == "*")).cloned();
    let max_age =
        spec.max_age.map(|age| u32::try_from(age).map_err(|_| unsupported(format!("maxAge is {age}"))));
    Ok(Cors {
        origins: spec.allow_origins.iter().map(|origin| cors_origin(origin)).collect(),
        methods: joined(&spec.allow_methods),
        headers: joined(&spec.allow_headers),
        expose: joined(&expose.collect::<Vec<_>>()),
        credentials,
        max_age: max_age.transpose()?.unwrap_or(DEFAULT_CORS_MAX_AGE),
        manner: CorsMode::GatewayApi,
    })
}

/// Omits the scheme's default port, as browsers do (RFC 6454 §6.2).
fn cors_origin(text: &str) -> CorsOrigin {
    if text == "*" {
        return CorsOrigin::Any;
    }
    let default_ports = [("http://", ":80"), ("https://", ":443")];
    let default_port = default_ports.iter().find(|(scheme, _)| text.starts_with(scheme));
    let text = default_port.and_then(|(_, port)| text.strip_suffix(port)).unwrap_or(text);
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
        let read = FilterReader { named: None, mirror: &mut |_| Some("shop/copy:80".into()), prefixes }
            .read_http(filters);
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
    fn rejects_unknown_and_conflicting_filters() {
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
    fn rejects_hosts_and_paths_with_line_breaks() {
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
    fn the_first_of_case_insensitive_header_names_counts() {
        let header = |name: &str, value: &str| HttpHeader { name: name.into(), value: value.into() };
        let twice = vec![header("X-A", "1"), header("x-b", "2"), header("x-a", "3")];
        let both = HttpHeaderFilter { set: twice.clone(), add: twice, ..HttpHeaderFilter::default() };
        let edit = header_edit(&both).unwrap();
        for fields in [&edit.set, &edit.add] {
            let names: Vec<_> = fields.iter().map(|it| (&*it.name, &*it.value)).collect();
            assert_eq!(names, [("X-A", "1"), ("x-b", "2")]);
        }
    }

    #[test]
    fn default_ports_of_origins_are_omitted() {
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
            assert_eq!(cors_origin(text), read, "{text}");
        }
    }

    #[test]
    fn parts_of_requests_are_mirrored() {
        let mirror = |fraction: Option<(i32, Option<i32>)>, percent| HttpRequestMirrorFilter {
            fraction: fraction.map(|(numerator, denominator)| Fraction { numerator, denominator }),
            percent,
            ..HttpRequestMirrorFilter::default()
        };
        for (filter, share) in [
            (mirror(None, None), Some((1, 1))),
            (mirror(None, Some(20)), Some((20, 100))),
            (mirror(Some((1, Some(8))), None), Some((1, 8))),
            (mirror(Some((5, None)), None), Some((5, 100))),
            (mirror(Some((1, Some(0))), None), None),
        ] {
            let mirror = &mut |_: BackendReference<'_>| Some("shop/copy:80".into());
            let mut reader = FilterReader { named: None, mirror, prefixes: true };
            let found = match reader.mirror(&filter) {
                Ok(Some(it)) => Some((it.numerator, it.denominator)),
                _ => None,
            };
            assert_eq!(found, share);
        }
    }
}
