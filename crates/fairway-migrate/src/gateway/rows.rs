//! Reports the outcome of each annotation of an Ingress.

use fairway_ingress::{KnownAnnotation, Support, known_annotations};
use k8s_openapi::api::networking::v1::Ingress;
use serde::Serialize;

use crate::gateway::remark::{Outcome, Remark};

/// An annotation of an Ingress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConvertedAnnotation {
    /// Its name with its prefix.
    pub annotation: String,
    /// Its value.
    pub value: String,
    /// The outcome.
    pub fate: Outcome,
    /// What differs or is lost.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// Annotations that are converted with rules, matches, filters and backends; remarks report their losses.
const CARRIED_ANNOTATIONS: &[&str] = &[
    "affinity",
    "affinity-canary-behavior",
    "affinity-mode",
    "app-root",
    "backend-protocol",
    "canary",
    "canary-by-cookie",
    "canary-by-header",
    "canary-by-header-pattern",
    "canary-by-header-value",
    "canary-weight",
    "canary-weight-total",
    "client-body-buffer-size",
    "cors-allow-credentials",
    "cors-allow-headers",
    "cors-allow-methods",
    "cors-allow-origin",
    "cors-expose-headers",
    "cors-max-age",
    "custom-headers",
    "custom-http-errors",
    "default-backend",
    "enable-cors",
    "enable-opentelemetry",
    "fairway.dev/compat",
    "fairway.dev/compression",
    "fairway.dev/redirect",
    "fairway.dev/request-headers",
    "fairway.dev/response-headers",
    "force-ssl-redirect",
    "from-to-www-redirect",
    "mirror-host",
    "mirror-request-body",
    "mirror-target",
    "opentelemetry-operation-name",
    "opentelemetry-trust-incoming-span",
    "permanent-redirect",
    "permanent-redirect-code",
    "preserve-trailing-slash",
    "proxy-body-size",
    "proxy-buffering",
    "proxy-buffers-number",
    "proxy-connect-timeout",
    "proxy-max-temp-file-size",
    "proxy-next-upstream",
    "proxy-next-upstream-tries",
    "proxy-read-timeout",
    "proxy-request-buffering",
    "proxy-send-timeout",
    "proxy-ssl-name",
    "proxy-ssl-secret",
    "proxy-ssl-server-name",
    "proxy-ssl-verify",
    "relative-redirects",
    "rewrite-target",
    "server-alias",
    "session-cookie-change-on-failure",
    "session-cookie-conditional-samesite-none",
    "session-cookie-domain",
    "session-cookie-expires",
    "session-cookie-max-age",
    "session-cookie-name",
    "session-cookie-path",
    "session-cookie-samesite",
    "session-cookie-secure",
    "ssl-passthrough",
    "ssl-redirect",
    "temporal-redirect",
    "temporal-redirect-code",
    "upstream-vhost",
    "use-port-in-redirects",
    "use-regex",
    "x-forwarded-prefix",
];

/// Annotations with their default values, which need no counterpart.
const DEFAULT_VALUES: &[(&str, &str)] = &[
    ("enable-access-log", "true"),
    ("load-balance", "round_robin"),
    ("load-balance", "ewma"),
    ("proxy-http-version", "1.1"),
    ("enable-global-auth", "true"),
];

/// The outcome of each annotation of an Ingress. Moves the remarks on annotations out of `remarks`.
pub(crate) fn rows(ingress: &Ingress, prefix: &str, remarks: &mut Vec<Remark>) -> Vec<ConvertedAnnotation> {
    let mut rows = Vec::new();
    let mut reported: Vec<&str> = Vec::new();
    for (annotation, value) in ingress.metadata.annotations.iter().flatten() {
        let of_nginx = annotation.strip_prefix(prefix).and_then(|name| name.strip_prefix('/'));
        let full_name = annotation.starts_with("fairway.dev/").then_some(&**annotation);
        let Some(name) = of_nginx.or(full_name) else { continue };
        reported.push(name);
        let (fate, why) = outcome(name, value.trim(), remarks);
        rows.push(ConvertedAnnotation {
            annotation: annotation.clone(),
            value: value.trim().to_owned(),
            fate,
            why,
        });
    }
    remarks.retain(|remark| {
        remark.fate != Outcome::Same && !remark.about.iter().any(|name| reported.contains(name))
    });
    rows
}

fn outcome(name: &str, value: &str, remarks: &[Remark]) -> (Outcome, String) {
    let relevant: Vec<&Remark> = remarks.iter().filter(|remark| remark.about.contains(&name)).collect();
    if let Some(worst) = relevant.iter().map(|remark| remark.fate).max() {
        let whats = relevant.iter().map(|remark| remark.what.as_str()).filter(|what| !what.is_empty());
        let whats: Vec<_> = whats.collect();
        return (worst, whats.join("; "));
    }
    let asks_nothing = value.is_empty() || (value == "false" && !DEFAULT_VALUES.contains(&(name, "true")));
    if CARRIED_ANNOTATIONS.contains(&name) || DEFAULT_VALUES.contains(&(name, value)) || asks_nothing {
        return (Outcome::Same, String::new());
    }
    let of_policies = [
        ("fairway.dev/backend-limits", "use limits of a BackendTrafficPolicy for the Service"),
        ("fairway.dev/health", "use health of a BackendTrafficPolicy for the Service"),
        ("fairway.dev/outlier-ejection", "use outlierEjection of a BackendTrafficPolicy for the Service"),
        (
            "fairway.dev/traffic-distribution",
            "use trafficDistribution of the Service or of a BackendTrafficPolicy for it",
        ),
    ];
    if let Some((_, why)) = of_policies.iter().find(|(own, _)| *own == name) {
        return (Outcome::Lost, (*why).to_owned());
    }
    match find_annotation(name).map(|known| known.support) {
        Some(Support::Needless { .. }) => (Outcome::Same, String::new()),
        _ => (Outcome::Lost, "the Gateway API has no field for it".to_owned()),
    }
}

fn find_annotation(name: &str) -> Option<&'static KnownAnnotation> {
    known_annotations().iter().find(|known| known.name == name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn annotations_count_as_the_same_unless_remarks_or_the_table_differ() {
        let ingress: Ingress = serde_json::from_value(json!({"metadata": {"annotations": {
            "n/auth-url": "http://a", "n/enable-access-log": "false", "n/enable-cors": "false",
            "n/proxy-read-timeout": "9", "n/proxy-buffering": "on", "n/ssl-redirect": "true", "other/x": "y",
        }}}))
        .unwrap();
        let mut remarks = vec![
            Remark::differs(&["proxy-read-timeout", "proxy-send-timeout"], "close"),
            Remark::lost(&["affinity"], "gone"),
        ];
        let rows = rows(&ingress, "n", &mut remarks);
        let fates: Vec<_> = rows.iter().map(|row| (&*row.annotation, row.fate)).collect();
        assert_eq!(
            fates,
            [
                ("n/auth-url", Outcome::Lost),
                ("n/enable-access-log", Outcome::Lost),
                ("n/enable-cors", Outcome::Same),
                ("n/proxy-buffering", Outcome::Same),
                ("n/proxy-read-timeout", Outcome::Differs),
                ("n/ssl-redirect", Outcome::Same),
            ]
        );
        assert_eq!(remarks, [Remark::lost(&["affinity"], "gone")]);
    }

    #[test]
    fn carried_annotations_exist() {
        for name in CARRIED_ANNOTATIONS.iter().chain(DEFAULT_VALUES.iter().map(|(name, _)| name)) {
            assert!(name.starts_with("fairway.dev/") || find_annotation(name).is_some(), "{name}");
        }
    }
}
