//! Authorization: the rules of Roles and ClusterRoles, with RBAC semantics.

use serde::Deserialize;
use serde_json::Value;

use super::request::{ApiRequest, Target};

/// The permissions of the given Roles and ClusterRoles.
#[derive(Default)]
pub(super) struct Access {
    /// `None` if everything is permitted.
    roles: Option<Vec<Role>>,
    /// Denied requests, in the words of the error response.
    refused: Vec<String>,
}

struct Role {
    /// The namespace of a Role; a ClusterRole applies to all.
    namespace: Option<String>,
    rules: Vec<Rule>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Rule {
    api_groups: Vec<String>,
    resources: Vec<String>,
    /// Empty where any name is good.
    resource_names: Vec<String>,
    verbs: Vec<String>,
}

impl Access {
    pub(super) fn grant(&mut self, role: &Value) {
        let rules = serde_json::from_value(role["rules"].clone()).expect("a Role has rules");
        let namespace = role["metadata"]["namespace"].as_str().map(str::to_owned);
        self.roles.get_or_insert_default().push(Role { namespace, rules });
    }

    /// Everything that was refused.
    pub(super) fn denied_requests(&self) -> Vec<String> {
        self.refused.clone()
    }

    /// Why a request is denied; `None` if it is permitted.
    pub(super) fn refusal(&mut self, request: &ApiRequest, target: &Target) -> Option<String> {
        let verb = request.verb();
        let name = target.name.as_deref().or_else(|| request.selected_name());
        let allows = |role: &Role| {
            let is_in_scope = role.namespace.is_none() || role.namespace == target.namespace;
            is_in_scope && role.rules.iter().any(|rule| rule.allows(verb, target, name))
        };
        if self.roles.as_ref().is_none_or(|roles| roles.iter().any(allows)) {
            return None;
        }
        let refusal = format!("cannot {}", request.wish(target));
        self.refused.push(refusal.clone());
        Some(refusal)
    }
}

impl Rule {
    fn allows(&self, verb: &str, target: &Target, name: Option<&str>) -> bool {
        let contains = |all: &[String], item: &str| all.iter().any(|it| it == item || it == "*");
        let named = || {
            self.resource_names.is_empty() || name.is_some_and(|name| contains(&self.resource_names, name))
        };
        contains(&self.verbs, verb)
            && contains(&self.api_groups, &target.group)
            && contains(&self.resources, &target.resource_with_part())
            && named()
    }
}
