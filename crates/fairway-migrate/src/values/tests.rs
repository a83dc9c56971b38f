//! Tests of the conversion. Every outcome is validated against the schema of Fairway's chart.

use std::path::Path;

use fairway_objects::manifest::{self, Schema};
use fairway_testkit::json_schema;
use serde_json::json;

use super::*;

/// A file of Fairway's chart.
fn chart(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    std::fs::read_to_string(root.join("charts/fairway").join(name)).unwrap()
}

/// The values of Fairway's chart.
fn values_of_the_chart() -> Value {
    manifest::parse_single(&chart("values.yaml"), Schema::Yaml11).unwrap().unwrap().to_json()
}

/// Values over values, as Helm merges them.
fn merge(under: &mut Value, over: &Value) {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => {
            for (key, value) in over {
                merge(under.entry(key).or_insert(Value::Null), value);
            }
        }
        (under, over) => *under = over.clone(),
    }
}

/// Converts values. The flag `known` is one of Fairway's, the flag `usual` has no effect.
fn converted(input: &Value) -> Converted {
    let flag = |name: &str, value: &str| match name {
        "known" => FlagMeaning::Argument(format!("--known={value}")),
        "usual" => FlagMeaning::Nothing("nothing".to_owned()),
        _ => FlagMeaning::Lost("unknown".to_owned()),
    };
    let converted = convert(input.as_object().unwrap(), &flag);
    let mut all = values_of_the_chart();
    merge(&mut all, &converted.values);
    let schema: Value = serde_json::from_str(&chart("values.schema.json")).unwrap();
    assert_eq!(json_schema::problems(&schema, &all), [""; 0], "{input}");
    converted
}

/// Checks the values, without the one that is always set, and the paths of the losses.
fn check(input: &Value, expected: &Value, lost: &[&str]) {
    let mut it = converted(input);
    let values = it.values.as_object_mut().unwrap();
    if values.get("ingressClass") == Some(&json!({ "compat": true })) {
        values.remove("ingressClass");
    }
    let paths: Vec<_> = it.lost.iter().map(|finding| finding.path.as_str()).collect();
    assert_eq!((&it.values, paths), (expected, lost.to_vec()), "{input}");
}

/// The finding for a path; empty if there is none.
fn finding_for(input: &Value, path: &str) -> String {
    let it = converted(input);
    let found = it.lost.into_iter().chain(it.findings).find(|finding| finding.path == path);
    found.map(|finding| finding.description).unwrap_or_default()
}

#[test]
fn without_values_the_classes_of_ingress_nginx_are_served() {
    assert_eq!(converted(&json!({})).values, json!({ "ingressClass": { "compat": true } }));
}

#[test]
fn unknown_paths_are_reported_with_their_descendants() {
    let hpa = json!({ "a": 1, "b": 2 });
    let input = json!({ "controller": { "hpa": hpa, "replicaCount": 3 }, "controller.kind": "DaemonSet" });
    check(&input, &json!({ "replicas": 3 }), &["controller.hpa", "controller.kind"]);
    assert!(finding_for(&input, "controller.hpa").ends_with("(lost with it: a, b)"));
    let input = json!({ "defaultBackend": { "enabled": true, "image": { "tag": "1" }, "replicaCount": 2 } });
    check(&input, &json!({}), &["defaultBackend"]);
    assert!(finding_for(&input, "defaultBackend").ends_with("(lost with it: image, replicaCount)"));
    check(&json!({ "defaultBackend": { "enabled": false, "replicaCount": 2 } }), &json!({}), &[]);
}

#[test]
fn a_wrong_type_is_reported_and_the_rest_is_converted() {
    let input = json!({ "controller": {
        "replicaCount": "three", "kind": "DaemonSet", "service": [1],
        "ingressClass": 4, "admissionWebhooks": { "timeoutSeconds": 60 }, "extraEnvs": [{ "value": "b" }],
    }, "rbac": true });
    let lost = [
        "controller.admissionWebhooks.timeoutSeconds",
        "controller.extraEnvs",
        "controller.ingressClass",
        "controller.replicaCount",
        "controller.service",
        "rbac",
    ];
    check(&input, &json!({ "kind": "DaemonSet" }), &lost);
    let expected = "expected a whole number that Fairway's chart takes here, found";
    assert_eq!(finding_for(&input, "controller.replicaCount"), format!("{expected} \"three\""));
    assert_eq!(finding_for(&input, "controller.admissionWebhooks.timeoutSeconds"), format!("{expected} 60"));
    assert_eq!(finding_for(&input, "controller.service"), "expected a mapping, found a list");
}

#[test]
fn values_that_fairways_chart_would_refuse_are_reported_and_omitted() {
    let input = json!({ "controller": {
        "hostNetwork": true, "containerPort": { "http": 70000 }, "ingressClass": "My_Class",
        "terminationGracePeriodSeconds": 100_000, "extraArgs": { "watch-namespace": "a,B" },
        "service": { "loadBalancerSourceRanges": ["everywhere"], "ipFamilies": ["IPv5"] },
    } });
    check(
        &input,
        &json!({ "hostNetwork": true, "ports": { "http": 80, "https": 443 } }),
        &[
            "controller.containerPort.http",
            "controller.extraArgs.watch-namespace",
            "controller.ingressClass",
            "controller.service.ipFamilies",
            "controller.service.loadBalancerSourceRanges",
            "controller.terminationGracePeriodSeconds",
        ],
    );
}

#[test]
fn empty_values_have_no_effect() {
    let input = json!({ "tcp": {}, "dhParam": "", "controller": {
        "extraVolumes": [], "addHeaders": {}, "allowSnippetAnnotations": false, "topologySpreadConstraints": [],
        "nodeSelector": {}, "progressDeadlineSeconds": 0, "somethingNew": {},
        "service": { "nodePorts": { "http": "" }, "healthCheckNodePort": 0, "ipFamilies": [] },
        "keda": { "enabled": false, "minReplicas": 1 }, "admissionWebhooks": null,
    } });
    check(&input, &json!({}), &[]);
}

#[test]
fn tcp_and_udp_services_keep_their_ports() {
    let input = json!({
        "tcp": {
            "5432": "db/pg:5432", "6379": "cache/redis:redis:PROXY:PROXY", "6380": "cache/redis:redis::PROXY",
            "8443": "a/b:1", "9000": "b:1", "9001": "a/b:1:PROXI", "ssh": "a/b:22", "9002": "{{ .Values.x }}",
        },
        "udp": { "53": "kube-system/kube-dns:53", "54": "kube-system/kube-dns:53:PROXY" },
        "controller": {
            "hostPort": { "enabled": true }, "service": { "nodePorts": { "tcp": { "5432": 30432, "x": 1 } } },
        },
    });
    check(
        &input,
        &json!({
            "tcp": {
                "5432": "db/pg:5432", "6379": "cache/redis:redis:PROXY:PROXY", "6380": "cache/redis:redis::PROXY",
            },
            "udp": { "53": "kube-system/kube-dns:53", "54": "kube-system/kube-dns:53" },
            "hostPorts": { "http": 80, "https": 443, "services": true },
            "service": { "nodePorts": { "tcp": { "5432": 30432 } } },
        }),
        &["controller.service.nodePorts.tcp.x", "tcp.9000", "tcp.9001", "tcp.9002", "tcp.ssh", "tcp.8443"],
    );
    assert!(finding_for(&input, "tcp.8443").contains("ports.https"));
}

#[test]
fn templates_are_not_passed_on() {
    let template = "{{ .Release.Name }}";
    let input = json!({ "controller": {
        "podLabels": { "a": template }, "config": { "keep-alive": template, "keep-alive-requests": 7 },
        "extraArgs": { "known": template }, "ingressClass": template,
    } });
    check(
        &input,
        &json!({ "settings": { "keep-alive-requests": "7" } }),
        &[
            "controller.config.keep-alive",
            "controller.extraArgs.known",
            "controller.ingressClass",
            "controller.podLabels",
        ],
    );
    assert!(finding_for(&input, "controller.podLabels").contains("Helm templates"));
}

#[test]
fn settings_become_text_and_each_is_judged_as_check_does() {
    let input = json!({ "controller": { "config": {
        "keep-alive": 75, "ssl-redirect": false, "proxy-busy-buffers-size": "8k",
        "server-tokens": true, "keepalive": "many", "no-such-key": "x", "http-snippet": "sub_filter a b;", "list": [],
        "use-forwarded-headers": true,
    } } });
    let it = converted(&input);
    assert_eq!(it.values["settings"]["keep-alive"], "75");
    assert_eq!(it.values["settings"]["http-snippet"], "sub_filter a b;", "what it protects stays closed");
    let paths: Vec<_> = it.lost.iter().map(|finding| finding.path.as_str()).collect();
    let lost = ["list", "http-snippet", "keepalive", "no-such-key", "server-tokens"];
    assert_eq!(paths, lost.map(|key| format!("controller.config.{key}")));
    let notes: Vec<_> = it.findings.iter().map(|finding| finding.path.as_str()).collect();
    assert_eq!(
        notes,
        ["proxy-busy-buffers-size", "use-forwarded-headers"].map(|key| format!("controller.config.{key}"))
    );
    assert_eq!(
        finding_for(&input, "controller.config.server-tokens"),
        "Fairway does not name itself in responses; it has no effect"
    );
    check(&json!({ "controller": { "config": [1] } }), &json!({}), &["controller.config"]);
}

#[test]
fn settings_that_would_change_responses_are_lost() {
    let with = |buffers: &str, on: bool| {
        converted(&json!({ "controller": { "config": {
            "allow-cross-namespace-resources": on, "disable-proxy-intercept-errors": on,
            "large-client-header-buffers": buffers,
        } } }))
    };
    let keys =
        ["allow-cross-namespace-resources", "disable-proxy-intercept-errors", "large-client-header-buffers"];
    let it = with("4 32k", true);
    let paths: Vec<_> = it.lost.iter().map(|finding| finding.path.as_str()).collect();
    assert_eq!(paths, keys.map(|key| format!("controller.config.{key}")));
    assert_eq!(it.findings, []);
    let it = with("4 8k", false);
    assert_eq!(it.lost, []);
    let notes: Vec<_> = it.findings.iter().map(|finding| finding.path.as_str()).collect();
    assert_eq!(notes, ["controller.config.large-client-header-buffers"]);
}

#[test]
fn listeners_expect_a_proxy_header_as_in_ingress_nginx() {
    let with = |config: Value| json!({ "controller": { "config": config } });
    let ranges = json!({ "use-proxy-protocol": "true", "proxy-real-ip-cidr": "10.0.0.0/8, 192.0.2.1,2001:db8::/32,nobody" });
    let it = converted(&with(ranges));
    let trusted = ["10.0.0.0/8", "192.0.2.1/32", "2001:db8::/32"];
    assert_eq!(it.values["proxyProtocol"], json!({ "listeners": "both", "trusted": trusted }));
    let lost: Vec<_> = it.lost.iter().map(|finding| finding.path.as_str()).collect();
    assert_eq!(lost, ["controller.config.proxy-real-ip-cidr"], "one of its ranges is none");
    let everybody = with(json!({ "use-proxy-protocol": true }));
    let it = converted(&everybody);
    assert_eq!(it.values["proxyProtocol"], json!({ "listeners": "both" }));
    assert_eq!(it.lost, []);
    assert!(
        it.findings.iter().any(|note| note.description.contains("any client can claim any address")),
        "{:?}",
        it.findings
    );
    let off = converted(&with(json!({ "use-proxy-protocol": "false" })));
    assert_eq!(off.values.get("proxyProtocol"), None);
}

#[test]
fn flags_are_values_or_arguments_or_lost() {
    let input = json!({ "controller": { "extraArgs": {
        "default-ssl-certificate": "$(POD_NAMESPACE)/tls", "known": "", "usual": "1", "other": 2, "gone": null,
        "watch-namespace": "a, b,a", "watch-ingress-without-class": "",
        "update-status": "false", "publish-status-address": "192.0.2.1",
    } } });
    let mut it = converted(&input);
    it.values.as_object_mut().unwrap().remove("ingressClass");
    assert_eq!(
        it.values,
        json!({
            "defaultCertificate": "tls", "extraArgs": ["--known=true"], "watch": { "namespaces": ["a", "b"] },
            "status": { "enabled": false, "publishAddresses": ["192.0.2.1"] },
        })
    );
    assert_eq!(it.lost.len(), 1);
    assert_eq!(it.lost[0].path, "controller.extraArgs.other");
    assert!(finding_for(&input, "controller.extraArgs.default-ssl-certificate").contains("NAMESPACE/NAME"));
    assert_eq!(converted(&input).values["ingressClass"]["withoutClass"], true);
}

#[test]
fn a_class_of_another_name_is_kept_until_ingress_nginx_is_removed() {
    let class =
        |resource: Value| json!({ "controller": { "ingressClass": "in", "ingressClassResource": resource } });
    let input = class(json!({ "name": "in" }));
    check(&input, &json!({ "ingressClass": { "compat": true, "enabled": false, "name": "in" } }), &[]);
    assert!(
        finding_for(&input, "controller.ingressClassResource.name")
            .contains("set ingressClass.enabled to true")
    );
    // No object is created, so there is none to wait for.
    let input = class(json!({ "name": "in", "enabled": false }));
    check(&input, &json!({ "ingressClass": { "compat": true, "enabled": false, "name": "in" } }), &[]);
    assert_eq!(finding_for(&input, "controller.ingressClassResource.name"), "");
    // The annotation has the name, and the object is found by its controller.
    let input = class(json!({ "name": "other", "default": true }));
    check(&input, &json!({ "ingressClass": { "compat": true, "name": "in" } }), &[]);
    assert!(finding_for(&input, "controller.ingressClassResource.default").contains("two default classes"));
}

#[test]
fn the_classes_of_ingress_nginx_are_served_unless_its_controller_had_another_name() {
    check(
        &json!({ "controller": { "ingressClassResource": { "controllerValue": "k8s.io/in" } } }),
        &json!({
            "extraArgs": ["--controller-class=fairway.dev/ingress-controller,k8s.io/in"],
            "ingressClass": { "compat": false, "enabled": false, "name": "nginx" },
        }),
        &[],
    );
    check(
        &json!({ "controller": {
            "ingressClass": "nginx",
            "ingressClassResource": { "name": "nginx", "enabled": true, "controllerValue": "k8s.io/ingress-nginx" },
        } }),
        &json!({}),
        &[],
    );
}

#[test]
fn the_external_service_exists_only_if_both_switches_are_on() {
    let addresses = |path: &str| format!("controller.service.{path}");
    for (enabled, external, made) in
        [(true, true, true), (true, false, false), (false, true, false), (false, false, false)]
    {
        let service = json!({ "enabled": enabled, "external": { "enabled": external } });
        let it = converted(&json!({ "controller": { "service": service } }));
        assert_eq!(it.values.get("service").is_none(), made, "{service}");
        let lost = if enabled { "external.enabled" } else { "enabled" };
        let lost = if made { vec![] } else { vec![addresses(lost)] };
        assert_eq!(it.lost.into_iter().map(|finding| finding.path).collect::<Vec<_>>(), lost, "{service}");
    }
}

#[test]
fn the_internal_service_inherits_the_common_values() {
    let service = |external: bool, annotations: Value| {
        json!({ "controller": { "service": {
            "type": "LoadBalancer", "ports": { "https": 8443 }, "labels": { "a": "b" },
            "external": { "enabled": external },
            "internal": {
                "enabled": true, "annotations": annotations, "labels": { "c": 1 },
                "loadBalancerSourceRanges": ["10.0.0.0/8"],
            },
        } } })
    };
    let own_service = json!({ "type": "LoadBalancer", "ports": { "https": 8443 }, "labels": { "a": "b" } });
    let internal = json!({
        "enabled": true, "annotations": { "x": "y" }, "labels": { "a": "b", "c": "1" }, "type": "LoadBalancer",
        "ports": { "https": 8443 }, "loadBalancerSourceRanges": ["10.0.0.0/8"],
    });
    let both = json!({ "service": own_service, "internalService": internal });
    check(&service(true, json!({ "x": "y" })), &both, &[]);
    let it = converted(&service(false, json!({ "x": "y" })));
    assert_eq!(it.values["service"]["enabled"], false);
    assert_eq!((&it.values["internalService"], it.lost.len()), (&internal, 0), "its address is published");
    let without = service(true, json!({}));
    check(&without, &json!({ "service": own_service }), &[]);
    assert!(finding_for(&without, "controller.service.internal").contains("without annotations"));
    let off = json!({ "enabled": false, "loadBalancerIP": "10.0.0.1", "clusterIPs": ["10.0.0.2"] });
    let off = json!({ "controller": { "service": { "internal": off } } });
    check(&off, &json!({}), &[]);
    assert!(converted(&off).findings.is_empty());
    let wrong =
        json!({ "controller": { "service": { "internal": { "enabled": "yes", "type": "NodePort" } } } });
    check(&wrong, &json!({}), &["controller.service.internal.enabled"]);
}

#[test]
fn a_disabled_port_is_omitted() {
    let service = |service: Value| json!({ "controller": { "service": service } });
    let http_only = service(json!({ "enableHttps": false, "ports": { "https": 444 } }));
    check(&http_only, &json!({ "service": { "ports": { "https": null } } }), &[]);
    let tls_ends_before = service(json!({ "targetPorts": { "http": "http", "https": "http" } }));
    check(
        &tls_ends_before,
        &json!({ "service": { "targetPorts": { "http": "http", "https": "http" } } }),
        &[],
    );
    let elsewhere = service(json!({ "targetPorts": { "http": "tohttps" } }));
    check(&elsewhere, &json!({}), &["controller.service.targetPorts.http"]);
    let none = service(json!({ "enableHttp": false, "enableHttps": false }));
    check(&none, &json!({}), &["controller.service.enableHttp"]);
}

#[test]
fn addresses_of_the_service_of_ingress_nginx_are_kept_with_a_note() {
    let input = json!({ "controller": { "service": {
        "loadBalancerIP": "192.0.2.8", "nodePorts": { "http": 32080 }, "healthCheckNodePort": 32000,
        "annotations": { "external-dns.alpha.kubernetes.io/hostname": "shop.example.com" },
    } } });
    check(
        &input,
        &json!({ "service": {
            "loadBalancerIP": "192.0.2.8", "nodePorts": { "http": 32080 },
            "annotations": { "external-dns.alpha.kubernetes.io/hostname": "shop.example.com" },
        } }),
        &[],
    );
    for path in ["loadBalancerIP", "nodePorts.http"] {
        let finding = finding_for(&input, &format!("controller.service.{path}"));
        assert!(finding.contains("the Service of ingress-nginx holds it"), "{path}: {finding}");
    }
    assert!(finding_for(&input, "controller.service.annotations").contains("until you move traffic"));
}

#[test]
fn ports_inside_of_pods_are_fairways_own() {
    let ports = json!({ "http": 8080, "https": 8443 });
    let input = json!({ "controller": { "containerPort": ports } });
    check(&input, &json!({}), &[]);
    assert!(finding_for(&input, "controller.containerPort.https").contains("ports.https"));
    let input = json!({ "controller": { "hostPort": { "enabled": true, "ports": { "https": "8443" } } } });
    check(&input, &json!({ "hostPorts": { "http": 80, "https": 8443 } }), &[]);
    let input = json!({ "controller": { "hostPort": { "enabled": false, "ports": ports } } });
    check(&input, &json!({}), &[]);
}

#[test]
fn pods_in_the_network_of_nodes_have_the_ports_of_ingress_nginx() {
    let convert_nodes = |additions: Value| {
        let mut controller = json!({ "hostNetwork": true, "hostPort": { "enabled": true } });
        merge(&mut controller, &additions);
        json!({ "controller": controller })
    };
    let input = convert_nodes(json!({}));
    check(&input, &json!({ "hostNetwork": true, "ports": { "http": 80, "https": 443 } }), &[]);
    assert!(finding_for(&input, "controller.hostNetwork").contains("net.ipv4.ip_unprivileged_port_start"));
    let ports = json!({ "http": 8080, "https": 8443 });
    let values = convert_nodes(json!({ "containerPort": ports, "extraArgs": { "http-port": 9080 } }));
    check(&values, &json!({ "hostNetwork": true, "ports": { "http": 9080, "https": 8443 } }), &[]);
    let conflicting = convert_nodes(json!({ "containerPort": { "https": 10255 } }));
    check(
        &conflicting,
        &json!({ "hostNetwork": true, "ports": { "http": 80 } }),
        &["controller.containerPort.https"],
    );
}

#[test]
fn addresses_of_nodes_are_lost_unless_others_are_published() {
    let nodes = json!({ "service": { "enabled": false }, "reportNodeInternalIp": true });
    let lost = ["controller.service.enabled"];
    check(&json!({ "controller": nodes }), &json!({ "service": { "enabled": false } }), &lost);
    check(
        &json!({ "controller": { "publishService": { "enabled": false } } }),
        &json!({}),
        &["controller.publishService.enabled"],
    );
    check(
        &json!({ "controller": { "publishService": { "enabled": false }, "extraArgs": { "update-status": "false" } } }),
        &json!({ "status": { "enabled": false } }),
        &[],
    );
    check(
        &json!({ "controller": { "service": { "enabled": false }, "publishService": { "pathOverride": "lb/front" } } }),
        &json!({ "service": { "enabled": false }, "status": { "publishService": "lb/front" } }),
        &[],
    );
}

#[test]
fn contradicting_values_are_not_set_together() {
    check(
        &json!({ "controller": { "kind": "DaemonSet", "autoscaling": { "enabled": true, "minReplicas": 2 } } }),
        &json!({ "kind": "DaemonSet" }),
        &[],
    );
    let scaling = |settings: Value| json!({ "controller": { "autoscaling": settings } });
    check(
        &scaling(json!({ "enabled": true, "minReplicas": 11 })),
        &json!({ "autoscaling": { "enabled": true, "minReplicas": 11, "maxReplicas": 11 } }),
        &[],
    );
    check(
        &scaling(json!({ "enabled": true, "maxReplicas": 1 })),
        &json!({ "autoscaling": { "enabled": true, "minReplicas": 1, "maxReplicas": 1 } }),
        &[],
    );
    let monitor = json!({ "serviceMonitor": { "enabled": true } });
    let off = json!({ "metrics": { "serviceMonitor": { "enabled": false } } });
    check(&json!({ "controller": { "metrics": monitor } }), &off, &[]);
    check(
        &json!({ "controller": { "metrics": { "enabled": true, "service": { "enabled": false } } } }),
        &json!({ "metrics": { "service": { "enabled": false } } }),
        &[],
    );
    let rule = json!({ "prometheusRule": { "enabled": true } });
    let off = json!({ "metrics": { "rules": { "enabled": false } } });
    check(&json!({ "controller": { "metrics": rule } }), &off, &[]);
}

#[test]
fn alerts_of_the_installation_follow_those_of_the_chart() {
    let rules = json!([{
        "alert": "Certificate", "expr": "nginx_ingress_controller_ssl_expire_time_seconds - time() < 604800",
        "annotations": { "summary": "{{ $labels.host }} ends" },
    }]);
    let prometheus = json!({
        "enabled": true, "additionalLabels": { "release": "prometheus" }, "annotations": { "team": "edge" },
        "rules": rules,
    });
    let input = json!({ "controller": { "metrics": { "enabled": true, "prometheusRule": prometheus } } });
    check(
        &input,
        &json!({ "metrics": {
            "service": { "enabled": true },
            "rules": {
                "enabled": true, "labels": { "release": "prometheus" }, "annotations": { "team": "edge" },
                "additionalGroups": [{ "name": "ingress-nginx", "rules": rules }],
            },
        } }),
        &[],
    );
    assert!(finding_for(&input, "controller.metrics.prometheusRule").contains("metrics.rules.disabled"));
    let path = "controller.metrics.prometheusRule.rules";
    let input = json!({ "controller": { "metrics": { "prometheusRule": { "rules": ["up"] } } } });
    check(&input, &json!({}), &[path]);
    assert_eq!(finding_for(&input, path), "expected a list of mappings, found a list");
}

#[test]
fn a_disruption_budget_has_one_of_the_two() {
    let three = |settings: Value| {
        let mut controller = json!({ "replicaCount": 3 });
        merge(&mut controller, &settings);
        json!({ "controller": controller })
    };
    let budget = |budget: Value| json!({ "replicas": 3, "podDisruptionBudget": budget });
    let two = budget(json!({ "minAvailable": 2, "maxUnavailable": null }));
    check(&three(json!({ "minAvailable": 2 })), &two, &[]);
    let share = budget(json!({ "maxUnavailable": "25%" }));
    check(&three(json!({ "minAvailable": 2, "maxUnavailable": "25%" })), &share, &[]);
    let path = "controller.unhealthyPodEvictionPolicy";
    for (policy, lost) in [("AlwaysAllow", &[][..]), ("IfHealthyBudget", &[path][..])] {
        check(&three(json!({ "minAvailable": 2, "unhealthyPodEvictionPolicy": policy })), &two, lost);
    }
}

#[test]
fn one_replica_has_no_budget_that_keeps_its_node_from_draining() {
    let input = json!({ "controller": { "minAvailable": 1, "replicaCount": 1 } });
    check(&input, &json!({ "replicas": 1 }), &[]);
    assert!(finding_for(&input, "controller.minAvailable").contains("one replica"));
    let scaled =
        json!({ "controller": { "minAvailable": 1, "autoscaling": { "enabled": true, "minReplicas": 3 } } });
    let values = converted(&scaled).values;
    assert_eq!(values["podDisruptionBudget"], json!({ "minAvailable": 1, "maxUnavailable": null }));
}

#[test]
fn requests_and_limits_do_not_contradict_the_defaults() {
    let resources = |amounts: Value| json!({ "controller": { "resources": amounts } });
    let input = resources(json!({ "requests": { "memory": "2Gi", "cpu": 1 } }));
    let expected = json!({ "resources": {
        "requests": { "memory": "2Gi", "cpu": 1 }, "limits": { "memory": "2Gi" },
    } });
    check(&input, &expected, &[]);
    assert!(finding_for(&input, "controller.resources.requests.memory").contains("sheds load"));
    let input = resources(json!({ "limits": { "memory": "90Mi", "cpu": "100m" } }));
    let expected = json!({ "resources": {
        "requests": { "memory": "90Mi", "cpu": "100m" }, "limits": { "memory": "90Mi", "cpu": "100m" },
    } });
    check(&input, &expected, &[]);
    let input = resources(json!({ "requests": { "memory": "512Mi" } }));
    check(&input, &json!({ "resources": { "requests": { "memory": "512Mi" } } }), &[]);
}

#[test]
fn label_selectors_of_ingress_nginx_name_the_pods_of_fairway() {
    let selector = json!({ "matchLabels": { "app.kubernetes.io/name": "ingress-nginx" } });
    check(
        &json!({ "controller": {
            "topologySpreadConstraints": [{ "maxSkew": 1, "topologyKey": "zone", "labelSelector": selector }],
        } }),
        &json!({ "topologySpreadConstraints": [{ "maxSkew": 1, "topologyKey": "zone" }] }),
        &[],
    );
    let affinity = |selector: &Value| json!({ "podAntiAffinity": { "x": [{ "labelSelector": selector }] } });
    let converted = affinity(&json!({ "matchLabels": { "app.kubernetes.io/name": "fairway" } }));
    let expressions = json!({ "matchExpressions": [
        { "key": "app.kubernetes.io/name", "operator": "In", "values": ["{{ include \"ingress-nginx.name\" . }}"] },
        { "key": "app.kubernetes.io/component", "operator": "In", "values": ["controller"] },
    ] });
    for selector in [&selector, &expressions] {
        check(
            &json!({ "controller": { "affinity": affinity(selector) } }),
            &json!({ "affinity": converted }),
            &[],
        );
    }
    let of_another = affinity(&json!({ "matchLabels": { "app.kubernetes.io/name": "cache" } }));
    check(&json!({ "controller": { "affinity": of_another } }), &json!({ "affinity": of_another }), &[]);
    let by_another = affinity(&json!({ "matchLabels": { "app": "ingress-nginx" } }));
    let lost = ["controller.affinity"];
    check(&json!({ "controller": { "affinity": by_another } }), &json!({ "affinity": by_another }), &lost);
    let template = json!({ "controller": { "affinity": { "nodeAffinity": "{{ .Values.x }}" } } });
    check(&template, &json!({}), &lost);
}

#[test]
fn a_grace_period_is_the_sum_that_fairways_chart_makes() {
    let controller = |controller: Value| json!({ "controller": controller });
    let period = json!({ "terminationGracePeriodSeconds": 300 });
    check(&controller(period), &json!({ "drain": { "timeout": 270 } }), &[]);
    let period =
        json!({ "terminationGracePeriodSeconds": 300, "extraArgs": { "shutdown-grace-period": "60" } });
    check(&controller(period), &json!({ "drain": { "delay": 60, "timeout": 220 } }), &[]);
    let path = "controller.terminationGracePeriodSeconds";
    check(&controller(json!({ "terminationGracePeriodSeconds": 5 })), &json!({}), &[path]);
}

#[test]
fn a_scope_is_a_namespace_or_a_selector() {
    let scope = |scope: Value| json!({ "controller": { "scope": scope } });
    check(
        &scope(json!({ "enabled": true, "namespace": "shop", "namespaceSelector": "a=b" })),
        &json!({ "watch": { "namespaces": ["shop"] } }),
        &[],
    );
    check(
        &scope(json!({ "enabled": false, "namespace": "shop", "namespaceSelector": "a=b" })),
        &json!({ "watch": { "namespaceSelector": "a=b" } }),
        &[],
    );
    check(&scope(json!({ "enabled": true })), &json!({}), &["controller.scope"]);
    let input = json!({ "controller": {
        "scope": { "enabled": true, "namespace": "a" }, "extraArgs": { "watch-namespace-selector": "b=c" },
    } });
    check(&input, &json!({}), &["controller.scope"]);
}

#[test]
fn users_and_capabilities_of_the_image_stay_with_it() {
    let input = json!({ "controller": {
        "podSecurityContext": { "fsGroup": 101, "supplementalGroups": [5] }, "sysctls": { "net.core.somaxconn": 8192 },
        "containerSecurityContext": { "runAsUser": 101, "capabilities": { "add": ["NET_BIND_SERVICE"] } },
    } });
    check(
        &input,
        &json!({ "podSecurityContext": {
            "supplementalGroups": [5], "sysctls": [{ "name": "net.core.somaxconn", "value": "8192" }],
        } }),
        &[],
    );
    assert!(finding_for(&input, "controller.containerSecurityContext.runAsUser").contains("securityContext"));
}

#[test]
fn prometheus_finds_the_port_of_metrics() {
    let annotations = json!({ "prometheus.io/port": 10254, "prometheus.io/scrape": true });
    check(
        &json!({ "controller": { "podAnnotations": annotations } }),
        &json!({ "podAnnotations": { "prometheus.io/port": "10255", "prometheus.io/scrape": "true" } }),
        &[],
    );
}

#[test]
fn each_path_has_one_row() {
    let mut paths: Vec<_> = VALUE_ROWS.iter().map(|(path, _)| *path).collect();
    paths.sort_unstable();
    assert!(paths.windows(2).all(|pair| pair[0] != pair[1]));
}

#[test]
fn every_value_that_a_row_names_is_one_of_the_charts_schema() {
    let schema: Value = serde_json::from_str(&chart("values.schema.json")).unwrap();
    let property = |schema_of: &'_ Value, key: &str| {
        let referred =
            schema_of["$ref"].as_str().map(|it| schema.pointer(it.trim_start_matches('#')).unwrap());
        referred.unwrap_or(schema_of)["properties"].get(key).cloned()
    };
    for (path, meaning) in VALUE_ROWS {
        let (Meaning::Is(own, _) | Meaning::Kept(own, ..)) = meaning else { continue };
        let found = own.split('.').try_fold(schema.clone(), |schema, key| property(&schema, key));
        assert!(found.is_some(), "{path}: {own}");
        assert!(is_value_of_the_chart(own), "{path}: {own} is in the schema and not in values.yaml");
    }
}

/// Whether values.yaml contains the value or an empty parent, whose members it does not list.
fn is_value_of_the_chart(path: &str) -> bool {
    let values = values_of_the_chart();
    let mut found = &values;
    for key in path.split('.') {
        match (found, found.get(key)) {
            (_, Some(below)) => found = below,
            (Value::Object(around), None) => {
                return around.is_empty() || OPEN.iter().any(|it| path.starts_with(it));
            }
            _ => return false,
        }
    }
    true
}

/// Mappings for which values.yaml lists only the members with a default.
const OPEN: [&str; 2] = ["probes.", "resources."];

#[test]
fn a_value_that_both_charts_have_is_taken_over() {
    // The image and the names of objects are Fairway's own.
    // `controller.tcp` says where the ConfigMap is, and `tcp` has its entries.
    const OWN: [&str; 7] =
        ["fullnameOverride", "nameOverride", "image.repository", "image.tag", "image.digest", "tcp", "udp"];
    for (path, meaning) in VALUE_ROWS {
        let is_left_out = matches!(
            meaning,
            Meaning::Nothing(_) | Meaning::Lost(_) | Meaning::IfEnabled(_) | Meaning::EachLost(_)
        );
        let target = path.strip_prefix("controller.").unwrap_or(path);
        if is_left_out && !OWN.contains(&target) {
            let values = values_of_the_chart();
            let found = values.pointer(&format!("/{}", target.replace('.', "/")));
            assert_eq!(found, None, "{path} is left out, and Fairway's chart has {target}");
        }
    }
}

#[test]
fn the_assumed_defaults_are_those_of_the_chart() {
    let chart = values_of_the_chart();
    assert_eq!(chart["drain"]["delay"], dependent_values::DRAIN_DELAY);
    assert_eq!(chart["drain"]["margin"], dependent_values::DRAIN_MARGIN);
    assert_eq!(chart["autoscaling"]["minReplicas"], dependent_values::MIN_REPLICAS);
    assert_eq!(chart["autoscaling"]["maxReplicas"], dependent_values::MAX_REPLICAS);
    assert_eq!(chart["resources"]["requests"]["memory"], amounts::REQUESTED_MEMORY);
    assert_eq!(chart["resources"]["requests"]["cpu"], amounts::REQUESTED_CPU);
    assert_eq!(chart["resources"]["limits"], json!({ "memory": amounts::MEMORY_LIMIT }));
    for (name, port) in network::OTHER_PORTS {
        assert_eq!(chart["ports"][name], port);
    }
    assert_eq!(chart["service"]["type"], "LoadBalancer");
    assert_eq!(chart["service"]["externalTrafficPolicy"], "Cluster");
}
