//! The annotations of an Ingress as a whole: what its families contribute, which objects they name, and what is not
//! supported or not known.

use fairway_objects::annotations::text::switch;
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::references::Referenced;

use crate::ingress::annotations::families::FAMILIES;
use crate::ingress::annotations::family::{Class, Support};
use crate::ingress::annotations::registry;
use crate::ingress::compression::CompressionChoice;
use crate::ingress::context::Context;
use crate::ingress::contributions::Contributions;
use crate::ingress::own;
use crate::ingress::reader::{Annotations, Reader};

/// What all families make of the requests of an Ingress.
pub(crate) fn contributions(reader: &mut Reader<'_>, context: &Context<'_>) -> Contributions {
    let mut contributions = Contributions::new(context.defaults);
    report_unsupported(reader);
    for family in FAMILIES {
        if let Err(closed) = (family.read)(reader, context, &mut contributions) {
            contributions.closed = contributions.closed.or(Some(closed));
        }
    }
    contributions.compression = CompressionChoice::read(reader, &context.defaults.compression);
    if let Err(closed) = own::contribute(reader, &mut contributions) {
        contributions.closed = contributions.closed.or(Some(closed));
    }
    contributions
}

/// Adds the objects that annotations name.
pub(crate) fn refer(annotations: &Annotations<'_>, referenced: &mut Referenced) {
    for family in FAMILIES {
        (family.refer)(annotations, referenced);
    }
}

/// Names every annotation that does not work. None of them protects.
fn report_unsupported(reader: &mut Reader<'_>) {
    for (name, value) in reader.all().collect::<Vec<_>>() {
        let Some(known) = registry::find(name) else {
            report_unknown(reader, name);
            continue;
        };
        let Support::Missing { class, effect, inert } = known.support else { continue };
        if asks_for_nothing(value, inert) {
            continue;
        }
        let consequence = match class {
            Class::Feature => "the Ingress is served without it",
            Class::Purpose => "the Ingress is not served",
        };
        let problem = format!("{name} is not supported yet: {effect}");
        let found = Diagnostic::new(Severity::Warning, "unsupported-annotation", reader.at(name));
        reader.report(found.because(problem, consequence));
    }
}

fn report_unknown(reader: &mut Reader<'_>, name: &str) {
    let nearest = registry::nearest(name).map(|nearest| format!("; did you mean {nearest}?"));
    let problem = format!("ingress-nginx has no annotation {name}{}", nearest.unwrap_or_default());
    let found = Diagnostic::new(Severity::Warning, "unknown-annotation", reader.at(name));
    reader.report(found.because(problem, "it changes nothing"));
}

/// Whether the value leaves the annotation's default as it is.
fn asks_for_nothing(value: &str, inert: &[&str]) -> bool {
    inert
        .iter()
        .any(|nothing| value == *nothing || (switch(value).is_some() && switch(value) == switch(nothing)))
}
