//! What replaces error answers: `custom-http-errors`, `default-backend`, `disable-proxy-intercept-errors`. Which Service
//! and path they belong to, only the location knows: see [`crate::ingress::rules`].

use fairway_objects::annotations::text;
use fairway_objects::object::ObjectKey;

use crate::ingress::annotations::family::{Family, Known, differs, done};
use crate::ingress::errors::Errors;
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
        // What is said for all Ingresses is meant for those with pages.
        (false, false) => statuses.clear(),
        _ => {}
    }
    contributions.errors = Errors { backend: backend.map(Box::new), statuses };
    Ok(())
})
.referring(|annotations, referenced| referenced.services.extend(service(annotations)));

const ANNOTATIONS: &[Known] = &[
    differs(
        "custom-http-errors",
        "Fairway requests the page with GET or HEAD, never with the client's method and length; without `default-backend` \
         the Service of `--default-backend` makes the pages; without that, too, these responses become 404",
    ),
    done("default-backend"),
    done("disable-proxy-intercept-errors"),
];

/// The Service that an Ingress names, which may be missing.
fn service(annotations: &Annotations<'_>) -> Option<ObjectKey> {
    let name = annotations.value("default-backend").filter(|name| !name.is_empty())?;
    Some(ObjectKey { namespace: annotations.key.namespace.clone(), name: name.into() })
}

/// Reads `custom-http-errors`, sorted.
fn statuses(reader: &mut Reader<'_>) -> Option<Vec<u16>> {
    let name = "custom-http-errors";
    let value = reader.value(name)?;
    let statuses = text::statuses(value);
    if statuses.is_none() {
        let problem = format!("\"{value}\" is no list of statuses from 400 to 599");
        reader.invalid(name, problem, "error answers stay as they are");
    }
    Some(statuses.unwrap_or_default())
}
