//! Resolves references to CA certificates in ConfigMaps and Secrets. Verifies no certificate chains.

use std::sync::Arc;

use fairway_objects::certificate::secret_value;
use fairway_objects::inputs::Inputs;
use fairway_objects::object::{Kind, ObjectKey, ObjectRef};
use fairway_objects::roots::{are_certificates, only_unsupported_keys};

use crate::condition::{self, Fault};
use crate::grant::{self, Referrer};

/// A reference by group, kind and name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NamedReference<'a> {
    pub(crate) group: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) key: &'a ObjectKey,
}

/// Condition reasons, which differ between kinds of objects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FaultReasons {
    pub(crate) kind: &'static str,
    pub(crate) reference: &'static str,
}

impl NamedReference<'_> {
    /// The object, if its kind can contain CA certificates.
    pub(crate) fn object(self) -> Option<ObjectRef> {
        let kind = match (self.group, self.kind) {
            ("" | "core", "ConfigMap") => Kind::ConfigMap,
            ("" | "core", "Secret") => Kind::Secret,
            _ => return None,
        };
        Some(ObjectRef::new(kind, self.key.clone()))
    }
}

/// The CA certificates of one reference, as PEM.
pub(crate) fn resolve(
    named: NamedReference<'_>,
    from: Referrer<'_>,
    inputs: Inputs<'_>,
    reasons: FaultReasons,
) -> Result<Arc<str>, Fault> {
    let Some(object) = named.object() else {
        let kind = condition::kind(named.group, named.kind);
        let problem =
            format!("certificates of authorities come from ConfigMaps and Secrets, not from {kind}");
        return Err(Fault::new(reasons.kind, problem));
    };
    if !grant::permits(inputs.resources, from, object.kind, &object.key) {
        let problem = format!("no ReferenceGrant lets it refer to {} {}", named.kind, named.key);
        return Err(Fault::new("RefNotPermitted", problem));
    }
    let unusable =
        |problem: &str| Fault::new(reasons.reference, format!("{} {} {problem}", named.kind, named.key));
    let text = match object.kind {
        Kind::Secret => {
            let secret =
                inputs.resources.secrets.get(&object.key).ok_or_else(|| unusable("does not exist"))?;
            secret_value(&secret.object, "ca.crt").and_then(|bytes| std::str::from_utf8(bytes).ok())
        }
        _ => {
            let map =
                inputs.resources.config_maps.get(&object.key).ok_or_else(|| unusable("does not exist"))?;
            map.object.data.as_ref().and_then(|data| data.get("ca.crt")).map(String::as_str)
        }
    };
    let text = text.ok_or_else(|| unusable("has no ca.crt"))?;
    if !are_certificates(text) {
        return Err(unusable("has a ca.crt with no certificate, or with one that cannot be read"));
    }
    match only_unsupported_keys(text) {
        None => Ok(text.into()),
        Some(problem) => Err(unusable(&format!("has a ca.crt that verifies nothing: {problem}"))),
    }
}

/// The CA certificates of all valid references, and the faults of the others.
pub(crate) fn resolve_all<'r>(
    all: impl Iterator<Item = NamedReference<'r>>,
    from: Referrer<'_>,
    inputs: Inputs<'_>,
    reasons: FaultReasons,
) -> (Option<Arc<str>>, Vec<Fault>) {
    let mut pem = String::new();
    let mut faults = Vec::new();
    for named in all {
        match resolve(named, from, inputs, reasons) {
            Ok(text) => {
                pem.push_str(text.trim_end());
                pem.push('\n');
            }
            Err(fault) => faults.push(fault),
        }
    }
    ((!pem.is_empty()).then(|| pem.into()), faults)
}
