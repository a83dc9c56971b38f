//! Selection of routes and requests by host.

use fairway_model::{HostPattern, WildcardSpan};

/// The patterns in `all` that may serve requests for `wanted`: those that equal it and those that cover it. The pattern for all
/// hosts is included only if there is no other.
pub(super) fn serving<'p>(all: impl Iterator<Item = &'p HostPattern>, host: &str) -> Vec<&'p HostPattern> {
    let host = host.to_ascii_lowercase();
    let (named, every): (Vec<_>, Vec<_>) = all
        .filter(|pattern| pattern.to_string() == host || pattern.covers(&host))
        .partition(|pattern| **pattern != HostPattern::Any);
    if named.is_empty() { every } else { named }
}

/// Selects requests by host: one host, or all hosts below a wildcard.
#[derive(Debug)]
pub(super) struct SelectedHosts(HostPattern);

impl SelectedHosts {
    /// Parses `shop.example.com` or `*.example.com`.
    ///
    /// # Errors
    /// The text is not a host.
    pub(super) fn read(text: &str) -> anyhow::Result<Self> {
        let pattern = HostPattern::parse(text, WildcardSpan::ManyLabels);
        Ok(Self(pattern.map_err(|error| anyhow::anyhow!("--host {text}: {error}"))?))
    }

    /// Whether requests for this host are selected.
    pub(super) fn include(&self, host: &str) -> bool {
        self.0.covers(&host.to_ascii_lowercase())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pattern_for_all_hosts_is_used_only_without_another_match() {
        let parse = |text| HostPattern::parse(text, WildcardSpan::OneLabel).unwrap();
        let patterns = ["a.test", "*.test", "b.test", ""].map(parse);
        let serving = |wanted| {
            serving(patterns.iter(), wanted).into_iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(serving("A.test"), ["a.test", "*.test"]);
        assert_eq!(serving("*.test"), ["*.test"]);
        assert_eq!(serving("other.example"), ["*"]);
        assert_eq!(serving("*"), ["*"]);
    }

    #[test]
    fn requests_are_selected_by_host_or_wildcard() {
        let hosts = SelectedHosts::read("*.example.com").unwrap();
        assert!(hosts.include("a.b.Example.com") && !hosts.include("example.com"));
        assert!(SelectedHosts::read("shop.example.com").unwrap().include("shop.example.com"));
        assert!(SelectedHosts::read("a b").is_err());
    }
}
