//! Properties of all peers that scenarios rely on.

use std::path::PathBuf;

use fairway_lab_measure::results::Settings;
use serde_json::Value;

use super::*;

const ADAPTED: [&str; 4] = ["nginx", "haproxy", "envoy", "caddy"];

fn placement(peer: &str) -> Placement {
    Placement {
        namespace: format!("lab-{peer}"),
        replicas: 3,
        workers: 2,
        settings: Settings::Recommended,
        watched: "site".to_owned(),
        api: RouteApi::Ingress,
    }
}

fn route(filters: Filters) -> Route {
    Route {
        name: "app".to_owned(),
        namespace: "site".to_owned(),
        host: "app.test".to_owned(),
        service: "backend".to_owned(),
        port: 80,
        tls: true,
        filters,
    }
}

fn every_filter() -> Filters {
    Filters {
        cors: true,
        response_header: Some((RESPONSE_HEADER.to_owned(), "yes".to_owned())),
        rewrite: Some("/new".to_owned()),
        redirect: Some(("/old".to_owned(), "https://b.test:8443/there".to_owned())),
    }
}

fn find<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    objects.iter().find(|object| object["kind"] == kind).unwrap()
}

#[test]
fn the_table_of_peers_is_complete_and_fairway_is_first() {
    let all = all_peers();
    let names: Vec<_> = all.iter().map(|peer| peer.name()).collect();
    assert_eq!(names, ["fairway", "nginx", "haproxy", "envoy", "caddy", "contour", "traefik"]);
    assert!(all.iter().all(|peer| !peer.summary().is_empty() && peer.existing().is_none()));
}

#[test]
fn another_release_is_a_separate_peer_with_valid_kubernetes_names() {
    for name in ["nginx@1.22", "haproxy@system"] {
        let peer = find_peer(name).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(peer.name(), name);
        let objects = peer.objects(&artifacts(), &placement("x")).unwrap();
        let deployment = find(&objects, "Deployment");
        let pod = &deployment["spec"]["template"];
        let names = [
            &pod["metadata"]["labels"][PROXY_LABEL],
            &pod["spec"]["containers"][0]["image"],
            &find(&objects, "IngressClass")["metadata"]["name"],
        ];
        assert!(names.iter().all(|name| !name.as_str().unwrap().contains('@')), "{names:?}");
    }
    assert_eq!(label("nginx@1.22"), "nginx-1-22");
    for name in ["envoy@1.40", "nginx@", "ngnix", "fairway@0.1"] {
        let error = find_peer(name).err().unwrap_or_else(|| panic!("{name} is a peer")).to_string();
        assert!(error.contains(name), "{error}");
    }
}

#[test]
fn objects_of_a_route_have_the_names_and_the_namespace_of_the_route() {
    for peer in all_peers() {
        for filters in [Filters::default(), every_filter()] {
            for object in peer.route(&placement(peer.name()), &route(filters)) {
                assert_eq!(object["metadata"]["namespace"], "site", "{object}");
                assert!(object["metadata"]["name"].as_str().unwrap().starts_with("app"), "{object}");
                assert!(object["apiVersion"].is_string() && object["kind"].is_string(), "{object}");
            }
        }
    }
}

#[test]
fn every_peer_expresses_every_filter_and_none_without_filters() {
    for peer in all_peers() {
        let rendered = |filters| {
            let objects = peer.route(&placement(peer.name()), &route(filters));
            Value::Array(objects).to_string()
        };
        let (with, without) = (rendered(every_filter()), rendered(Filters::default()));
        for word in ["cors", "yes", "/new", "/old", "b.test"] {
            assert!(with.contains(word), "{}: {word} is not in {with}", peer.name());
            assert!(!without.contains(word), "{}: {word} is in {without}", peer.name());
        }
    }
}

#[test]
fn a_route_without_tls_names_no_certificate() {
    for peer in all_peers() {
        let plain = Route { tls: false, ..route(Filters::default()) };
        let rendered = Value::Array(peer.route(&placement(peer.name()), &plain)).to_string();
        assert!(!rendered.contains(CERTIFICATE), "{rendered}");
    }
}

#[test]
fn contour_takes_a_location_in_pieces() {
    let contour = all_peers().into_iter().find(|peer| peer.name() == "contour").unwrap();
    let objects = contour.route(&placement("contour"), &route(every_filter()));
    let routes = find(&objects, "HTTPProxy")["spec"]["routes"].as_array().unwrap();
    let redirect = routes.iter().find_map(|route| route.get("requestRedirectPolicy")).unwrap();
    let expected = serde_json::json!({
        "scheme": "https", "hostname": "b.test", "port": 8443, "path": "/there", "statusCode": 302,
    });
    assert_eq!(*redirect, expected);
}

#[test]
fn an_adapted_proxy_gets_its_class_namespace_and_recommended_workers() {
    let artifacts = artifacts();
    for peer in all_peers().into_iter().filter(|peer| ADAPTED.contains(&peer.name())) {
        let arguments = |settings| {
            let placement = Placement { settings, ..placement(peer.name()) };
            let objects = peer.objects(&artifacts, &placement).unwrap();
            let deployment = find(&objects, "Deployment").clone();
            assert_eq!(deployment["metadata"]["name"], PROXY);
            assert_eq!(deployment["spec"]["replicas"], 3);
            assert_eq!(deployment["spec"]["template"]["metadata"]["labels"][PROXY_LABEL], peer.name());
            assert_eq!(find(&objects, "Service")["spec"]["type"], "LoadBalancer");
            assert_eq!(find(&objects, "Role")["metadata"]["namespace"], "site");
            deployment["spec"]["template"]["spec"]["containers"][0]["args"].to_string()
        };
        let class = format!("\"--class\",\"lab-{}\",\"--namespace\",\"site\"", peer.name());
        let recommended = arguments(Settings::Recommended);
        assert!(recommended.contains(&class), "{recommended}");
        assert!(recommended.contains("\"--workers\",\"2\""), "{recommended}");
        assert!(!arguments(Settings::Defaults).contains("--workers"));
    }
}

#[test]
fn a_peer_without_its_programs_reports_the_missing_ones() {
    let mut artifacts = artifacts();
    artifacts.fairway_archive = PathBuf::from("/nowhere/image.tar");
    artifacts.fairway_image = "localhost/fairway:none".to_owned();
    let fairway = all_peers().into_iter().next().unwrap();
    let error = fairway.prepare(&artifacts).unwrap_err().to_string();
    assert!(error.contains("localhost/fairway:none") && error.contains("make image"), "{error}");
}

fn artifacts() -> Artifacts {
    let nowhere = PathBuf::from("/nowhere");
    Artifacts {
        cache: nowhere.clone(),
        folder: nowhere.clone(),
        checkout: nowhere.clone(),
        fairway: nowhere.clone(),
        fairway_archive: nowhere.clone(),
        fairway_image: "localhost/fairway:0.1.0".to_owned(),
        laboratory: nowhere,
    }
}

#[test]
fn every_peer_has_a_colour_in_the_report() {
    for peer in all_peers() {
        assert!(fairway_lab_report::KNOWN.contains(&peer.name()), "{} has none", peer.name());
    }
}

#[test]
fn only_peers_with_a_controller_of_the_gateway_api_take_it_and_the_others_say_why_not() {
    let with: Vec<_> = all_peers()
        .into_iter()
        .filter(|peer| peer.gateway_api().is_ok())
        .map(|peer| peer.name().to_owned())
        .collect();
    assert_eq!(with, ["fairway", "contour", "traefik"]);
    let nginx = find_peer("nginx").unwrap();
    assert!(nginx.gateway_api().is_err_and(|why| why.contains("Ingresses only")));
    let described = DescribedPeer::parse("name=ours,class=nginx,address=192.0.2.1").unwrap();
    assert!(described.gateway_api().is_err_and(|why| why.contains("described")));
}

#[test]
fn fairway_serves_gateways_of_every_namespace_if_routes_use_gateways() {
    let values =
        |api| fairway::chart_values("localhost/fairway:1", &Placement { api, ..placement("fairway") });
    let (ingress, gateway) = (values(RouteApi::Ingress), values(RouteApi::Gateway));
    assert_eq!((&ingress["gatewayApi"], &ingress["watch"]["namespaces"][0]), (&Value::Null, &"site".into()));
    assert_eq!(gateway["gatewayApi"]["enabled"], true);
    assert_eq!(gateway["watch"]["namespaces"], serde_json::json!([]));
}
