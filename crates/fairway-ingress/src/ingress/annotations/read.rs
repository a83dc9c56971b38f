//! Reads all annotations of an Ingress: contributions of all families, referenced objects, and unsupported or unknown
//! names.

use fairway_objects::annotations::text::parse_bool;
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::references::ReferencedObjects;

use crate::ingress::annotations::families::FAMILIES;
use crate::ingress::annotations::family::{AnnotationClass, Support};
use crate::ingress::annotations::registry;
use crate::ingress::compression::CompressionChoice;
use crate::ingress::context::Context;
use crate::ingress::contributions::Contributions;
use crate::ingress::fairway_annotations;
use crate::ingress::reader::{Annotations, Reader};

/// The contributions of all families.
pub(crate) fn contributions(reader: &mut Reader<'_>, context: &Context<'_>) -> Contributions {
    let mut contributions = Contributions::new(context.defaults);
    report_unsupported(reader);
    for family in FAMILIES {
        if let Err(closed) = (family.read)(reader, context, &mut contributions) {
            contributions.closed = contributions.closed.or(Some(closed));
        }
    }
    contributions.compression = CompressionChoice::read(reader, &context.defaults.compression);
    if let Err(closed) = fairway_annotations::contribute(reader, &mut contributions) {
        contributions.closed = contributions.closed.or(Some(closed));
    }
    contributions
}

/// Adds the objects that annotations reference.
pub(crate) fn add_references(annotations: &Annotations<'_>, referenced: &mut ReferencedObjects) {
    for family in FAMILIES {
        (family.add_references)(annotations, referenced);
    }
}

/// Reports every unsupported annotation. None of them protects.
fn report_unsupported(reader: &mut Reader<'_>) {
    for (name, value) in reader.all().collect::<Vec<_>>() {
        let Some(known) = registry::find(name) else {
            report_unknown(reader, name);
            continue;
        };
        let Support::Missing { class, effect, inert } = known.support else { continue };
        if is_inert(value, inert) {
            continue;
        }
        let consequence = match class {
            AnnotationClass::Feature => "the Ingress is served without it",
            AnnotationClass::Purpose => "the Ingress is not served",
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

/// Whether the value equals the annotation's default.
fn is_inert(value: &str, inert: &[&str]) -> bool {
    inert.iter().any(|nothing| {
        value == *nothing || (parse_bool(value).is_some() && parse_bool(value) == parse_bool(nothing))
    })
}
