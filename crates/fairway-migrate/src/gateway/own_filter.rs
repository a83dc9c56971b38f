//! What a rule does that only an HTTPRouteFilter says: headers with parts of the request, fixed responses, paths by regular
//! expressions. It is Fairway's own; routes of Gateways of other classes lose these.

use fairway_model::{
    Content, FieldTemplate, PathRewrite, Respond, RuleLabel, RuleLabels, Template, TemplatePart,
    request_parts,
};
use fairway_objects::annotations::is_of_the_hop;
use fairway_objects::policies::{
    DirectResponse, HeaderValues, NamedValue, PathSubstitution, RouteFilterSpec,
};
use fairway_pattern::has_alternatives;

/// The most headers of a list, and the longest body of a response.
const MAX_HEADERS: usize = 16;
const MAX_BODY: usize = 8 << 10;

/// What becomes of headers that have a name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Headers {
    Replaced,
    Kept,
}

/// Adds a header; `false` where a filter cannot have it.
pub(crate) fn add_header(
    into: &mut Option<HeaderValues>,
    field: &FieldTemplate,
    headers: Headers,
    labels: &RuleLabels,
) -> bool {
    let Some(value) = value(&field.value, labels) else { return false };
    let name = field.name.to_string();
    let is_full = into.as_ref().is_some_and(|of| match headers {
        Headers::Replaced => of.set.len().max(of.remove.len()) >= MAX_HEADERS,
        Headers::Kept => of.add.len() >= MAX_HEADERS,
    });
    if is_of_the_hop(&name) || is_full {
        return false;
    }
    let of = into.get_or_insert_default();
    match (headers, value.is_empty()) {
        (Headers::Kept, true) => {}
        (Headers::Kept, false) => of.add.push(NamedValue { name, value }),
        (Headers::Replaced, true) => of.remove.push(name),
        (Headers::Replaced, false) => {
            of.set.retain(|before| !before.name.eq_ignore_ascii_case(&name));
            of.set.push(NamedValue { name, value });
        }
    }
    true
}

/// The value of a header as a filter writes it. What is the same for all requests of the rule is text.
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

/// A response to every request, with its headers; `None` where a filter cannot make it.
pub(crate) fn response(of: &Respond, labels: &RuleLabels) -> Option<(DirectResponse, Option<HeaderValues>)> {
    if !of.when.is_empty() || of.of_host.is_some() {
        return None;
    }
    let mut response = DirectResponse { status_code: Some(of.status.into()), ..DirectResponse::default() };
    let mut headers = None;
    match &of.content {
        Content::Status | Content::Empty => {}
        Content::Text(text, media_type) => {
            let ([] | [TemplatePart::Text(_)]) = &*text.0 else { return None };
            let has_body = !matches!(of.status, 204 | 205 | 304);
            response.body = Some(text.to_string()).filter(|text| has_body && !text.is_empty());
            response.content_type = has_body.then(|| media_type.to_string());
        }
        Content::Fixed { body, media_type } => {
            response.body = Some(body.to_string()).filter(|body| !body.is_empty());
            response.content_type = media_type.as_ref().map(ToString::to_string);
        }
        Content::Location(url) => {
            let location = FieldTemplate { name: "Location".into(), value: url.clone() };
            if !add_header(&mut headers, &location, Headers::Replaced, labels) {
                return None;
            }
        }
        Content::UnescapedLocation(_) | Content::Rewritten { .. } => return None,
    }
    let fits = response.body.as_ref().is_none_or(|body| body.len() <= MAX_BODY);
    fits.then_some((response, headers))
}

/// A path by a regular expression. Of several alternatives, a filter looks for all at the start of the path, and ingress-nginx only for
/// the first.
pub(crate) fn substitution(of: &PathRewrite) -> Option<PathSubstitution> {
    let PathRewrite::Regex { pattern, replacement, ignore_case } = of else { return None };
    (!has_alternatives(pattern)).then(|| PathSubstitution {
        pattern: pattern.to_string(),
        substitution: replacement.to_string(),
        ignore_case: ignore_case.then_some(true),
    })
}

/// Whether a filter changes headers and nothing else, so that a GRPCRoute may have it.
pub(crate) fn has_headers_only(of: &RouteFilterSpec) -> bool {
    of.direct_response.is_none() && of.path_rewrite.is_none() && of.forwarded_prefix.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &str, parts: &[TemplatePart]) -> FieldTemplate {
        FieldTemplate { name: name.into(), value: Template(parts.to_vec()) }
    }

    #[test]
    fn labels_are_text_and_what_a_filter_cannot_have_is_said() {
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
        let of = |content: Content| Respond {
            origin: "x".into(),
            when: Vec::new(),
            status: 301,
            content,
            of_host: None,
            max_body: None,
        };
        let url = Template(vec![TemplatePart::Text("https://new.test".into()), TemplatePart::RequestUri]);
        let (response, headers) = response(&of(Content::Location(url)), &RuleLabels::default()).unwrap();
        assert_eq!((response.status_code, response.body), (Some(301), None));
        assert_eq!(headers.unwrap().set[0].value, "https://new.test{request.uri}");
        let varying = Content::Text(Template(vec![TemplatePart::Host]), "text/plain".into());
        assert_eq!(super::response(&of(varying), &RuleLabels::default()), None);
    }

    #[test]
    fn a_pattern_with_alternatives_stays_behind() {
        let of = |pattern: &str| {
            substitution(&PathRewrite::Regex {
                pattern: pattern.into(),
                replacement: "/$1".into(),
                ignore_case: true,
            })
        };
        assert_eq!(of("/(a|b)/(.*)").unwrap().ignore_case, Some(true));
        assert_eq!(of("/a/(.*)|/b/(.*)"), None);
    }
}
