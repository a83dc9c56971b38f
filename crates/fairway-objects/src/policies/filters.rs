//! HTTPRouteFilter: rule features that no Gateway API filter has. Rules reference it by `extensionRef`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use crate::custom_resource::custom_resource;

/// `fairway.dev/v1alpha1` HTTPRouteFilter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RouteFilter {
    /// Its name and age.
    pub metadata: ObjectMeta,
    /// The settings.
    pub spec: RouteFilterSpec,
}

custom_resource! {
    RouteFilter(RouteFilterSpec):
    "fairway.dev", "v1alpha1", "HTTPRouteFilter", "httproutefilters", NamespaceResourceScope
}

/// The settings of an HTTPRouteFilter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RouteFilterSpec {
    /// Responds to every request in place of the backends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direct_response: Option<DirectResponse>,
    /// Rewrites the path for the backend.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_rewrite: Option<PathSubstitution>,
    /// Derives the `X-Forwarded-Prefix` for the backend from the path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forwarded_prefix: Option<PathSubstitution>,
    /// Changes the headers for the backend.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_headers: Option<HeaderValues>,
    /// Changes the headers of every response of the rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_headers: Option<HeaderValues>,
}

/// A fixed response.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DirectResponse {
    /// 200 to 599.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_code: Option<i32>,
    /// `Content-Type`; default `text/plain` if there is a body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// The body; default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
}

/// A text derived from the path by a regular expression.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PathSubstitution {
    /// Matched at the start of the decoded path.
    pub pattern: String,
    /// With `$1` to `$9` for the groups of the pattern.
    pub substitution: String,
    /// Whether matching is case-insensitive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignore_case: Option<bool>,
}

/// Headers that are removed, set and added, in this order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HeaderValues {
    /// Replaces all headers of these names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<NamedValue>,
    /// Appended after existing headers of these names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub add: Vec<NamedValue>,
    /// Names of headers to remove.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<String>,
}

/// A header whose value may contain parts of the request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NamedValue {
    /// Its name.
    pub name: String,
    /// A text with parts of the request in braces, as `{client.address}`.
    pub value: String,
}
