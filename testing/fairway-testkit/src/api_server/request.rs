//! A request as it comes, and which object or collection it is about.

use std::collections::BTreeMap;

use serde_json::Value;

use super::objects::{ObjectPath, Selection};

/// A request.
pub struct ApiRequest {
    pub(super) method: String,
    /// The path with its query.
    pub(super) uri: String,
    pub(super) path: String,
    pub(super) query: BTreeMap<String, String>,
    pub(super) body: Value,
    /// `None` for a path of neither an object nor a collection.
    pub(super) target: Option<Target>,
}

/// A collection, an object, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// Empty for the core API.
    pub(super) group: String,
    pub(super) version: String,
    pub(super) namespace: Option<String>,
    pub(super) resource: String,
    pub(super) name: Option<String>,
    /// `status`.
    pub(super) part: Option<String>,
}

impl ApiRequest {
    pub(super) fn new(method: &str, uri: &str, body: Value) -> Self {
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let decoded = |text: &str| text.replace("%3D", "=").replace("%2F", "/").replace("%2C", ",");
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        Self {
            method: method.to_owned(),
            uri: uri.to_owned(),
            path: path.to_owned(),
            query: pairs.map(|(name, value)| (name.to_owned(), decoded(value))).collect(),
            body,
            target: Target::from_path(path),
        }
    }

    /// The method.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The path, without the query.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The resource that it is about (`httproutes`); empty for other pages.
    pub fn resource(&self) -> &str {
        self.target.as_ref().map_or("", |target| &target.resource)
    }

    /// The namespace that it is limited to; empty where it is not.
    pub fn namespace(&self) -> &str {
        self.target.as_ref().and_then(|target| target.namespace.as_deref()).unwrap_or_default()
    }

    /// Whether it asks for a collection's objects, as a list or as the start of a watch (KEP-3157).
    pub fn is_list(&self) -> bool {
        let of_collection = self.target.as_ref().is_some_and(|target| target.name.is_none());
        self.method == "GET" && of_collection && (!self.is_true("watch") || self.is_true("sendInitialEvents"))
    }

    /// The API server's name of the request verb (Kubernetes: Authorization, request verbs).
    pub(super) fn verb(&self) -> &'static str {
        let is_object = self.target.as_ref().is_some_and(|target| target.name.is_some());
        match (&*self.method, is_object) {
            ("GET", _) if self.is_true("watch") => "watch",
            ("GET", false) => "list",
            ("GET", true) => "get",
            ("POST", _) => "create",
            ("PUT", _) => "update",
            ("PATCH", _) => "patch",
            _ => "delete",
        }
    }

    /// The verb and resource, in the words of a denial.
    pub(super) fn wish(&self, target: &Target) -> String {
        let suffix =
            target.namespace.as_ref().map(|it| format!(" in the namespace \"{it}\"")).unwrap_or_default();
        let (verb, resource) = (self.verb(), target.resource_with_part());
        format!("{verb} resource \"{resource}\" in API group \"{}\"{suffix}", target.group)
    }

    /// Whether a parameter is `true`.
    pub(super) fn is_true(&self, parameter: &str) -> bool {
        self.query.get(parameter).is_some_and(|value| value == "true")
    }

    pub(super) fn number<T: std::str::FromStr>(&self, parameter: &str) -> Option<T> {
        self.query.get(parameter)?.parse().ok()
    }

    /// The name that a list or a watch is limited to.
    pub(super) fn selected_name(&self) -> Option<&str> {
        self.query.get("fieldSelector")?.strip_prefix("metadata.name=")
    }

    pub(super) fn selection(&self, target: &Target) -> Selection {
        let requirement = |part: &str| match part.split_once('=') {
            Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
            None => (part.to_owned(), None),
        };
        let labels = self.query.get("labelSelector").map(String::as_str).unwrap_or_default();
        Selection {
            resource: target.resource.clone(),
            namespace: target.namespace.clone(),
            name: self.selected_name().map(str::to_owned),
            labels: labels.split(',').filter(|part| !part.is_empty()).map(requirement).collect(),
        }
    }
}

impl Target {
    /// The object or collection at a path; `None` for other paths.
    pub(super) fn from_path(path: &str) -> Option<Self> {
        let words: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let (group, version, rest) = match words.as_slice() {
            ["api", version, rest @ ..] => ("", version, rest),
            ["apis", group, version, rest @ ..] => (*group, version, rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some((*namespace).to_owned()), rest),
            rest => (None, rest),
        };
        let (resource, rest) = rest.split_first()?;
        let word = |at: usize| rest.get(at).map(|word| (*word).to_owned());
        let target = Self {
            group: group.to_owned(),
            version: (*version).to_owned(),
            namespace,
            resource: (*resource).to_owned(),
            name: word(0),
            part: word(1),
        };
        (rest.len() <= 2).then_some(target)
    }

    /// The path of the object; `None` for a collection.
    pub(super) fn object_path(&self) -> Option<ObjectPath> {
        Some(ObjectPath::new(
            &self.resource,
            self.namespace.as_deref().unwrap_or_default(),
            self.name.as_deref()?,
        ))
    }

    /// As rules name it: `ingresses/status`.
    pub(super) fn resource_with_part(&self) -> String {
        match &self.part {
            Some(part) => format!("{}/{part}", self.resource),
            None => self.resource.clone(),
        }
    }
}
