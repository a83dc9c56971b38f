//! Variables defined by nginx and ingress-nginx: a snippet may read those with an equivalent (`value`), and set none.

/// Whether nginx or ingress-nginx defines a variable. In lower case.
pub(crate) fn is_builtin_variable(name: &str) -> bool {
    INGRESS_NGINX_VARIABLES.contains(&name)
        || NGINX_VARIABLES.contains(&name)
        || VARIABLE_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Variables of `nginx.tmpl` (ingress-nginx v1.15).
const INGRESS_NGINX_VARIABLES: [&str; 37] = [
    "balancer_ewma_score",
    "best_http_host",
    "cache_key",
    "connection_upgrade",
    "cors",
    "escaped_request_uri",
    "force_no_ssl_redirect",
    "force_ssl_redirect",
    "full_x_forwarded_for",
    "full_x_forwarded_proto",
    "global_rate_limit_exceeding",
    "ingress_name",
    "literal_dollar",
    "location_path",
    "loggable",
    "namespace",
    "new_uri",
    "pass_access_scheme",
    "pass_port",
    "pass_server_port",
    "preserve_trailing_slash",
    "proxy_alternative_upstream_name",
    "proxy_upstream_name",
    "redirect_to",
    "req_id",
    "request_uri_no_args",
    "service_name",
    "service_port",
    "session_cookie",
    "ssl_client_dn",
    "subdomain",
    "target",
    "the_real_ip",
    "tmp_cache_key",
    "use_port_in_redirects",
    "validation",
    "whitelist",
];

/// Variables of the nginx 1.30 modules in ingress-nginx ("Alphabetical index of variables").
const NGINX_VARIABLES: [&str; 61] = [
    "ancient_browser",
    "args",
    "binary_remote_addr",
    "body_bytes_sent",
    "bytes_sent",
    "connection",
    "content_length",
    "content_type",
    "date_gmt",
    "date_local",
    "document_root",
    "document_uri",
    "ech_status",
    "gzip_ratio",
    "host",
    "hostname",
    "https",
    "http2",
    "http3",
    "invalid_referer",
    "is_args",
    "is_request_port",
    "limit_conn_status",
    "limit_rate",
    "limit_req_status",
    "memcached_key",
    "modern_browser",
    "modsecurity_status",
    "msec",
    "msie",
    "nginx_version",
    "pid",
    "pipe",
    "proxy_add_x_forwarded_for",
    "proxy_host",
    "proxy_internal_body_length",
    "proxy_internal_chunked",
    "proxy_port",
    "query_string",
    "realpath_root",
    "remote_addr",
    "remote_port",
    "remote_user",
    "request",
    "request_body",
    "request_body_file",
    "request_completion",
    "request_filename",
    "request_id",
    "request_length",
    "request_method",
    "request_port",
    "request_time",
    "request_uri",
    "scheme",
    "slice_range",
    "spdy",
    "status",
    "time_iso8601",
    "time_local",
    "uri",
];

/// Prefixes of variable families.
const VARIABLE_PREFIXES: [&str; 30] = [
    "__",
    "apache_bytes_sent",
    "arg_",
    "auth_",
    "authheader",
    "connection_",
    "connections_",
    "cookie_",
    "date_",
    "fastcgi_",
    "geoip2_",
    "geoip_",
    "grpc_",
    "http_",
    "jwt_",
    "oidc_",
    "opentelemetry_",
    "otel_",
    "proxy_protocol_",
    "realip_",
    "secure_link",
    "sent_http_",
    "sent_trailer_",
    "server_",
    "session_log_",
    "spdy_",
    "ssl_",
    "tcpinfo_",
    "uid_",
    "upstream_",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_nginx_are_distinguished_from_those_of_snippets() {
        for name in ["server_addr", "args", "http_x", "req_id", "connection_upgrade", "http2", "loggable"] {
            assert!(is_builtin_variable(name), "{name}");
        }
        for name in ["bad", "my_host", "cors_origin", "is_bot", "http", "argument"] {
            assert!(!is_builtin_variable(name), "{name}");
        }
    }
}
