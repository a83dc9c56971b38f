//! HTTPRouteFilters: what they say, in values of the model, and what of it cannot be used. Rules name them by `extensionRef`.

use std::sync::Arc;

use fairway_model::{
    ChosenFields, Content, FieldTemplate, Manner, PathRewrite, RequestEdit, Respond, RouteFilters, Template,
    request_parts,
};
use fairway_objects::annotations::is_of_the_hop;
use fairway_objects::gateway_api::LocalObjectReference;
use fairway_objects::object::{Kind, ObjectKey};
use fairway_objects::policies::{
    DirectResponse, GROUP, HeaderValues, NamedValue, PathSubstitution, RouteFilterSpec,
};
use fairway_pattern::budget::Account;
use fairway_pattern::{Anchor, Cost, Finder, Pattern, has_alternatives};

use crate::condition::Fault;
use crate::policies::Wrong;

/// The largest body of a direct response, in bytes.
const MAX_BODY: usize = 8 << 10;
/// How many headers a list of a filter may have (Gateway API `HTTPHeaderFilter`).
const MAX_HEADERS: usize = 16;
/// The longest value of a header as it is written, in bytes.
const MAX_VALUE: usize = 4 << 10;

/// What a filter does.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RuleFilter {
    respond: Option<Arc<Respond>>,
    path: Option<PathRewrite>,
    prefix: Option<RequestEdit>,
    request: Vec<Arc<ChosenFields>>,
    response: Vec<Arc<ChosenFields>>,
}

/// Whether a reference names a filter of this kind.
pub(crate) fn is_filter(reference: &LocalObjectReference) -> bool {
    reference.group == GROUP && reference.kind == Kind::RouteFilter.name()
}

impl RuleFilter {
    /// Reads a filter; `account` is that of the route which names it.
    ///
    /// # Errors
    /// The first value that cannot be used.
    pub(crate) fn read(
        key: &ObjectKey,
        spec: &RouteFilterSpec,
        account: &mut Account,
    ) -> Result<Self, Wrong> {
        let origin: Arc<str> = format!("{} {key}", Kind::RouteFilter.name()).into();
        let RouteFilterSpec {
            direct_response,
            path_rewrite,
            forwarded_prefix,
            request_headers,
            response_headers,
        } = spec;
        let mut rewrite = |field: &str, of: &Option<PathSubstitution>| {
            of.as_ref().map(|of| substitution(field, of, account)).transpose()
        };
        let filter = Self {
            path: rewrite("spec.pathRewrite", path_rewrite)?,
            prefix: rewrite("spec.forwardedPrefix", forwarded_prefix)?.map(RequestEdit::ForwardedPrefix),
            respond: direct_response.as_ref().map(|of| respond(of, &origin)).transpose()?.map(Arc::new),
            request: fields("spec.requestHeaders", request_headers.as_ref(), &origin)?,
            response: fields("spec.responseHeaders", response_headers.as_ref(), &origin)?,
        };
        match filter == Self::default() {
            true => Err(Wrong::new("spec", "it does nothing")),
            false => Ok(filter),
        }
    }

    /// Does what the filter does as well, in an HTTPRoute.
    ///
    /// # Errors
    /// What it cannot be combined with.
    pub(crate) fn add_to(&self, made: &mut RouteFilters) -> Result<(), Fault> {
        let incompatible = |problem: &str| Err(Fault::new("IncompatibleFilters", problem));
        if self.respond.is_some() && (made.respond.is_some() || made.redirect.is_some()) {
            return incompatible("directResponse excludes another one and RequestRedirect in a rule");
        }
        if self.path.is_some() && (made.path.is_some() || made.redirect.is_some()) {
            return incompatible(
                "pathRewrite excludes another one, the path of URLRewrite and RequestRedirect in a rule",
            );
        }
        made.respond = made.respond.take().or_else(|| self.respond.clone());
        made.path = made.path.take().or_else(|| self.path.clone());
        made.request.extend(self.prefix.clone());
        self.add_headers_to(made);
        Ok(())
    }

    /// The same in a GRPCRoute.
    ///
    /// # Errors
    /// It does more than to change headers.
    pub(crate) fn add_to_calls(&self, made: &mut RouteFilters) -> Result<(), Fault> {
        if self.respond.is_some() || self.path.is_some() || self.prefix.is_some() {
            let problem = "an HTTPRouteFilter of a GRPCRoute has requestHeaders and responseHeaders only";
            return Err(Fault::new("UnsupportedValue", problem));
        }
        self.add_headers_to(made);
        Ok(())
    }

    fn add_headers_to(&self, made: &mut RouteFilters) {
        made.fields.extend(self.request.iter().cloned());
        made.answer_fields.extend(self.response.iter().cloned());
    }
}

fn respond(of: &DirectResponse, origin: &Arc<str>) -> Result<Respond, Wrong> {
    let at = |field: &str| format!("spec.directResponse.{field}");
    let status = of.status_code.unwrap_or(200);
    let status = u16::try_from(status).ok().filter(|it| (200..=599).contains(it));
    let status = status
        .ok_or_else(|| Wrong::new(at("statusCode"), "it is no status of a response from 200 to 599"))?;
    let body = of.body.as_deref().unwrap_or_default();
    if body.len() > MAX_BODY {
        return Err(Wrong::new(at("body"), format!("it has more than {MAX_BODY} bytes")));
    }
    if matches!(status, 204 | 205 | 304) && (!body.is_empty() || of.content_type.is_some()) {
        return Err(Wrong::new(at("body"), format!("a response with status {status} has no body")));
    }
    if let Some(problem) = of.content_type.as_deref().and_then(problem_of_value) {
        return Err(Wrong::new(at("contentType"), problem));
    }
    let usual = || (!body.is_empty()).then_some("text/plain; charset=utf-8");
    let media_type = of.content_type.as_deref().or_else(usual).map(Into::into);
    let content = Content::Fixed { body: body.into(), media_type };
    Ok(Respond { origin: origin.clone(), when: Vec::new(), status, content, of_host: None, max_body: None })
}

/// Takes the place of the rewrite of ingress-nginx, except that all alternatives of a pattern are looked for at the start of the path.
fn substitution(field: &str, of: &PathSubstitution, account: &mut Account) -> Result<PathRewrite, Wrong> {
    let PathSubstitution { pattern, substitution, ignore_case } = of;
    let ignore_case = ignore_case.unwrap_or_default();
    if pattern.is_empty() {
        return Err(Wrong::new(format!("{field}.pattern"), "it is empty"));
    }
    if field == "spec.forwardedPrefix" && !has_captures(substitution) {
        let problem =
            "it has none of $1 to $9; requestHeaders can set X-Forwarded-Prefix to the same for all requests";
        return Err(Wrong::new(format!("{field}.substitution"), problem));
    }
    if substitution.len() > MAX_VALUE || substitution.bytes().any(|b| b.is_ascii_control()) {
        let problem = format!("it has a control character, or more than {MAX_VALUE} bytes");
        return Err(Wrong::new(format!("{field}.substitution"), problem));
    }
    let anchored = match has_alternatives(pattern) {
        true => format!("(?:{pattern})"),
        false => pattern.clone(),
    };
    let compiled = Pattern::shared(&anchored, Anchor::Start, ignore_case)
        .and_then(|pattern| Ok((pattern.cost(), Finder::shared(&anchored, ignore_case)?.cost())));
    let admitted = match compiled {
        Ok((one, other)) => {
            let cost = Cost { steps: 0, memory: one.memory + other.memory, work: one.work + other.work };
            account.admit(cost).map_err(|exceeded| format!("the regular expression \"{pattern}\" {exceeded}"))
        }
        Err(refusal) => {
            account.refused(refusal.work());
            Err(format!("the regular expression \"{pattern}\" {refusal}"))
        }
    };
    admitted.map_err(|problem| Wrong::new(format!("{field}.pattern"), problem))?;
    Ok(PathRewrite::Regex {
        pattern: anchored.into(),
        replacement: substitution.as_str().into(),
        ignore_case,
    })
}

fn has_captures(substitution: &str) -> bool {
    substitution.split('$').skip(1).any(|behind| behind.starts_with(|c: char| ('1'..='9').contains(&c)))
}

/// What is removed and set, then what is added.
fn fields(
    field: &str,
    of: Option<&HeaderValues>,
    origin: &Arc<str>,
) -> Result<Vec<Arc<ChosenFields>>, Wrong> {
    let Some(HeaderValues { set, add, remove }) = of else { return Ok(Vec::new()) };
    for (list, length) in [("set", set.len()), ("add", add.len()), ("remove", remove.len())] {
        if length > MAX_HEADERS {
            let problem = format!("it has more than {MAX_HEADERS} headers");
            return Err(Wrong::new(format!("{field}.{list}"), problem));
        }
    }
    let mut replaced = Vec::with_capacity(remove.len() + set.len());
    for (index, name) in remove.iter().enumerate() {
        let at = format!("{field}.remove[{index}]");
        replaced.push(FieldTemplate { name: header_name(&at, name)?, value: Template::default() });
    }
    for (index, of) in set.iter().enumerate() {
        let at = format!("{field}.set[{index}]");
        if set[..index].iter().any(|before| before.name.eq_ignore_ascii_case(&of.name)) {
            return Err(Wrong::new(format!("{at}.name"), format!("{} is set twice", of.name)));
        }
        replaced.push(header(&at, of)?);
    }
    let added = add.iter().enumerate().map(|(index, of)| header(&format!("{field}.add[{index}]"), of));
    let chosen = |manner, fields: Vec<FieldTemplate>| {
        let of =
            ChosenFields { origin: origin.clone(), when: Vec::new(), statuses: Vec::new(), manner, fields };
        (!of.fields.is_empty()).then(|| Arc::new(of))
    };
    let chosen = [chosen(Manner::Set, replaced), chosen(Manner::Add, added.collect::<Result<_, _>>()?)];
    Ok(chosen.into_iter().flatten().collect())
}

fn header(at: &str, of: &NamedValue) -> Result<FieldTemplate, Wrong> {
    let name = header_name(&format!("{at}.name"), &of.name)?;
    let wrong = |problem: String| Wrong::new(format!("{at}.value"), problem);
    if let Some(problem) = problem_of_value(&of.value) {
        return Err(wrong(problem));
    }
    let value = request_parts::template(&of.value).map_err(|problem| wrong(format!("it {problem}")))?;
    Ok(FieldTemplate { name, value })
}

/// RFC 9110 §5.1. What says where a message ends or what becomes of the connection is the proxy's own, and there is one `Host`.
fn header_name(at: &str, name: &str) -> Result<Arc<str>, Wrong> {
    let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err(Wrong::new(at, format!("\"{name}\" is no name of a header")));
    }
    if is_of_the_hop(name) {
        let instead = if name.eq_ignore_ascii_case("host") { "; URLRewrite sets it" } else { "" };
        return Err(Wrong::new(at, format!("{name} is the proxy's own and cannot be changed{instead}")));
    }
    Ok(name.into())
}

/// RFC 9110 §5.5: visible characters, with spaces and tabs between them.
fn problem_of_value(value: &str) -> Option<String> {
    let is_of_value = |b: u8| b == b'\t' || (b >= b' ' && b != 0x7f);
    if value.is_empty() {
        return Some("it is empty".to_owned());
    }
    if value.len() > MAX_VALUE {
        return Some(format!("it has more than {MAX_VALUE} bytes"));
    }
    let is_value = value.bytes().all(is_of_value) && value.trim_matches([' ', '\t']) == value;
    (!is_value).then(|| {
        "it has a line break or another control character, or begins or ends with a space".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use fairway_model::{Redirect, RedirectTarget, TemplatePart};
    use serde_json::{Value, json};

    use super::*;

    fn read(spec: Value) -> Result<RuleFilter, Wrong> {
        let spec: RouteFilterSpec = serde_json::from_value(spec).expect("a spec");
        RuleFilter::read(&ObjectKey::new("shop", "x"), &spec, &mut Account::default())
    }

    #[test]
    fn headers_are_removed_and_set_before_they_are_added() {
        let filter = read(json!({"requestHeaders": {
            "add": [{"name": "X-B", "value": "b"}],
            "set": [{"name": "X-A", "value": "{client.address}"}],
            "remove": ["X-C"],
        }}))
        .unwrap();
        let [replaced, added] = &*filter.request else { panic!("{filter:?}") };
        assert_eq!((replaced.manner, added.manner), (Manner::Set, Manner::Add));
        let named: Vec<_> = replaced.fields.iter().map(|field| (&*field.name, &*field.value.0)).collect();
        assert_eq!(named, [("X-C", &[][..]), ("X-A", &[TemplatePart::Address])]);
    }

    #[test]
    fn a_body_has_a_type_and_a_status() {
        let responds = |spec: Value| read(json!({"directResponse": spec})).unwrap().respond.unwrap();
        let fixed = |body: &str, media_type: Option<&str>| Content::Fixed {
            body: body.into(),
            media_type: media_type.map(Into::into),
        };
        let plain = responds(json!({"body": "no"}));
        assert_eq!((plain.status, &plain.content), (200, &fixed("no", Some("text/plain; charset=utf-8"))));
        let empty = responds(json!({"statusCode": 204}));
        assert_eq!((empty.status, &empty.content), (204, &fixed("", None)));
        let html = responds(json!({"statusCode": 503, "contentType": "text/html", "body": "<p>"}));
        assert_eq!((html.status, &html.content), (503, &fixed("<p>", Some("text/html"))));
    }

    #[test]
    fn all_alternatives_are_looked_for_at_the_start() {
        let rewritten =
            |pattern: &str| match read(json!({"pathRewrite": {"pattern": pattern, "substitution": "/$1"}})) {
                Ok(RuleFilter { path: Some(PathRewrite::Regex { pattern, .. }), .. }) => pattern,
                other => panic!("{other:?}"),
            };
        assert_eq!(&*rewritten("/a(/|$)(.*)"), "/a(/|$)(.*)");
        assert_eq!(&*rewritten("/a/(.*)|/b/(.*)"), "(?:/a/(.*)|/b/(.*))");
    }

    #[test]
    fn what_cannot_be_used_names_its_field() {
        let set =
            |name: &str, value: &str| json!({"requestHeaders": {"set": [{"name": name, "value": value}]}});
        let path = |pattern: &str, to: &str| json!({"pathRewrite": {"pattern": pattern, "substitution": to}});
        let many: Vec<_> = (0..17).map(|at| format!("X-{at}")).collect();
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
            (json!({"responseHeaders": {"remove": many}}), "spec.responseHeaders.remove"),
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
    fn a_response_excludes_a_redirect_and_calls_have_headers_only() {
        let responds = read(json!({"directResponse": {}})).unwrap();
        let rewrites = read(json!({"pathRewrite": {"pattern": "/(.*)", "substitution": "/a/$1"}})).unwrap();
        let sets = read(json!({"responseHeaders": {"set": [{"name": "X-A", "value": "1"}]}})).unwrap();
        let redirect = Redirect { status: 302, target: RedirectTarget::Host("a.test".into()) };
        let redirected = RouteFilters { redirect: Some(redirect), ..RouteFilters::default() };
        for filter in [&responds, &rewrites] {
            let fault = filter.add_to(&mut redirected.clone()).unwrap_err();
            assert_eq!(fault.reason, "IncompatibleFilters");
            let mut made = RouteFilters::default();
            filter.add_to(&mut made).unwrap();
            assert_eq!(filter.add_to(&mut made).unwrap_err().reason, "IncompatibleFilters");
            assert_eq!(filter.add_to_calls(&mut made).unwrap_err().reason, "UnsupportedValue");
        }
        let mut made = redirected;
        sets.add_to(&mut made).unwrap();
        sets.add_to_calls(&mut made).unwrap();
        assert_eq!(made.answer_fields.len(), 2);
    }
}
