//! HTTPRouteFilter: what a rule of a route does that no filter of the Gateway API does. Rules name it by `extensionRef`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use crate::custom_resource::custom_resource;

/// `fairway.dev/v1alpha1` HTTPRouteFilter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RouteFilter {
    /// Its name and age.
    pub metadata: ObjectMeta,
    /// What it does.
    pub spec: RouteFilterSpec,
}

custom_resource! {
    RouteFilter(RouteFilterSpec):
    "fairway.dev", "v1alpha1", "HTTPRouteFilter", "httproutefilters", NamespaceResourceScope
}

/// What an HTTPRouteFilter does.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RouteFilterSpec {
    /// Answers every request in place of the backends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direct_response: Option<DirectResponse>,
    /// Changes the path that the backend sees.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_rewrite: Option<PathSubstitution>,
    /// Makes the `X-Forwarded-Prefix` that the backend sees of the path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forwarded_prefix: Option<PathSubstitution>,
    /// Changes the headers that the backend sees.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_headers: Option<HeaderValues>,
    /// Changes the headers of every response of the rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_headers: Option<HeaderValues>,
}

/// A response that is the same for every request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DirectResponse {
    /// 200 to 599.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_code: Option<i32>,
    /// `Content-Type`; `text/plain` where there is a body and nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// The body; none where it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
}

/// A text that is made of the path by a regular expression.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PathSubstitution {
    /// Looked for at the start of the decoded path.
    pub pattern: String,
    /// With `$1` to `$9` for what the groups of the pattern found.
    pub substitution: String,
    /// Whether upper and lower case are the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignore_case: Option<bool>,
}

/// Headers that are removed, set and added, in this order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HeaderValues {
    /// Replace all headers of their names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<NamedValue>,
    /// Come behind the headers of their names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub add: Vec<NamedValue>,
    /// Names of headers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<String>,
}

/// A header with parts of the request in its value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NamedValue {
    /// Its name.
    pub name: String,
    /// A text in which parts of the request stand in braces, as `{client.address}`.
    pub value: String,
}
