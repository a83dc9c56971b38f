//! Error pages: `custom-http-errors`, `default-backend`, `disable-proxy-intercept-errors`. The Service and path they
//! belong to depend on the location: see [`crate::ingress::rules`].

use fairway_objects::annotations::text;
use fairway_objects::object::ObjectKey;

use crate::ingress::annotations::family::{Family, KnownAnnotation, differs, supported};
use crate::ingress::errors::ErrorPageSettings;
use crate::ingress::reader::{Annotations, Reader};

/// The family.
pub(crate) const FAMILY: Family = Family::new(ANNOTATIONS, |reader, context, contributions| {
    let backend = service(&reader.annotations()).map(|service| (service, reader.at("default-backend")));
    let mut statuses = statuses(reader).unwrap_or_else(|| context.defaults.errors.clone());
    if reader.switch("disable-proxy-intercept-errors", false) {
        statuses.clear();
    }
    let has_pages = backend.is_some() || context.inputs.options.defaults.backend.is_some();
    match (has_pages, reader.value("custom-http-errors").is_some()) {
        (false, true) if !statuses.is_empty() => {
            let problem = "there is no default-backend whose pages would replace them";
            reader.invalid("custom-http-errors", problem, "error answers with these statuses become 404");
        }
        // The global setting is meant for Ingresses with error pages.
        (false, false) => statuses.clear(),
        _ => {}
    }
    contributions.errors = ErrorPageSettings { backend: backend.map(Box::new), statuses };
    Ok(())
})
.with_references(|annotations, referenced| referenced.services.extend(service(annotations)));

const ANNOTATIONS: &[KnownAnnotation] = &[
    differs(
        "custom-http-errors",
        "requested with GET or HEAD; without `default-backend`, from `--default-backend`; without both, 404",
    ),
    supported("default-backend"),
    supported("disable-proxy-intercept-errors"),
];

/// The Service that an Ingress references, which may not exist.
fn service(annotations: &Annotations<'_>) -> Option<ObjectKey> {
    let name = annotations.value("default-backend").filter(|name| !name.is_empty())?;
    Some(ObjectKey { namespace: annotations.key.namespace.clone(), name: name.into() })
}

/// Reads `custom-http-errors`, sorted.
fn statuses(reader: &mut Reader<'_>) -> Option<Vec<u16>> {
    let name = "custom-http-errors";
    let value = reader.value(name)?;
    let statuses = text::parse_statuses(value);
    if statuses.is_none() {
        let problem = format!("\"{value}\" is no list of statuses from 400 to 599");
        reader.invalid(name, problem, "error answers stay as they are");
    }
    Some(statuses.unwrap_or_default())
}
