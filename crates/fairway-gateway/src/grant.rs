//! Permission for cross-namespace references (Gateway API `ReferenceGrant`).

use fairway_objects::object::{Kind, ObjectKey};
use fairway_objects::resources::Resources;

/// The referring object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Referrer<'a> {
    /// Its kind: one of the Gateway API or a policy.
    pub(crate) kind: Kind,
    /// Its namespace.
    pub(crate) namespace: &'a str,
}

/// Whether `from` may refer to the `kind` named `to`: always in its own namespace, elsewhere if a grant in that
/// namespace permits it.
pub(crate) fn permits(resources: &Resources, from: Referrer<'_>, kind: Kind, to: &ObjectKey) -> bool {
    if from.namespace == &*to.namespace {
        return true;
    }
    let first = ObjectKey::new(&to.namespace, "");
    let grants = resources.gateway.grants.range(first..);
    let mut grants = grants.take_while(|(key, _)| key.namespace == to.namespace);
    grants.any(|(_, grant)| {
        let spec = &grant.object.spec;
        let is_from = spec.from.iter().any(|it| {
            it.group == from.kind.group() && it.kind == from.kind.name() && it.namespace == from.namespace
        });
        let is_to = |it: &fairway_objects::gateway_api::ReferenceGrantTo| {
            let named = it.name.as_deref().is_none_or(|name| name.is_empty() || name == &*to.name);
            it.group == kind.group() && it.kind == kind.name() && named
        };
        is_from && spec.to.iter().any(is_to)
    })
}
