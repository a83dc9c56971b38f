//! The objects that an Ingress names, whether they exist or not: in its rules, its `tls` section and its annotations.

use fairway_objects::object::ObjectKey;
use fairway_objects::references::Referenced;
use fairway_objects::shared;

use crate::ingress::annotations::read;
use crate::ingress::reader::Annotations;

/// What an Ingress refers to, before anything is judged.
pub(crate) fn by_ingress(annotations: &Annotations<'_>) -> Referenced {
    let mut referenced = Referenced::default();
    let namespace = &annotations.key.namespace;
    let here = |name: &str| ObjectKey { namespace: namespace.clone(), name: shared::text(name) };
    if let Some(spec) = &annotations.ingress.spec {
        let rules = spec.rules.iter().flatten().filter_map(|rule| rule.http.as_ref());
        let paths = rules.flat_map(|http| &http.paths).map(|path| &path.backend);
        for backend in paths.chain(&spec.default_backend) {
            referenced.services.extend(backend.service.iter().map(|service| here(&service.name)));
        }
        let tls = spec.tls.iter().flatten().filter_map(|tls| tls.secret_name.as_deref());
        referenced.certificates.extend(tls.filter(|name| !name.is_empty()).map(here));
        referenced.secrets.extend(referenced.certificates.iter().cloned());
    }
    read::refer(annotations, &mut referenced);
    referenced
}
