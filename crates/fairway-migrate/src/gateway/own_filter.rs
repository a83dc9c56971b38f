//! Converts steps of a rule that need an HTTPRouteFilter: headers with parts of the request, fixed responses, and path rewrites by
//! regular expressions. HTTPRouteFilters are specific to Fairway; Gateways of other classes lose these steps.

use fairway_model::{
    ConditionalResponse, HeaderTemplate, PathRewrite, ResponseContent, RuleLabel, RuleLabels, Template,
    TemplatePart, request_parts,
};
use fairway_objects::annotations::is_hop_header;
use fairway_objects::policies::{
    DirectResponse, HeaderValues, NamedValue, PathSubstitution, RouteFilterSpec,
};
use fairway_pattern::has_alternatives;

/// Limits of an HTTPRouteFilter: headers per list, and size of a response body.
const MAX_HEADERS: usize = 16;
const MAX_BODY_BYTES: usize = 8 << 10;

/// What happens to existing headers with the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Headers {
    Replaced,
    Kept,
}

/// Adds a header; `false` if a filter cannot express it.
pub(crate) fn add_header(
    into: &mut Option<HeaderValues>,
    field: &HeaderTemplate,
    headers: Headers,
    labels: &RuleLabels,
) -> bool {
    let Some(value) = value(&field.value, labels) else { return false };
    let name = field.name.to_string();
    let is_full = into.as_ref().is_some_and(|path| match headers {
        Headers::Replaced => path.set.len().max(path.remove.len()) >= MAX_HEADERS,
        Headers::Kept => path.add.len() >= MAX_HEADERS,
    });
    if is_hop_header(&name) || is_full {
        return false;
    }
    let filter = into.get_or_insert_default();
    match (headers, value.is_empty()) {
        (Headers::Kept, true) => {}
        (Headers::Kept, false) => filter.add.push(NamedValue { name, value }),
        (Headers::Replaced, true) => filter.remove.push(name),
        (Headers::Replaced, false) => {
            filter.set.retain(|before| !before.name.eq_ignore_ascii_case(&name));
            filter.set.push(NamedValue { name, value });
        }
    }
    true
}

/// The value of a header in the syntax of the filter. Parts that are the same for all requests of the rule become text.
pub(crate) fn value(template: &Template, labels: &RuleLabels) -> Option<String> {
    let settled = |part: &TemplatePart| match part {
        TemplatePart::Label(label) => TemplatePart::Text(match label {
            RuleLabel::Namespace => labels.namespace.clone(),
            RuleLabel::Ingress => labels.ingress.clone(),
            RuleLabel::Service => labels.service.clone(),
            RuleLabel::ServicePort => labels.service_port.clone(),
        }),
        part => part.clone(),
    };
    request_parts::text(&Template(template.0.iter().map(settled).collect()))
}

/// A fixed response with its headers; `None` if a filter cannot express it.
pub(crate) fn response(
    conditional: &ConditionalResponse,
    labels: &RuleLabels,
) -> Option<(DirectResponse, Option<HeaderValues>)> {
    if !conditional.when.is_empty() || conditional.host_headers.is_some() {
        return None;
    }
    let mut response =
        DirectResponse { status_code: Some(conditional.status.into()), ..DirectResponse::default() };
    let mut headers = None;
    match &conditional.content {
        ResponseContent::Status | ResponseContent::Empty => {}
        ResponseContent::Text(text, media_type) => {
            let ([] | [TemplatePart::Text(_)]) = &*text.0 else { return None };
            let has_body = !matches!(conditional.status, 204 | 205 | 304);
            response.body = Some(text.to_string()).filter(|text| has_body && !text.is_empty());
            response.content_type = has_body.then(|| media_type.to_string());
        }
        ResponseContent::Fixed { body, media_type } => {
            response.body = Some(body.to_string()).filter(|body| !body.is_empty());
            response.content_type = media_type.as_ref().map(ToString::to_string);
        }
        ResponseContent::Location(url) => {
            let location = HeaderTemplate { name: "Location".into(), value: url.clone() };
            if !add_header(&mut headers, &location, Headers::Replaced, labels) {
                return None;
            }
        }
        ResponseContent::UnescapedLocation(_) | ResponseContent::Rewritten { .. } => return None,
    }
    let fits = response.body.as_ref().is_none_or(|body| body.len() <= MAX_BODY_BYTES);
    fits.then_some((response, headers))
}

/// A rewrite by a regular expression; `None` for several alternatives, because a filter anchors all of them at the start of the
/// path and ingress-nginx only the first.
pub(crate) fn substitution(rewrite: &PathRewrite) -> Option<PathSubstitution> {
    let PathRewrite::Regex { pattern, replacement, ignore_case } = rewrite else { return None };
    (!has_alternatives(pattern)).then(|| PathSubstitution {
        pattern: pattern.to_string(),
        substitution: replacement.to_string(),
        ignore_case: ignore_case.then_some(true),
    })
}

/// Whether a filter only changes headers, so that a GRPCRoute may use it.
pub(crate) fn has_headers_only(filter: &RouteFilterSpec) -> bool {
    filter.direct_response.is_none() && filter.path_rewrite.is_none() && filter.forwarded_prefix.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &str, parts: &[TemplatePart]) -> HeaderTemplate {
        HeaderTemplate { name: name.into(), value: Template(parts.to_vec()) }
    }

    #[test]
    fn labels_become_text_and_headers_beyond_the_filter_are_refused() {
        let labels = RuleLabels { service: "web".into(), ..RuleLabels::default() };
        let mut headers = None;
        let parts =
            [TemplatePart::Label(RuleLabel::Service), TemplatePart::Text(" ".into()), TemplatePart::Address];
        assert!(add_header(&mut headers, &field("X-A", &parts), Headers::Replaced, &labels));
        assert!(add_header(&mut headers, &field("X-B", &[]), Headers::Replaced, &labels));
        assert!(add_header(&mut headers, &field("X-C", &[TemplatePart::RequestId]), Headers::Kept, &labels));
        assert!(!add_header(&mut headers, &field("Host", &parts), Headers::Replaced, &labels));
        let named = |name: &str, value: &str| NamedValue { name: name.into(), value: value.into() };
        let expected = HeaderValues {
            set: vec![named("X-A", "web {client.address}")],
            add: vec![named("X-C", "{request.id}")],
            remove: vec!["X-B".to_owned()],
        };
        assert_eq!(headers, Some(expected));
    }

    #[test]
    fn a_response_is_fixed_and_its_location_may_have_parts() {
        let response_with = |content: ResponseContent| ConditionalResponse {
            origin: "x".into(),
            when: Vec::new(),
            status: 301,
            content,
            host_headers: None,
            max_body: None,
        };
        let url = Template(vec![TemplatePart::Text("https://new.test".into()), TemplatePart::RequestUri]);
        let (response, headers) =
            response(&response_with(ResponseContent::Location(url)), &RuleLabels::default()).unwrap();
        assert_eq!((response.status_code, response.body), (Some(301), None));
        assert_eq!(headers.unwrap().set[0].value, "https://new.test{request.uri}");
        let varying = ResponseContent::Text(Template(vec![TemplatePart::Host]), "text/plain".into());
        assert_eq!(super::response(&response_with(varying), &RuleLabels::default()), None);
    }

    #[test]
    fn a_pattern_with_alternatives_is_not_converted() {
        let rewrite_of = |pattern: &str| {
            substitution(&PathRewrite::Regex {
                pattern: pattern.into(),
                replacement: "/$1".into(),
                ignore_case: true,
            })
        };
        assert_eq!(rewrite_of("/(a|b)/(.*)").unwrap().ignore_case, Some(true));
        assert_eq!(rewrite_of("/a/(.*)|/b/(.*)"), None);
    }
}
