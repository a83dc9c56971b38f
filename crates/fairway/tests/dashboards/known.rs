//! What well-known dashboards ask ingress-nginx for: its own two (`nginx.json`, grafana.com 9614, and
//! `request-handling-performance.json`, as of its last release), grafana.com 14314, and the alerts that its chart has.
//! Facts about their queries: metrics, the labels they select by, the labels they group by.

/// Series that a query selects.
pub(crate) struct Asked {
    pub(crate) metric: &'static str,
    /// Labels with variables of the dashboard, which can be any value.
    pub(crate) variables: &'static [&'static str],
    /// Conditions with fixed values.
    pub(crate) fixed: &'static str,
    pub(crate) grouped: &'static [&'static str],
}

const fn asked(
    metric: &'static str,
    variables: &'static [&'static str],
    fixed: &'static str,
    grouped: &'static [&'static str],
) -> Asked {
    Asked { metric, variables, fixed, grouped }
}

const POD: &[&str] = &["controller_pod", "controller_class", "controller_namespace"];
const OF_TARGET: &[&str] = &["controller_pod", "controller_class", "namespace"];
const INGRESS: &[&str] =
    &["controller_pod", "controller_class", "controller_namespace", "exported_namespace", "ingress"];
const INGRESS_OF_TARGET: &[&str] =
    &["controller_pod", "controller_class", "namespace", "exported_namespace", "ingress"];
const BY_INGRESS: &[&str] = &["ingress"];
const BY_PATH: &[&str] = &["method", "host", "path"];

/// `nginx.json`, with its variables.
pub(crate) const CONTROLLER: &[Asked] = &[
    asked("nginx_ingress_controller_config_hash", &[], "", &["controller_namespace"]),
    asked("nginx_ingress_controller_config_hash", &["namespace"], "", &["controller_class"]),
    asked(
        "nginx_ingress_controller_config_hash",
        &["namespace", "controller_class"],
        "",
        &["controller_pod"],
    ),
    asked("nginx_ingress_controller_requests", OF_TARGET, "", &["exported_namespace"]),
    asked("nginx_ingress_controller_requests", INGRESS_OF_TARGET, "", BY_INGRESS),
    asked("nginx_ingress_controller_requests", INGRESS_OF_TARGET, "status!~\"[4-5].*\"", BY_INGRESS),
    asked("nginx_ingress_controller_requests", INGRESS, "", BY_INGRESS),
    asked("nginx_ingress_controller_nginx_process_connections", POD, "state=\"active\"", &[]),
    asked("nginx_ingress_controller_success", POD, "", &[]),
    asked(
        "nginx_ingress_controller_config_last_reload_successful",
        &["controller_pod", "controller_namespace"],
        "",
        &[],
    ),
    asked(
        "nginx_ingress_controller_config_last_reload_successful_timestamp_seconds",
        &["controller_class", "namespace"],
        "instance!=\"unknown\"",
        &["controller_class"],
    ),
    asked("nginx_ingress_controller_request_size_sum", POD, "", &[]),
    asked("nginx_ingress_controller_response_size_sum", POD, "", &[]),
    asked("nginx_ingress_controller_request_size_sum", INGRESS, "ingress!=\"\"", BY_INGRESS),
    asked("nginx_ingress_controller_response_size_sum", INGRESS, "ingress!=\"\"", BY_INGRESS),
    asked("nginx_ingress_controller_nginx_process_resident_memory_bytes", POD, "", &[]),
    asked("nginx_ingress_controller_nginx_process_cpu_seconds_total", POD, "", &[]),
    asked(
        "nginx_ingress_controller_request_duration_seconds_bucket",
        INGRESS,
        "ingress!=\"\"",
        &["le", "ingress"],
    ),
    asked("nginx_ingress_controller_ssl_expire_time_seconds", &["namespace"], "", &["host"]),
];

/// Labels that `nginx.json` selects certificates by, and that ingress-nginx does not give them: only All finds any.
pub(crate) const NOWHERE: [&str; 2] = ["kubernetes_pod_name", "ingress"];

/// `request-handling-performance.json`, with its variable.
pub(crate) const PERFORMANCE: &[Asked] = &[
    asked("nginx_ingress_controller_requests", &[], "", BY_INGRESS),
    asked("nginx_ingress_controller_request_duration_seconds_bucket", BY_INGRESS, "", &["le"]),
    asked("nginx_ingress_controller_response_duration_seconds_bucket", BY_INGRESS, "", &["le"]),
    asked(
        "nginx_ingress_controller_response_duration_seconds_bucket",
        BY_INGRESS,
        "",
        &["le", "method", "host", "path"],
    ),
    asked("nginx_ingress_controller_request_duration_seconds_count", BY_INGRESS, "", BY_PATH),
    asked(
        "nginx_ingress_controller_request_duration_seconds_count",
        BY_INGRESS,
        "status=~\"[4-5].*\"",
        &["method", "host", "path", "status"],
    ),
    asked("nginx_ingress_controller_response_duration_seconds_sum", BY_INGRESS, "", BY_PATH),
    asked("nginx_ingress_controller_response_size_sum", BY_INGRESS, "", BY_PATH),
    asked("nginx_ingress_controller_response_size_count", BY_INGRESS, "", BY_PATH),
    asked("nginx_ingress_controller_response_size_bucket", BY_INGRESS, "", &["le"]),
];

const POD_OF_CLASS: &[&str] = &["controller_class", "controller_pod"];
const OF_INGRESS: &[&str] = &["controller_class", "ingress", "namespace", "controller_pod"];
const DURATIONS: &str = "nginx_ingress_controller_request_duration_seconds_bucket";

/// grafana.com 14314, with its variables. Its `namespace` is that of the Ingress: it wants `honorLabels`.
pub(crate) const NEXT: &[Asked] = &[
    asked("nginx_ingress_controller_config_hash", &[], "", &["controller_class"]),
    asked("nginx_ingress_controller_config_hash", &["controller_class"], "", &["controller_pod"]),
    asked("nginx_ingress_controller_requests", &["controller_class"], "", &["namespace"]),
    asked("nginx_ingress_controller_requests", &["namespace", "controller_class"], "", BY_INGRESS),
    asked("nginx_ingress_controller_requests", OF_INGRESS, "", BY_INGRESS),
    asked("nginx_ingress_controller_requests", OF_INGRESS, "", &["status"]),
    asked("nginx_ingress_controller_requests", OF_INGRESS, "status!~\"[4-5].*\"", BY_INGRESS),
    asked("nginx_ingress_controller_requests", OF_INGRESS, "status=~\"404|499\"", &[]),
    asked("nginx_ingress_controller_requests", OF_INGRESS, "status=~\"2.*\"", &[]),
    asked("nginx_ingress_controller_requests", OF_INGRESS, "status=~\"4.*\"", &[]),
    asked("nginx_ingress_controller_requests", OF_INGRESS, "status=~\"5.*\"", &[]),
    asked("nginx_ingress_controller_nginx_process_connections", POD_OF_CLASS, "state=~\"active\"", &[]),
    asked(DURATIONS, OF_INGRESS, "status!=\"404\", status!=\"500\"", &["le", "ingress"]),
    asked(DURATIONS, OF_INGRESS, "le=\"0.01\"", &[]),
    asked(DURATIONS, OF_INGRESS, "le=\"0.1\"", &[]),
    asked(DURATIONS, OF_INGRESS, "le=\"1\"", &[]),
    asked(DURATIONS, OF_INGRESS, "le=\"10\"", &[]),
    asked(DURATIONS, OF_INGRESS, "le=\"+Inf\"", &[]),
];

/// The examples of alerts in the chart of ingress-nginx.
pub(crate) const ALERTS: &[Asked] = &[
    asked("nginx_ingress_controller_config_last_reload_successful", &[], "", &[]),
    asked("nginx_ingress_controller_ssl_expire_time_seconds", &[], "host!=\"_\"", &["host"]),
    asked("nginx_ingress_controller_requests", &[], "status=~\"5.+\"", &[]),
    asked("nginx_ingress_controller_requests", &[], "status=~\"4.+\"", &[]),
    asked("nginx_ingress_controller_requests", &[], "", &[]),
];
