//! How lines of snippets are converted.

use super::*;

const PREFIX: &str = "nginx.ingress.kubernetes.io";

/// A line of a snippet.
fn complete_line(line: &str) -> String {
    match line.strip_suffix(" }") {
        Some(block) => format!("{block}; }}"),
        None => format!("{line};"),
    }
}

fn annotations(snippet: &str) -> Vec<String> {
    let found = proposal(snippet, PREFIX);
    assert_eq!((found.remaining, found.hints), (Vec::new(), Vec::new()), "{snippet}");
    found.annotations.into_iter().map(|(name, value)| format!("{name} {value}")).collect()
}

#[test]
fn headers_become_edits() {
    assert_eq!(
        annotations(
            "proxy_set_header X-Team \"the shop\"; # ours\nproxy_set_header X-Debug '';\n\
             more_set_headers \"X-Frame-Options: DENY\" 'Referrer-Policy: no-referrer';\nmore_clear_headers Server;\n\
             add_header Vary Origin always;"
        ),
        [
            r#"fairway.dev/request-headers {"remove":["X-Debug"],"set":{"X-Team":"the shop"}}"#,
            r#"fairway.dev/response-headers {"add":{"Vary":"Origin"},"remove":["Server"],"set":{"Referrer-Policy":"no-referrer","X-Frame-Options":"DENY"}}"#,
        ]
    );
}

#[test]
fn conditions_that_refuse_become_deny() {
    assert_eq!(
        annotations(
            "if ($http_user_agent ~* \"(curl|bot)\") { return 403; }\nif ($request_method ~ ^(PUT|DELETE)$) { return 403; }\n\
             if ($arg_debug = 1) { deny all; }"
        ),
        [concat!(
            r#"fairway.dev/deny {"when":[{"headers":{"user-agent":"(?s:.*)(?i:(curl|bot))(?s:.*)"}},"#,
            r#"{"methods":["PUT","DELETE"]},{"query":{"debug":"1"}}]}"#
        )]
    );
}

#[test]
fn patterns_are_found_anywhere_and_keep_their_backslashes() {
    for (condition, pattern) in [
        (r"$uri ~ \.php$", r"(?s:.*)(?:\\.php$)(?s:.*)"),
        (r#"$uri ~ "\d{5}""#, r"(?s:.*)(?:\\d{5})(?s:.*)"),
        (r#"$uri ~* '\\.(bak|old)'"#, r"(?s:.*)(?i:\\.(bak|old))(?s:.*)"),
    ] {
        let expected = format!(r#"fairway.dev/deny {{"when":[{{"path":"{pattern}"}}]}}"#);
        assert_eq!(annotations(&format!("if ({condition}) {{ return 403; }}")), [expected]);
    }
}

#[test]
fn rules_that_would_refuse_less_than_the_snippet_are_not_proposed() {
    for line in [
        r"if ($http_x_key ~ ^$) { return 403 }",
        r"if ($http_x_key ~* ^(none)?$) { return 403 }",
        r"if ($arg_key ~ .*) { deny all }",
        r"if ($http_x_key ~ (?!secret)) { return 403 }",
        r"if ($uri ~ .*) { return 403 }",
        r"if ($http_connection ~* upgrade) { return 403 }",
        r"if ($http_transfer_encoding = chunked) { return 403 }",
        r"if ($http_te ~ .) { return 403 }",
        r"if ($http_upgrade = h2c) { return 403 }",
    ] {
        let found = proposal(&complete_line(line), PREFIX);
        assert_eq!((found.annotations, found.remaining), (Vec::new(), vec![line.to_owned()]));
    }
    assert_eq!(proposal(r#"if ($arg_key = "") { return 403; }"#, PREFIX).annotations, []);
    let line = r"if ($request_uri ~* \.\.) { return 403 }";
    let found = proposal(&complete_line(line), PREFIX);
    assert_eq!((found.annotations, found.remaining), (Vec::new(), Vec::new()));
    assert_eq!(found.hints.len(), 1);
    assert_eq!(found.hints[0].0, line);
    assert!(found.hints[0].1.contains("with path or query"), "{:?}", found.hints);
}

#[test]
fn times_become_whole_seconds() {
    let read = |time: &str| annotations(&format!("proxy_read_timeout {time};"));
    for (time, seconds) in [("30", 30), ("30s", 30), ("10m", 600), ("1h", 3600), ("500ms", 1), ("1500ms", 2)]
    {
        assert_eq!(read(time), [format!("nginx.ingress.kubernetes.io/proxy-read-timeout {seconds}")]);
    }
    assert_eq!(
        annotations("proxy_connect_timeout 2s; proxy_send_timeout 1d;"),
        [
            "nginx.ingress.kubernetes.io/proxy-connect-timeout 2",
            "nginx.ingress.kubernetes.io/proxy-send-timeout 86400",
        ]
    );
    for line in ["proxy_read_timeout 1h30m", "proxy_read_timeout 0", "proxy_send_timeout 1w"] {
        let found = proposal(&complete_line(line), PREFIX);
        assert_eq!((found.annotations, found.remaining), (Vec::new(), vec![line.to_owned()]));
    }
}

#[test]
fn headers_that_fairway_sets_are_edited_and_hop_by_hop_headers_are_not() {
    assert_eq!(
        annotations("proxy_set_header X-Forwarded-Proto https; more_clear_input_headers X-Forwarded-Port;"),
        [
            r#"fairway.dev/request-headers {"remove":["X-Forwarded-Port"],"set":{"X-Forwarded-Proto":"https"}}"#
        ]
    );
    let connection = proposal("proxy_set_header Connection close; proxy_set_header Upgrade '';", PREFIX);
    assert_eq!((connection.annotations.len(), connection.remaining.len()), (0, 2));
}

#[test]
fn redirects_addresses_and_limits_have_annotations() {
    assert_eq!(
        annotations("return 301 https://new.example.com$request_uri;"),
        [r#"fairway.dev/redirect {"host":"new.example.com","scheme":"https","status":301}"#]
    );
    assert_eq!(
        annotations(
            "set_real_ip_from 10.0.0.0/8; set_real_ip_from 192.0.2.1; real_ip_header CF-Connecting-IP;"
        ),
        [r#"fairway.dev/real-ip {"header":"CF-Connecting-IP","trusted":["10.0.0.0/8","192.0.2.1"]}"#]
    );
    assert_eq!(
        annotations(
            "client_max_body_size 8m; proxy_read_timeout 30s; allow 10.0.0.0/8; allow 192.0.2.0/24; \
             deny all;"
        ),
        [
            "nginx.ingress.kubernetes.io/proxy-body-size 8m",
            "nginx.ingress.kubernetes.io/proxy-read-timeout 30",
            "nginx.ingress.kubernetes.io/whitelist-source-range 10.0.0.0/8,192.0.2.0/24",
        ]
    );
}

#[test]
fn directives_without_an_annotation_are_left() {
    let remaining_lines = |snippet: &str| {
        let found = proposal(snippet, PREFIX);
        assert_eq!((found.annotations, found.hints), (Vec::new(), Vec::new()));
        found.remaining
    };
    assert_eq!(
        remaining_lines("proxy_set_header X-User $remote_user;"),
        ["proxy_set_header X-User $remote_user"]
    );
    assert_eq!(remaining_lines("rewrite ^/a /b last;"), ["rewrite ^/a /b last"]);
    assert_eq!(remaining_lines("if ($host = a) { rewrite ^ /b; }"), ["if ($host = a) { rewrite ^ /b }"]);
    assert_eq!(remaining_lines("return 200 'ok';"), ["return 200 ok"]);
    assert_eq!(remaining_lines("set_real_ip_from 10.0.0.0/8;"), ["set_real_ip_from 10.0.0.0/8"]);
    assert_eq!(remaining_lines("proxy_pass http://${upstream}/a;"), ["proxy_pass http://${upstream}/a"]);
    assert_eq!(
        remaining_lines("content_by_lua_block { ngx.say(1) }"),
        ["line 1, \"content_by_lua_block\": Lua is not run"]
    );
    assert_eq!(remaining_lines("allow all;\n}"), ["line 2, \"}\": it closes no block of the snippet"]);
}

#[test]
fn deny_all_after_an_allow_is_the_end_of_an_allow_list() {
    let allowed = "nginx.ingress.kubernetes.io/whitelist-source-range 10.0.0.0/8";
    let denied = |range: &str| format!("nginx.ingress.kubernetes.io/denylist-source-range {range}");
    let everything = r#"fairway.dev/deny {"when":[{"path":"/"}]}"#;
    assert_eq!(annotations("allow 10.0.0.0/8; deny all;"), [allowed]);
    assert_eq!(
        annotations("deny 10.1.0.0/16; allow 10.0.0.0/8; deny all;"),
        [&denied("10.1.0.0/16"), allowed]
    );
    assert_eq!(annotations("allow 10.0.0.0/8; deny 10.1.0.0/16; deny all; allow 192.0.2.1;"), [allowed]);
    assert_eq!(annotations("deny 192.0.2.1; allow all; deny all;"), [denied("192.0.2.1")]);
    // The first rule that matches decides.
    assert_eq!(annotations("deny all; allow 10.0.0.0/8;"), [everything]);
    assert_eq!(annotations("deny 10.1.0.0/16; deny all;"), [everything]);
    let exceptions = "allow 10.1.0.0/16; deny 10.0.0.0/8; allow 0.0.0.0/0; deny all";
    let found = proposal(&complete_line(exceptions), PREFIX);
    assert_eq!(found.annotations, []);
    assert_eq!(found.remaining, exceptions.split("; ").collect::<Vec<_>>());
    assert_eq!(proposal("allow 10.0.0.0/8;", PREFIX).hints.len(), 1, "it restricts nobody");
}

#[test]
fn annotations_have_the_configured_prefix() {
    let found = proposal("client_max_body_size 8m; auth_request /auth;", "nginx.example.com");
    assert_eq!(found.annotations, [("nginx.example.com/proxy-body-size".to_owned(), "8m".to_owned())]);
    assert_eq!(found.hints, [("auth_request /auth".to_owned(), "use nginx.example.com/auth-url".to_owned())]);
}

#[test]
fn a_rewrite_of_every_path_to_a_fixed_url_is_a_redirect() {
    assert_eq!(
        annotations("rewrite ^ https://new.example.com/docs permanent;"),
        [concat!(
            r#"fairway.dev/redirect {"host":"new.example.com","path":"/docs","port":443,"#,
            r#""scheme":"https","status":301}"#
        )]
    );
    assert_eq!(
        annotations("rewrite ^/(.*) http://new.example.com/docs? redirect;"),
        [r#"fairway.dev/redirect {"status":302,"url":"http://new.example.com/docs"}"#]
    );
    for line in [
        "rewrite ^/old$ https://new.example.com/ permanent",
        "rewrite ^ https://new.example.com$request_uri permanent",
        "rewrite ^/(.*) https://new.example.com/$1 permanent",
        "rewrite ^ https://new.example.com permanent",
        "rewrite ^ https://new.example.com/a%20b permanent",
        "rewrite ^ https://new.example.com/?a=b permanent",
        "rewrite ^ https://new.example.com:8443/ permanent",
        "rewrite ^ /docs permanent",
        "rewrite ^ https://new.example.com/docs last",
    ] {
        let found = proposal(&complete_line(line), PREFIX);
        assert_eq!((found.annotations, found.remaining), (Vec::new(), vec![line.to_owned()]));
    }
}

#[test]
fn directives_that_need_other_values_have_a_hint() {
    let snippet =
        "error_page 404 /404.html; auth_basic \"staff\"; limit_req zone=one burst=5; auth_basic off;";
    let found = proposal(snippet, "n");
    assert_eq!(found.annotations, []);
    assert_eq!(found.remaining, ["auth_basic off"]);
    let hints: Vec<_> = found.hints.iter().map(|(line, hint)| format!("{line}: {hint}")).collect();
    assert_eq!(
        hints,
        [
            "error_page 404 /404.html: use n/custom-http-errors and n/default-backend",
            "auth_basic staff: use n/auth-type and n/auth-secret",
            "limit_req zone=one burst=5: use n/limit-rps",
        ]
    );
}
