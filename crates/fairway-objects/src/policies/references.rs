//! References of policies to objects.

use serde::{Deserialize, Serialize};

/// A Secret or ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SecretOrConfigMapReference {
    /// `Secret` or `ConfigMap`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its namespace; default: that of the policy. Another one needs a ReferenceGrant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// A Secret.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SecretReference {
    /// Its name.
    pub name: String,
    /// Its namespace; default: that of the policy. Another one needs a ReferenceGrant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// A port of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServiceReference {
    /// Its name.
    pub name: String,
    /// Its namespace; default: that of the policy. Another one needs a ReferenceGrant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The number of its port.
    pub port: i32,
}
