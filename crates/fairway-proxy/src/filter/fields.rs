//! Headers that settings add to requests and responses, and response headers that they hide.

use fairway_http::{Head, Known, identify};
use fairway_model::{HeaderTemplate, TemplatePart, UpstreamResponseEdit};
use fairway_routing::CompiledRule;

use super::template::{self, Sources};
use crate::buffers::Buffers;

/// Sets headers of the request.
pub(crate) fn set_on_request(fields: &[HeaderTemplate], sources: Sources<'_>, buffers: &mut Buffers) {
    set(fields, sources, buffers, |buffers| &mut buffers.request);
}

/// Sets headers of the response. If one contains the request ID and the request has none yet, it gets one now, so that the
/// access log shows the same one.
pub(super) fn set_on_response(
    fields: &[HeaderTemplate],
    sources: Sources<'_>,
    number: impl FnOnce() -> u128,
    buffers: &mut Buffers,
) {
    let names_it = |field: &HeaderTemplate| field.value.0.contains(&TemplatePart::RequestId);
    if buffers.request.first(Known::XRequestId).is_none() && fields.iter().any(names_it) {
        identify(&mut buffers.request, number);
    }
    set(fields, sources, buffers, |buffers| &mut buffers.response);
}

/// Removes hidden headers from the response of an endpoint, before anything is added to it.
#[inline]
pub(crate) fn remove_hidden_headers(rule: &CompiledRule, response: &mut Head) {
    for step in &rule.steps().responses.received {
        if let UpstreamResponseEdit::Hide(names) = step {
            names.iter().for_each(|name| response.remove(name.as_bytes()));
        }
    }
}

fn set(
    fields: &[HeaderTemplate],
    sources: Sources<'_>,
    buffers: &mut Buffers,
    head: impl Fn(&mut Buffers) -> &mut Head,
) {
    for HeaderTemplate { name, value } in fields {
        match &*value.0 {
            [] => head(buffers).remove(name.as_bytes()),
            [TemplatePart::Text(text)] => head(buffers).set(name.as_bytes(), text.as_bytes()),
            _ => {
                let mut text = std::mem::take(&mut buffers.extras.write().value);
                text.clear();
                template::render_into(value, sources, buffers, &mut text);
                match text.trim_ascii() {
                    [] => head(buffers).remove(name.as_bytes()),
                    text => head(buffers).set(name.as_bytes(), text),
                }
                buffers.extras.write().value = text;
            }
        }
    }
}
