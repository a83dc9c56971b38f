//! Unique names of objects and listeners, derived from the Ingress and host that they come from.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_model::HostPattern;

/// The names in use, by namespace.
#[derive(Debug, Default)]
pub(crate) struct Names(BTreeSet<(Arc<str>, String)>);

impl Names {
    /// Claims `wanted`, with a number appended if it is already in use.
    pub(crate) fn claim_free_name(&mut self, namespace: &Arc<str>, preferred: &str) -> String {
        let numbered = (2_u32..).map(|number| format!("{preferred}-{number}"));
        let mut candidates = std::iter::once(preferred.to_owned()).chain(numbered);
        let free = candidates.find(|name| self.0.insert((namespace.clone(), name.clone())));
        free.unwrap_or_else(|| preferred.to_owned())
    }
}

/// The name of a listener for a host: `https-shop.example.com`, `https-any.example.com` for a wildcard.
pub(crate) fn of_listener(kind: &str, host: &HostPattern) -> String {
    match hostname(host) {
        None => kind.to_owned(),
        Some(host) => format!("{kind}-{}", host.replace('*', "any")),
    }
}

/// The hostname in the syntax of the Gateway API; `None` for all hosts.
pub(crate) fn hostname(host: &HostPattern) -> Option<String> {
    match host {
        HostPattern::Any => None,
        HostPattern::Exact(_) | HostPattern::Wildcard { .. } => Some(host.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_unique_in_its_namespace() {
        let (mut names, shop): (_, Arc<str>) = (Names::default(), "shop".into());
        let claimed = ["web", "web", "web-2", "web"].map(|wanted| names.claim_free_name(&shop, wanted));
        assert_eq!(claimed, ["web", "web-2", "web-2-2", "web-3"]);
        assert_eq!(names.claim_free_name(&"other".into(), "web"), "web");
    }
}
