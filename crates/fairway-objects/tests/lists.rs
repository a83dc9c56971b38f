//! Checks that lists of kinds outside the code name every kind of the table, and that the chart grants exactly what each kind
//! needs.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use fairway_objects::kinds::{
    ApiResource, GATEWAY_KINDS, GROUP, INFERENCE_GROUP, KINDS, Kind, MULTICLUSTER_GROUP, POLICY_GROUP,
};
use fairway_objects::manifest::{self, Schema};
use serde::Deserialize;

/// A rule of a role.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    api_groups: Vec<String>,
    resources: Vec<String>,
    #[serde(default)]
    resource_names: Vec<String>,
    verbs: Vec<String>,
}

fn file(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

/// The rules in a chart template, including conditional ones.
fn rules(template: &str) -> Vec<Rule> {
    let text = file("charts/fairway/templates/_rules.tpl");
    let begin = format!("{{{{- define \"fairway.rules.{template}\" -}}}}\n");
    let (_, rest) = text.split_once(&begin).unwrap();
    let (body, _) = rest.split_once("{{- end -}}").unwrap();
    let lines: Vec<_> = body.lines().filter(|line| !line.starts_with("{{")).collect();
    let rules = manifest::parse_single(&lines.join("\n"), Schema::Core).unwrap().unwrap();
    serde_json::from_value(rules.to_json()).unwrap()
}

/// What the templates grant in these groups: `GROUP/RESOURCE VERBS`.
fn granted(templates: &[&str], groups: &[&str]) -> BTreeSet<String> {
    let rules = templates.iter().flat_map(|template| rules(template));
    let rules = rules.filter(|rule| groups.contains(&&*rule.api_groups[0]) && rule.resource_names.is_empty());
    let of_rule = |rule: Rule| {
        let named = |resource: &String| format!("{}/{resource} {}", rule.api_groups[0], rule.verbs.join(" "));
        rule.resources.iter().map(named).collect::<Vec<_>>()
    };
    rules.flat_map(of_rule).collect()
}

fn read(known: &ApiResource) -> String {
    format!("{}/{} get list watch", known.group, known.resource)
}

#[test]
fn the_chart_grants_exactly_the_permissions_of_each_gateway_api_kind() {
    let of_gateways = [GROUP, POLICY_GROUP, MULTICLUSTER_GROUP];
    let templates = [
        ("gateways", true, &of_gateways[..]),
        ("cluster", false, &of_gateways),
        ("inference", true, &[INFERENCE_GROUP]),
    ];
    for (template, is_namespaced, groups) in templates {
        let kinds = GATEWAY_KINDS.iter().filter(|known| groups.contains(&known.group));
        let kinds = kinds.filter(|known| known.is_namespaced == is_namespaced);
        let status = |known: &ApiResource| format!("{}/{}/status update patch", known.group, known.resource);
        let needed = |known: &ApiResource| [Some(read(known)), known.has_conditions.then(|| status(known))];
        let expected: BTreeSet<_> = kinds.flat_map(needed).flatten().collect();
        assert_eq!(granted(&[template], groups), expected, "fairway.rules.{template}");
    }
}

#[test]
fn the_chart_lets_each_kind_of_kubernetes_be_read() {
    let groups: Vec<_> = KINDS.iter().map(|known| known.group).collect();
    // Pods are read for InferencePools only.
    assert!(granted(&["inference"], &groups).contains(&read(Kind::Pod.api().unwrap())));
    for (templates, is_namespaced) in
        [(&["watched", "secrets", "inference"][..], true), (&["cluster"], false)]
    {
        let granted = granted(templates, &groups);
        for known in
            KINDS.iter().filter(|it| it.kind.of_gateways().is_none() && it.is_namespaced == is_namespaced)
        {
            assert!(granted.contains(&read(known)), "{} in {templates:?}: {granted:?}", known.name);
        }
    }
}

#[test]
fn the_chart_lets_the_release_of_each_crd_of_the_gateway_api_be_read() {
    let rules = rules("cluster");
    let rule = rules.iter().find(|rule| rule.resources == ["customresourcedefinitions"]).unwrap();
    let kinds = GATEWAY_KINDS.iter().filter(|known| known.group == GROUP);
    let mut expected: Vec<_> = kinds.map(|known| known.group_resource("")).collect();
    expected.sort();
    assert_eq!(rule.resource_names, expected);
}

#[test]
fn documents_and_scripts_name_each_kind() {
    let rbac = file("docs/rbac.md");
    for known in KINDS {
        let ApiResource { group, resource, .. } = known;
        let is_named =
            [format!("`{resource}`"), format!("`{group}/{resource}`")].iter().any(|it| rbac.contains(it));
        assert!(is_named, "docs/rbac.md does not say what `{resource}` are read for");
    }
    let (values, conformance) = (file("charts/fairway/values.yaml"), file("conformance/gateway/run"));
    for known in GATEWAY_KINDS {
        match known.group {
            POLICY_GROUP => assert!(values.contains(known.name), "values.yaml does not name {}", known.name),
            GROUP => {
                let saved = conformance.split(['=', ',', '\n', '"']).any(|word| word == known.resource);
                assert!(saved, "conformance/gateway/run does not save {}", known.resource);
            }
            // Clusters of the conformance tests lack the CRDs of the Inference Extension and of the Multi-Cluster Services API.
            _ => {}
        }
    }
}
