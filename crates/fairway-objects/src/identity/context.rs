//! Access to referenced Secrets and ConfigMaps, with a permission check.

use crate::certificate::secret_value;
use crate::identity::errors::{IdentityFieldError, IdentityResult};
use crate::object::{Kind, ObjectKey, ObjectRef};
use crate::resources::Resources;

/// Checks whether the object may reference another one; the error says why not.
pub type Permits<'a> = &'a dyn Fn(Kind, &ObjectKey) -> Result<(), String>;

/// What the parsers may access.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The objects.
    pub resources: &'a Resources,
    /// The namespace of the parsed object.
    pub namespace: &'a str,
    /// Checks references.
    pub permits: Permits<'a>,
}

pub(super) fn object(
    kind: &str,
    namespace: Option<&str>,
    own_namespace: &str,
    name: &str,
) -> Option<ObjectRef> {
    let kind = match kind {
        "Secret" => Kind::Secret,
        "ConfigMap" => Kind::ConfigMap,
        _ => return None,
    };
    let namespace = namespace.filter(|it| !it.is_empty()).unwrap_or(own_namespace);
    Some(ObjectRef::new(kind, ObjectKey::new(namespace, name)))
}

/// An entry of a Secret or ConfigMap, and the description of that object.
pub(super) fn read_entry<'c>(
    field: &str,
    object: Option<ObjectRef>,
    entry: &str,
    context: Context<'c>,
) -> IdentityResult<(String, &'c str)> {
    let object =
        object.ok_or_else(|| IdentityFieldError::new(field, "its kind is neither Secret nor ConfigMap"))?;
    (context.permits)(object.kind, &object.key).map_err(|problem| IdentityFieldError::new(field, problem))?;
    let object_name = format!("{} {}", object.kind.name(), object.key);
    let missing =
        |problem: String| IdentityFieldError { is_missing: true, ..IdentityFieldError::new(field, problem) };
    let gone = || missing(format!("{object_name} does not exist"));
    let text = if object.kind == Kind::ConfigMap {
        let map = context.resources.config_maps.get(&object.key).ok_or_else(gone)?;
        map.object.data.as_ref().and_then(|data| data.get(entry)).map(String::as_str)
    } else {
        let secret = context.resources.secrets.get(&object.key).ok_or_else(gone)?;
        let text = secret_value(&secret.object, entry).map(std::str::from_utf8).transpose();
        text.map_err(|_| IdentityFieldError::new(field, format!("{entry} of {object_name} is no text")))?
    };
    let text = text.ok_or_else(|| missing(format!("{object_name} has no entry {entry}")))?;
    Ok((object_name, text))
}
