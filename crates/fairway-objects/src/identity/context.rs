//! The Secrets and ConfigMaps that are named, and whether they may be.

use crate::certificate::secret_value;
use crate::identity::mistake::{Checked, Mistake};
use crate::object::{Kind, ObjectKey, ObjectRef};
use crate::resources::Resources;

/// Whether the object may refer to another one; what is wrong where it may not.
pub type Permits<'a> = &'a dyn Fn(Kind, &ObjectKey) -> Result<(), String>;

/// What a reader may look at.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The objects.
    pub resources: &'a Resources,
    /// The namespace of what is read.
    pub namespace: &'a str,
    /// Which objects it may refer to.
    pub permits: Permits<'a>,
}

pub(super) fn object(kind: &str, namespace: Option<&str>, own: &str, name: &str) -> Option<ObjectRef> {
    let kind = match kind {
        "Secret" => Kind::Secret,
        "ConfigMap" => Kind::ConfigMap,
        _ => return None,
    };
    let namespace = namespace.filter(|it| !it.is_empty()).unwrap_or(own);
    Some(ObjectRef::new(kind, ObjectKey::new(namespace, name)))
}

/// An entry of a Secret or ConfigMap, and what this is called.
pub(super) fn entry<'c>(
    field: &str,
    object: Option<ObjectRef>,
    entry: &str,
    context: Context<'c>,
) -> Checked<(String, &'c str)> {
    let object = object.ok_or_else(|| Mistake::new(field, "its kind is neither Secret nor ConfigMap"))?;
    (context.permits)(object.kind, &object.key).map_err(|problem| Mistake::new(field, problem))?;
    let what = format!("{} {}", object.kind.name(), object.key);
    let missing = |problem: String| Mistake { is_missing: true, ..Mistake::new(field, problem) };
    let gone = || missing(format!("{what} does not exist"));
    let text = if object.kind == Kind::ConfigMap {
        let map = context.resources.config_maps.get(&object.key).ok_or_else(gone)?;
        map.object.data.as_ref().and_then(|data| data.get(entry)).map(String::as_str)
    } else {
        let secret = context.resources.secrets.get(&object.key).ok_or_else(gone)?;
        let text = secret_value(&secret.object, entry).map(std::str::from_utf8).transpose();
        text.map_err(|_| Mistake::new(field, format!("{entry} of {what} is no text")))?
    };
    let text = text.ok_or_else(|| missing(format!("{what} has no entry {entry}")))?;
    Ok((what, text))
}
