//! Whether the installed Gateway API CRDs are of a supported release (`SupportedVersion` of a GatewayClass).

use std::collections::BTreeMap;

use fairway_objects::gateway_resources::Releases;

use crate::condition::Fault;

/// The oldest and newest supported release, as major and minor number.
const SUPPORTED_RELEASES: std::ops::RangeInclusive<(u32, u32)> = (1, 0)..=(1, 7);

/// The fault if installed CRDs are of an unsupported release; `None` if it is unknown what is installed. A CRD
/// without the annotation is unsupported (Gateway API `GatewayClassConditionStatusSupportedVersion`).
pub(crate) fn unsupported(releases: &Releases) -> Option<Fault> {
    let mut unknown: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, release) in releases.iter() {
        let known = release
            .as_deref()
            .and_then(parse_version)
            .is_some_and(|number| SUPPORTED_RELEASES.contains(&number));
        if !known {
            let kind = name.split('.').next().unwrap_or_default();
            unknown.entry(release.as_deref().unwrap_or("no release")).or_default().push(kind);
        }
    }
    let found = unknown.iter().map(|(release, kinds)| format!("{release} ({})", kinds.join(", ")));
    let found: Vec<String> = found.collect();
    let ((first_major, first), (last_major, last)) = (*SUPPORTED_RELEASES.start(), *SUPPORTED_RELEASES.end());
    let message = format!(
        "the installed CRDs are of {}; releases v{first_major}.{first} to v{last_major}.{last} are supported",
        found.join("; ")
    );
    (!found.is_empty()).then(|| Fault::new("UnsupportedVersion", message))
}

/// The major and minor number of `v1.6.3` or `v1.6.0-rc.1`.
fn parse_version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.strip_prefix('v')?.split('.');
    let (major, minor) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    parts.next().map(|_| (major, minor))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn message(all: &[(&str, Option<&str>)]) -> Option<String> {
        let release_of = |(kind, release): &(&str, Option<&str>)| {
            (format!("{kind}.gateway.networking.k8s.io"), release.map(str::to_owned))
        };
        unsupported(&Arc::new(all.iter().map(release_of).collect())).map(|fault| fault.message)
    }

    #[test]
    fn supported_releases_end_with_the_served_one() {
        for release in ["v1.0.0", "v1.5.1", "v1.6.3", "v1.7.0-rc.1", "v1.7.9"] {
            assert_eq!(message(&[("gateways", Some(release))]), None, "{release}");
        }
        assert_eq!(message(&[]), None, "nobody knows");
    }

    #[test]
    fn a_later_release_an_unreadable_one_and_none_are_named_with_their_kinds() {
        let found = message(&[
            ("gatewayclasses", Some("v1.6.3")),
            ("gateways", Some("v1.8.0")),
            ("httproutes", Some("v1.8.0")),
            ("tlsroutes", None),
            ("udproutes", Some("main")),
        ]);
        assert_eq!(
            found.as_deref(),
            Some(
                "the installed CRDs are of main (udproutes); no release (tlsroutes); v1.8.0 (gateways, httproutes); \
                 releases v1.0 to v1.7 are supported"
            )
        );
        for release in ["v2.0.0", "v0.8.1", "1.6.3", "v1.6"] {
            assert!(message(&[("gateways", Some(release))]).is_some(), "{release}");
        }
    }
}
