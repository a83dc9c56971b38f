//! The queries of well-known dashboards for ingress-nginx: its own two (`nginx.json`, grafana.com 9614, and
//! `request-handling-performance.json`, as of its last release), grafana.com 14314, and the alerts of its chart. Lists metrics,
//! the labels they select by, and the labels they group by.

/// Series that a query selects.
pub(crate) struct SelectedSeries {
    pub(crate) metric: &'static str,
    /// Labels that are matched with dashboard variables, which can have any value.
    pub(crate) variables: &'static [&'static str],
    /// Conditions with fixed values.
    pub(crate) fixed: &'static str,
    pub(crate) grouped: &'static [&'static str],
}

const fn selected_series(
    metric: &'static str,
    variables: &'static [&'static str],
    fixed: &'static str,
    grouped: &'static [&'static str],
) -> SelectedSeries {
    SelectedSeries { metric, variables, fixed, grouped }
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
pub(crate) const CONTROLLER: &[SelectedSeries] = &[
    selected_series("nginx_ingress_controller_config_hash", &[], "", &["controller_namespace"]),
    selected_series("nginx_ingress_controller_config_hash", &["namespace"], "", &["controller_class"]),
    selected_series(
        "nginx_ingress_controller_config_hash",
        &["namespace", "controller_class"],
        "",
        &["controller_pod"],
    ),
    selected_series("nginx_ingress_controller_requests", OF_TARGET, "", &["exported_namespace"]),
    selected_series("nginx_ingress_controller_requests", INGRESS_OF_TARGET, "", BY_INGRESS),
    selected_series(
        "nginx_ingress_controller_requests",
        INGRESS_OF_TARGET,
        "status!~\"[4-5].*\"",
        BY_INGRESS,
    ),
    selected_series("nginx_ingress_controller_requests", INGRESS, "", BY_INGRESS),
    selected_series("nginx_ingress_controller_nginx_process_connections", POD, "state=\"active\"", &[]),
    selected_series("nginx_ingress_controller_success", POD, "", &[]),
    selected_series(
        "nginx_ingress_controller_config_last_reload_successful",
        &["controller_pod", "controller_namespace"],
        "",
        &[],
    ),
    selected_series(
        "nginx_ingress_controller_config_last_reload_successful_timestamp_seconds",
        &["controller_class", "namespace"],
        "instance!=\"unknown\"",
        &["controller_class"],
    ),
    selected_series("nginx_ingress_controller_request_size_sum", POD, "", &[]),
    selected_series("nginx_ingress_controller_response_size_sum", POD, "", &[]),
    selected_series("nginx_ingress_controller_request_size_sum", INGRESS, "ingress!=\"\"", BY_INGRESS),
    selected_series("nginx_ingress_controller_response_size_sum", INGRESS, "ingress!=\"\"", BY_INGRESS),
    selected_series("nginx_ingress_controller_nginx_process_resident_memory_bytes", POD, "", &[]),
    selected_series("nginx_ingress_controller_nginx_process_cpu_seconds_total", POD, "", &[]),
    selected_series(
        "nginx_ingress_controller_request_duration_seconds_bucket",
        INGRESS,
        "ingress!=\"\"",
        &["le", "ingress"],
    ),
    selected_series("nginx_ingress_controller_ssl_expire_time_seconds", &["namespace"], "", &["host"]),
];

/// Labels by which `nginx.json` selects certificates, but which ingress-nginx does not set: only All finds any.
pub(crate) const NOWHERE: [&str; 2] = ["kubernetes_pod_name", "ingress"];

/// `request-handling-performance.json`, with its variable.
pub(crate) const PERFORMANCE: &[SelectedSeries] = &[
    selected_series("nginx_ingress_controller_requests", &[], "", BY_INGRESS),
    selected_series("nginx_ingress_controller_request_duration_seconds_bucket", BY_INGRESS, "", &["le"]),
    selected_series("nginx_ingress_controller_response_duration_seconds_bucket", BY_INGRESS, "", &["le"]),
    selected_series(
        "nginx_ingress_controller_response_duration_seconds_bucket",
        BY_INGRESS,
        "",
        &["le", "method", "host", "path"],
    ),
    selected_series("nginx_ingress_controller_request_duration_seconds_count", BY_INGRESS, "", BY_PATH),
    selected_series(
        "nginx_ingress_controller_request_duration_seconds_count",
        BY_INGRESS,
        "status=~\"[4-5].*\"",
        &["method", "host", "path", "status"],
    ),
    selected_series("nginx_ingress_controller_response_duration_seconds_sum", BY_INGRESS, "", BY_PATH),
    selected_series("nginx_ingress_controller_response_size_sum", BY_INGRESS, "", BY_PATH),
    selected_series("nginx_ingress_controller_response_size_count", BY_INGRESS, "", BY_PATH),
    selected_series("nginx_ingress_controller_response_size_bucket", BY_INGRESS, "", &["le"]),
];

const POD_OF_CLASS: &[&str] = &["controller_class", "controller_pod"];
const OF_INGRESS: &[&str] = &["controller_class", "ingress", "namespace", "controller_pod"];
const DURATIONS: &str = "nginx_ingress_controller_request_duration_seconds_bucket";

/// grafana.com 14314, with its variables. Its `namespace` is that of the Ingress: it requires `honorLabels`.
pub(crate) const NEXT: &[SelectedSeries] = &[
    selected_series("nginx_ingress_controller_config_hash", &[], "", &["controller_class"]),
    selected_series("nginx_ingress_controller_config_hash", &["controller_class"], "", &["controller_pod"]),
    selected_series("nginx_ingress_controller_requests", &["controller_class"], "", &["namespace"]),
    selected_series("nginx_ingress_controller_requests", &["namespace", "controller_class"], "", BY_INGRESS),
    selected_series("nginx_ingress_controller_requests", OF_INGRESS, "", BY_INGRESS),
    selected_series("nginx_ingress_controller_requests", OF_INGRESS, "", &["status"]),
    selected_series("nginx_ingress_controller_requests", OF_INGRESS, "status!~\"[4-5].*\"", BY_INGRESS),
    selected_series("nginx_ingress_controller_requests", OF_INGRESS, "status=~\"404|499\"", &[]),
    selected_series("nginx_ingress_controller_requests", OF_INGRESS, "status=~\"2.*\"", &[]),
    selected_series("nginx_ingress_controller_requests", OF_INGRESS, "status=~\"4.*\"", &[]),
    selected_series("nginx_ingress_controller_requests", OF_INGRESS, "status=~\"5.*\"", &[]),
    selected_series(
        "nginx_ingress_controller_nginx_process_connections",
        POD_OF_CLASS,
        "state=~\"active\"",
        &[],
    ),
    selected_series(DURATIONS, OF_INGRESS, "status!=\"404\", status!=\"500\"", &["le", "ingress"]),
    selected_series(DURATIONS, OF_INGRESS, "le=\"0.01\"", &[]),
    selected_series(DURATIONS, OF_INGRESS, "le=\"0.1\"", &[]),
    selected_series(DURATIONS, OF_INGRESS, "le=\"1\"", &[]),
    selected_series(DURATIONS, OF_INGRESS, "le=\"10\"", &[]),
    selected_series(DURATIONS, OF_INGRESS, "le=\"+Inf\"", &[]),
];

/// The example alerts in the chart of ingress-nginx.
pub(crate) const ALERTS: &[SelectedSeries] = &[
    selected_series("nginx_ingress_controller_config_last_reload_successful", &[], "", &[]),
    selected_series("nginx_ingress_controller_ssl_expire_time_seconds", &[], "host!=\"_\"", &["host"]),
    selected_series("nginx_ingress_controller_requests", &[], "status=~\"5.+\"", &[]),
    selected_series("nginx_ingress_controller_requests", &[], "status=~\"4.+\"", &[]),
    selected_series("nginx_ingress_controller_requests", &[], "", &[]),
];
