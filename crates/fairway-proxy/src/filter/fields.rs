//! Fields that the settings give all requests and answers, and those that they hide.

use fairway_http::{Head, Known, identify};
use fairway_model::{FieldTemplate, ReceivedEdit, TemplatePart};
use fairway_routing::CompiledRule;

use super::template::{self, Sources};
use crate::buffers::Buffers;

/// Sets fields of the request in the buffers.
pub(crate) fn set_on_request(fields: &[FieldTemplate], of: Sources<'_>, buffers: &mut Buffers) {
    set(fields, of, buffers, |buffers| &mut buffers.request);
}

/// Sets fields of the answer in the buffers. A request that is named in one and has no number yet gets it now: the access log
/// shows the same.
pub(super) fn set_on_answer(
    fields: &[FieldTemplate],
    of: Sources<'_>,
    number: impl FnOnce() -> u128,
    buffers: &mut Buffers,
) {
    let names_it = |field: &FieldTemplate| field.value.0.contains(&TemplatePart::RequestId);
    if buffers.request.first(Known::XRequestId).is_none() && fields.iter().any(names_it) {
        identify(&mut buffers.request, number);
    }
    set(fields, of, buffers, |buffers| &mut buffers.answer);
}

/// Takes the fields that are hidden out of the answer of an endpoint, to which nothing was added yet.
#[inline]
pub(crate) fn hide(rule: &CompiledRule, answer: &mut Head) {
    for step in &rule.steps().answers.received {
        if let ReceivedEdit::Hide(names) = step {
            names.iter().for_each(|name| answer.remove(name.as_bytes()));
        }
    }
}

fn set(
    fields: &[FieldTemplate],
    of: Sources<'_>,
    buffers: &mut Buffers,
    head: impl Fn(&mut Buffers) -> &mut Head,
) {
    for FieldTemplate { name, value } in fields {
        match &*value.0 {
            [] => head(buffers).remove(name.as_bytes()),
            [TemplatePart::Text(text)] => head(buffers).set(name.as_bytes(), text.as_bytes()),
            _ => {
                let mut text = std::mem::take(&mut buffers.forms.write().value);
                text.clear();
                template::write(value, of, buffers, &mut text);
                match text.trim_ascii() {
                    [] => head(buffers).remove(name.as_bytes()),
                    text => head(buffers).set(name.as_bytes(), text),
                }
                buffers.forms.write().value = text;
            }
        }
    }
}
