//! The objects that an Ingress references in its rules, `tls` section and annotations, existing or not.

use fairway_objects::object::ObjectKey;
use fairway_objects::references::ReferencedObjects;
use fairway_objects::shared;

use crate::ingress::annotations::read;
use crate::ingress::reader::Annotations;

/// The references of an Ingress, before it is interpreted.
pub(crate) fn references_of_ingress(annotations: &Annotations<'_>) -> ReferencedObjects {
    let mut referenced = ReferencedObjects::default();
    let namespace = &annotations.key.namespace;
    let in_namespace = |name: &str| ObjectKey { namespace: namespace.clone(), name: shared::text(name) };
    if let Some(spec) = &annotations.ingress.spec {
        let rules = spec.rules.iter().flatten().filter_map(|rule| rule.http.as_ref());
        let paths = rules.flat_map(|http| &http.paths).map(|path| &path.backend);
        for backend in paths.chain(&spec.default_backend) {
            referenced.services.extend(backend.service.iter().map(|service| in_namespace(&service.name)));
        }
        let tls = spec.tls.iter().flatten().filter_map(|tls| tls.secret_name.as_deref());
        referenced.certificates.extend(tls.filter(|name| !name.is_empty()).map(in_namespace));
        referenced.secrets.extend(referenced.certificates.iter().cloned());
    }
    read::add_references(annotations, &mut referenced);
    referenced
}
