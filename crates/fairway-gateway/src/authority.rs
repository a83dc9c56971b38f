//! Certificates of authorities that objects name: from ConfigMaps and Secrets to PEM. Owns what makes such a
//! reference good; verifies nobody.

use std::sync::Arc;

use fairway_objects::certificate::secret_value;
use fairway_objects::inputs::Inputs;
use fairway_objects::object::{Kind, ObjectKey, ObjectRef};
use fairway_objects::roots::{are_certificates, only_unsupported_keys};

use crate::condition::{self, Fault};
use crate::grant::{self, Referrer};

/// How an object is named: group, kind and name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named<'a> {
    pub(crate) group: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) key: &'a ObjectKey,
}

/// The reasons for faults, which differ from one kind of object to another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reasons {
    pub(crate) kind: &'static str,
    pub(crate) reference: &'static str,
}

impl Named<'_> {
    /// The object, if it is of a kind that can have certificates of authorities.
    pub(crate) fn object(self) -> Option<ObjectRef> {
        let kind = match (self.group, self.kind) {
            ("" | "core", "ConfigMap") => Kind::ConfigMap,
            ("" | "core", "Secret") => Kind::Secret,
            _ => return None,
        };
        Some(ObjectRef::new(kind, self.key.clone()))
    }
}

/// The certificates that one reference leads to, as PEM.
pub(crate) fn resolve(
    named: Named<'_>,
    from: Referrer<'_>,
    inputs: Inputs<'_>,
    reasons: Reasons,
) -> Result<Arc<str>, Fault> {
    let Some(object) = named.object() else {
        let what = condition::kind(named.group, named.kind);
        let problem =
            format!("certificates of authorities come from ConfigMaps and Secrets, not from {what}");
        return Err(Fault::new(reasons.kind, problem));
    };
    if !grant::permits(inputs.resources, from, object.kind, &object.key) {
        let problem = format!("no ReferenceGrant lets it refer to {} {}", named.kind, named.key);
        return Err(Fault::new("RefNotPermitted", problem));
    }
    let wrong = |what: &str| Fault::new(reasons.reference, format!("{} {} {what}", named.kind, named.key));
    let text = match object.kind {
        Kind::Secret => {
            let secret = inputs.resources.secrets.get(&object.key).ok_or_else(|| wrong("does not exist"))?;
            secret_value(&secret.object, "ca.crt").and_then(|bytes| std::str::from_utf8(bytes).ok())
        }
        _ => {
            let map = inputs.resources.config_maps.get(&object.key).ok_or_else(|| wrong("does not exist"))?;
            map.object.data.as_ref().and_then(|data| data.get("ca.crt")).map(String::as_str)
        }
    };
    let text = text.ok_or_else(|| wrong("has no ca.crt"))?;
    if !are_certificates(text) {
        return Err(wrong("has a ca.crt with no certificate, or with one that cannot be read"));
    }
    match only_unsupported_keys(text) {
        None => Ok(text.into()),
        Some(problem) => Err(wrong(&format!("has a ca.crt that verifies nothing: {problem}"))),
    }
}

/// The certificates of all references, and what is wrong with the others.
pub(crate) fn resolve_all<'r>(
    all: impl Iterator<Item = Named<'r>>,
    from: Referrer<'_>,
    inputs: Inputs<'_>,
    reasons: Reasons,
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
