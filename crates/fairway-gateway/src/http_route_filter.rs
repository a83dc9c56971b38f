//! Translates HTTPRouteFilters, Fairway's own filter resource, which route rules reference by `extensionRef`.

use std::sync::Arc;

use fairway_model::{
    ConditionalHeaders, ConditionalResponse, HeaderOperation, HeaderTemplate, PathRewrite, RequestEdit,
    ResponseContent, RouteFilters, Template, request_parts,
};
use fairway_objects::annotations::is_hop_header;
use fairway_objects::gateway_api::LocalObjectReference;
use fairway_objects::object::{Kind, ObjectKey};
use fairway_objects::policies::{
    DirectResponse, GROUP, HeaderValues, NamedValue, PathSubstitution, RouteFilterSpec,
};
use fairway_pattern::budget::Account;
use fairway_pattern::{Anchor, Cost, Finder, Pattern, has_alternatives};

use crate::condition::Fault;
use crate::policies::PolicyError;

/// Maximum body of a direct response, in bytes.
const MAX_BODY_BYTES: usize = 8 << 10;
/// Maximum number of headers in a `set`, `add` or `remove` list, as in Gateway API `HTTPHeaderFilter`.
const MAX_HEADERS_PER_LIST: usize = 16;
/// Maximum length of a header value or path substitution in bytes, before parts of the request are inserted.
const MAX_VALUE_BYTES: usize = 4 << 10;

/// A translated HTTPRouteFilter, which can be added to the filters of a rule.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RuleFilter {
    respond: Option<Arc<ConditionalResponse>>,
    path: Option<PathRewrite>,
    prefix: Option<RequestEdit>,
    request: Vec<Arc<ConditionalHeaders>>,
    response: Vec<Arc<ConditionalHeaders>>,
}

/// Whether a reference names an HTTPRouteFilter.
pub(crate) fn is_filter(reference: &LocalObjectReference) -> bool {
    reference.group == GROUP && reference.kind == Kind::RouteFilter.name()
}

impl RuleFilter {
    /// Translates the spec of the HTTPRouteFilter `key`. Its regular expressions count towards `account`, the budget
    /// of the route that references the filter.
    ///
    /// # Errors
    /// Returns the first invalid field, or an error for `spec` if the filter has no effect.
    pub(crate) fn read(
        key: &ObjectKey,
        spec: &RouteFilterSpec,
        account: &mut Account,
    ) -> Result<Self, PolicyError> {
        let origin: Arc<str> = format!("{} {key}", Kind::RouteFilter.name()).into();
        let RouteFilterSpec {
            direct_response,
            path_rewrite,
            forwarded_prefix,
            request_headers,
            response_headers,
        } = spec;
        let mut rewrite = |field: &str, optional: &Option<PathSubstitution>| {
            optional.as_ref().map(|spec| read_path_rewrite(field, spec, account)).transpose()
        };
        let filter = Self {
            path: rewrite("spec.pathRewrite", path_rewrite)?,
            prefix: rewrite("spec.forwardedPrefix", forwarded_prefix)?.map(RequestEdit::ForwardedPrefix),
            respond: direct_response
                .as_ref()
                .map(|response| read_direct_response(response, &origin))
                .transpose()?
                .map(Arc::new),
            request: conditional_headers("spec.requestHeaders", request_headers.as_ref(), &origin)?,
            response: conditional_headers("spec.responseHeaders", response_headers.as_ref(), &origin)?,
        };
        match filter == Self::default() {
            true => Err(PolicyError::new("spec", "it does nothing")),
            false => Ok(filter),
        }
    }

    /// Adds this filter to the filters of an HTTPRoute rule.
    ///
    /// # Errors
    /// Returns `IncompatibleFilters` if `filters` already contain a direct response, a path rewrite or a redirect
    /// that cannot be combined with this filter.
    pub(crate) fn add_to(&self, filters: &mut RouteFilters) -> Result<(), Fault> {
        let incompatible = |problem: &str| Err(Fault::new("IncompatibleFilters", problem));
        if self.respond.is_some() && (filters.respond.is_some() || filters.redirect.is_some()) {
            return incompatible("directResponse excludes another one and RequestRedirect in a rule");
        }
        if self.path.is_some() && (filters.path.is_some() || filters.redirect.is_some()) {
            return incompatible(
                "pathRewrite excludes another one, the path of URLRewrite and RequestRedirect in a rule",
            );
        }
        filters.respond = filters.respond.take().or_else(|| self.respond.clone());
        filters.path = filters.path.take().or_else(|| self.path.clone());
        filters.request.extend(self.prefix.clone());
        self.add_headers_to(filters);
        Ok(())
    }

    /// Adds this filter to the filters of a GRPCRoute rule.
    ///
    /// # Errors
    /// Returns `UnsupportedValue` if this filter does anything other than change headers.
    pub(crate) fn add_to_grpc(&self, filters: &mut RouteFilters) -> Result<(), Fault> {
        if self.respond.is_some() || self.path.is_some() || self.prefix.is_some() {
            let problem = "an HTTPRouteFilter of a GRPCRoute has requestHeaders and responseHeaders only";
            return Err(Fault::new("UnsupportedValue", problem));
        }
        self.add_headers_to(filters);
        Ok(())
    }

    fn add_headers_to(&self, filters: &mut RouteFilters) {
        filters.fields.extend(self.request.iter().cloned());
        filters.conditional_response_headers.extend(self.response.iter().cloned());
    }
}

fn read_direct_response(
    spec: &DirectResponse,
    origin: &Arc<str>,
) -> Result<ConditionalResponse, PolicyError> {
    let field_path = |field: &str| format!("spec.directResponse.{field}");
    let status = spec.status_code.unwrap_or(200);
    let status = u16::try_from(status).ok().filter(|status| (200..=599).contains(status));
    let status = status.ok_or_else(|| {
        PolicyError::new(field_path("statusCode"), "it is no status of a response from 200 to 599")
    })?;
    let body = spec.body.as_deref().unwrap_or_default();
    if body.len() > MAX_BODY_BYTES {
        return Err(PolicyError::new(field_path("body"), format!("it has more than {MAX_BODY_BYTES} bytes")));
    }
    if matches!(status, 204 | 205 | 304) && (!body.is_empty() || spec.content_type.is_some()) {
        let problem = format!("a response with status {status} has no body");
        return Err(PolicyError::new(field_path("body"), problem));
    }
    if let Some(problem) = spec.content_type.as_deref().and_then(value_problem) {
        return Err(PolicyError::new(field_path("contentType"), problem));
    }
    let default_media_type = || (!body.is_empty()).then_some("text/plain; charset=utf-8");
    let media_type = spec.content_type.as_deref().or_else(default_media_type).map(Into::into);
    let content = ResponseContent::Fixed { body: body.into(), media_type };
    Ok(ConditionalResponse {
        origin: origin.clone(),
        when: Vec::new(),
        status,
        content,
        host_headers: None,
        max_body: None,
    })
}

/// Translates a path substitution. It works like `rewrite-target` of ingress-nginx, except that every alternative of
/// the pattern is anchored at the start of the path.
fn read_path_rewrite(
    field: &str,
    spec: &PathSubstitution,
    account: &mut Account,
) -> Result<PathRewrite, PolicyError> {
    let PathSubstitution { pattern, substitution, ignore_case } = spec;
    let ignore_case = ignore_case.unwrap_or_default();
    if pattern.is_empty() {
        return Err(PolicyError::new(format!("{field}.pattern"), "it is empty"));
    }
    if field == "spec.forwardedPrefix" && !has_captures(substitution) {
        let problem =
            "it has none of $1 to $9; requestHeaders can set X-Forwarded-Prefix to the same for all requests";
        return Err(PolicyError::new(format!("{field}.substitution"), problem));
    }
    if substitution.len() > MAX_VALUE_BYTES || substitution.bytes().any(|b| b.is_ascii_control()) {
        let problem = format!("it has a control character, or more than {MAX_VALUE_BYTES} bytes");
        return Err(PolicyError::new(format!("{field}.substitution"), problem));
    }
    let anchored = match has_alternatives(pattern) {
        true => format!("(?:{pattern})"),
        false => pattern.clone(),
    };
    let costs = Pattern::shared(&anchored, Anchor::Start, ignore_case)
        .and_then(|pattern| Ok((pattern.cost(), Finder::shared(&anchored, ignore_case)?.cost())));
    let admitted = match costs {
        Ok((matching, finding)) => {
            let memory = matching.memory + finding.memory;
            let cost = Cost { steps: 0, memory, work: matching.work + finding.work };
            account.admit(cost).map_err(|exceeded| format!("the regular expression \"{pattern}\" {exceeded}"))
        }
        Err(refusal) => {
            account.refused(refusal.work());
            Err(format!("the regular expression \"{pattern}\" {refusal}"))
        }
    };
    admitted.map_err(|problem| PolicyError::new(format!("{field}.pattern"), problem))?;
    Ok(PathRewrite::Regex {
        pattern: anchored.into(),
        replacement: substitution.as_str().into(),
        ignore_case,
    })
}

/// Whether a substitution refers to a capture group, `$1` to `$9`.
fn has_captures(substitution: &str) -> bool {
    substitution.split('$').skip(1).any(|after| after.starts_with(|c: char| ('1'..='9').contains(&c)))
}

/// Translates header changes: first the headers to remove or set, then the headers to add.
fn conditional_headers(
    field: &str,
    spec: Option<&HeaderValues>,
    origin: &Arc<str>,
) -> Result<Vec<Arc<ConditionalHeaders>>, PolicyError> {
    let Some(HeaderValues { set, add, remove }) = spec else { return Ok(Vec::new()) };
    for (list, length) in [("set", set.len()), ("add", add.len()), ("remove", remove.len())] {
        if length > MAX_HEADERS_PER_LIST {
            let problem = format!("it has more than {MAX_HEADERS_PER_LIST} headers");
            return Err(PolicyError::new(format!("{field}.{list}"), problem));
        }
    }
    // Setting a header to an empty template removes it.
    let mut replaced = Vec::with_capacity(remove.len() + set.len());
    for (index, name) in remove.iter().enumerate() {
        let name_field = format!("{field}.remove[{index}]");
        replaced.push(HeaderTemplate { name: header_name(&name_field, name)?, value: Template::default() });
    }
    for (index, header) in set.iter().enumerate() {
        let header_field = format!("{field}.set[{index}]");
        if set[..index].iter().any(|earlier| earlier.name.eq_ignore_ascii_case(&header.name)) {
            let problem = format!("{} is set twice", header.name);
            return Err(PolicyError::new(format!("{header_field}.name"), problem));
        }
        replaced.push(header_template(&header_field, header)?);
    }
    let added = add
        .iter()
        .enumerate()
        .map(|(index, header)| header_template(&format!("{field}.add[{index}]"), header));
    let unless_empty = |operation, fields: Vec<HeaderTemplate>| {
        let headers = ConditionalHeaders {
            origin: origin.clone(),
            when: Vec::new(),
            statuses: Vec::new(),
            operation,
            fields,
        };
        (!headers.fields.is_empty()).then(|| Arc::new(headers))
    };
    let changes = [
        unless_empty(HeaderOperation::Set, replaced),
        unless_empty(HeaderOperation::Add, added.collect::<Result<_, _>>()?),
    ];
    Ok(changes.into_iter().flatten().collect())
}

fn header_template(field: &str, spec: &NamedValue) -> Result<HeaderTemplate, PolicyError> {
    let name = header_name(&format!("{field}.name"), &spec.name)?;
    let value_error = |problem: String| PolicyError::new(format!("{field}.value"), problem);
    if let Some(problem) = value_problem(&spec.value) {
        return Err(value_error(problem));
    }
    let value =
        request_parts::parse_template(&spec.value).map_err(|problem| value_error(format!("it {problem}")))?;
    Ok(HeaderTemplate { name, value })
}

/// Checks that `name` is a header name (RFC 9110 §5.1) and that routes may change the header. Only the proxy changes
/// headers that frame the message or control the connection, and `Host`, which a message has only once.
fn header_name(field: &str, name: &str) -> Result<Arc<str>, PolicyError> {
    let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err(PolicyError::new(field, format!("\"{name}\" is no name of a header")));
    }
    if is_hop_header(name) {
        let alternative = if name.eq_ignore_ascii_case("host") { "; URLRewrite sets it" } else { "" };
        return Err(PolicyError::new(
            field,
            format!("{name} is the proxy's own and cannot be changed{alternative}"),
        ));
    }
    Ok(name.into())
}

/// Returns why `value` is no header value, if so. A header value has visible characters, with spaces and tabs only
/// between them (RFC 9110 §5.5).
fn value_problem(value: &str) -> Option<String> {
    let is_value_byte = |b: u8| b == b'\t' || (b >= b' ' && b != 0x7f);
    if value.is_empty() {
        return Some("it is empty".to_owned());
    }
    if value.len() > MAX_VALUE_BYTES {
        return Some(format!("it has more than {MAX_VALUE_BYTES} bytes"));
    }
    let is_value = value.bytes().all(is_value_byte) && value.trim_matches([' ', '\t']) == value;
    (!is_value).then(|| {
        "it has a line break or another control character, or begins or ends with a space".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use fairway_model::{Redirect, RedirectTarget, TemplatePart};
    use serde_json::{Value, json};

    use super::*;

    fn read(spec: Value) -> Result<RuleFilter, PolicyError> {
        let spec: RouteFilterSpec = serde_json::from_value(spec).expect("a valid HTTPRouteFilter spec");
        RuleFilter::read(&ObjectKey::new("shop", "x"), &spec, &mut Account::default())
    }

    #[test]
    fn headers_are_removed_and_set_before_others_are_added() {
        let filter = read(json!({"requestHeaders": {
            "add": [{"name": "X-B", "value": "b"}],
            "set": [{"name": "X-A", "value": "{client.address}"}],
            "remove": ["X-C"],
        }}))
        .unwrap();
        let [replaced, added] = &*filter.request else { panic!("{filter:?}") };
        assert_eq!((replaced.operation, added.operation), (HeaderOperation::Set, HeaderOperation::Add));
        let changes: Vec<_> = replaced.fields.iter().map(|field| (&*field.name, &*field.value.0)).collect();
        assert_eq!(changes, [("X-C", &[][..]), ("X-A", &[TemplatePart::Address])]);
    }

    #[test]
    fn a_direct_response_has_default_status_and_media_type() {
        let read_response = |spec: Value| read(json!({"directResponse": spec})).unwrap().respond.unwrap();
        let fixed = |body: &str, media_type: Option<&str>| ResponseContent::Fixed {
            body: body.into(),
            media_type: media_type.map(Into::into),
        };
        let plain = read_response(json!({"body": "no"}));
        assert_eq!((plain.status, &plain.content), (200, &fixed("no", Some("text/plain; charset=utf-8"))));
        let empty = read_response(json!({"statusCode": 204}));
        assert_eq!((empty.status, &empty.content), (204, &fixed("", None)));
        let html = read_response(json!({"statusCode": 503, "contentType": "text/html", "body": "<p>"}));
        assert_eq!((html.status, &html.content), (503, &fixed("<p>", Some("text/html"))));
    }

    #[test]
    fn all_alternatives_of_a_pattern_are_anchored() {
        let anchored_pattern =
            |pattern: &str| match read(json!({"pathRewrite": {"pattern": pattern, "substitution": "/$1"}})) {
                Ok(RuleFilter { path: Some(PathRewrite::Regex { pattern, .. }), .. }) => pattern,
                other => panic!("{other:?}"),
            };
        assert_eq!(&*anchored_pattern("/a(/|$)(.*)"), "/a(/|$)(.*)");
        assert_eq!(&*anchored_pattern("/a/(.*)|/b/(.*)"), "(?:/a/(.*)|/b/(.*))");
    }

    #[test]
    fn an_error_names_the_invalid_field() {
        let set =
            |name: &str, value: &str| json!({"requestHeaders": {"set": [{"name": name, "value": value}]}});
        let path = |pattern: &str, substitution: &str| {
            let path_rewrite = json!({"pattern": pattern, "substitution": substitution});
            json!({"pathRewrite": path_rewrite})
        };
        let too_many: Vec<_> = (0..17).map(|index| format!("X-{index}")).collect();
        for (spec, field) in [
            (json!({}), "spec"),
            (json!({"requestHeaders": {}}), "spec"),
            (json!({"directResponse": {"statusCode": 199}}), "spec.directResponse.statusCode"),
            (json!({"directResponse": {"statusCode": 600}}), "spec.directResponse.statusCode"),
            (json!({"directResponse": {"statusCode": 204, "body": "x"}}), "spec.directResponse.body"),
            (json!({"directResponse": {"body": "x".repeat(8193)}}), "spec.directResponse.body"),
            (json!({"directResponse": {"contentType": "a\r\nb: c"}}), "spec.directResponse.contentType"),
            (set("X-A", "{request.body}"), "spec.requestHeaders.set[0].value"),
            (set("X-A", "a\nb"), "spec.requestHeaders.set[0].value"),
            (set("X-A", ""), "spec.requestHeaders.set[0].value"),
            (set("X A", "a"), "spec.requestHeaders.set[0].name"),
            (set("host", "a"), "spec.requestHeaders.set[0].name"),
            (set("Content-Length", "1"), "spec.requestHeaders.set[0].name"),
            (json!({"responseHeaders": {"remove": ["Transfer-Encoding"]}}), "spec.responseHeaders.remove[0]"),
            (json!({"responseHeaders": {"remove": too_many}}), "spec.responseHeaders.remove"),
            (path("", "/"), "spec.pathRewrite.pattern"),
            (path("/(a", "/$1"), "spec.pathRewrite.pattern"),
            (path("/(([a-z]{1,200}){1,200}){1,200}", "/$1"), "spec.pathRewrite.pattern"),
            (path("/(.*)", "/\r\n$1"), "spec.pathRewrite.substitution"),
            (
                json!({"forwardedPrefix": {"pattern": "/a", "substitution": "/b"}}),
                "spec.forwardedPrefix.substitution",
            ),
        ] {
            assert_eq!(read(spec.clone()).unwrap_err().field, field, "{spec}");
        }
        let twice = json!([{"name": "X-A", "value": "1"}, {"name": "x-a", "value": "2"}]);
        let twice = read(json!({"responseHeaders": {"set": twice}})).unwrap_err();
        assert_eq!(
            (&*twice.field, &*twice.problem),
            ("spec.responseHeaders.set[1].name", "x-a is set twice")
        );
    }

    #[test]
    fn direct_response_and_path_rewrite_conflict_with_a_redirect_and_are_unsupported_for_grpc() {
        let direct_response = read(json!({"directResponse": {}})).unwrap();
        let path_rewrite =
            read(json!({"pathRewrite": {"pattern": "/(.*)", "substitution": "/a/$1"}})).unwrap();
        let header_change =
            read(json!({"responseHeaders": {"set": [{"name": "X-A", "value": "1"}]}})).unwrap();
        let redirect = Redirect { status: 302, target: RedirectTarget::Host("a.test".into()) };
        let redirected = RouteFilters { redirect: Some(redirect), ..RouteFilters::default() };
        for filter in [&direct_response, &path_rewrite] {
            let fault = filter.add_to(&mut redirected.clone()).unwrap_err();
            assert_eq!(fault.reason, "IncompatibleFilters");
            let mut filters = RouteFilters::default();
            filter.add_to(&mut filters).unwrap();
            assert_eq!(filter.add_to(&mut filters).unwrap_err().reason, "IncompatibleFilters");
            assert_eq!(filter.add_to_grpc(&mut filters).unwrap_err().reason, "UnsupportedValue");
        }
        let mut filters = redirected;
        header_change.add_to(&mut filters).unwrap();
        header_change.add_to_grpc(&mut filters).unwrap();
        assert_eq!(filters.conditional_response_headers.len(), 2);
    }
}
