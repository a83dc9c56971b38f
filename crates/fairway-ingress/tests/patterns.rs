//! The cost limit for regular expressions of a host: ordinary ones are never rejected, and only the newer object is.

use std::fmt::Write;

use fairway_ingress::{Translation, translate};

use crate::support::{NOW, scene};

/// An Ingress with patterns for `a.test`, created on the given day.
fn ingress(namespace: &str, day: u32, paths: impl Iterator<Item = String>) -> String {
    let mut yaml = format!(
        "---\napiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata:\n  name: patterns-{day}\n  namespace: {namespace}\n  \
         creationTimestamp: \"2024-01-{day:02}T00:00:00Z\"\n  annotations: {{nginx.ingress.kubernetes.io/use-regex: \"true\", \
         nginx.ingress.kubernetes.io/permanent-redirect: \"https://b.test/\"}}\nspec:\n  ingressClassName: fairway\n  rules:\n  \
         - host: a.test\n    http:\n      paths:\n"
    );
    for path in paths {
        let backend = "{service: {name: main, port: {number: 80}}}";
        writeln!(yaml, "      - {{path: '{path}', pathType: ImplementationSpecific, backend: {backend}}}")
            .unwrap();
    }
    yaml
}

fn translated(ingresses: &[String]) -> Translation {
    let class = "apiVersion: networking.k8s.io/v1\nkind: IngressClass\nmetadata: {name: fairway}\nspec: {controller: \
                 fairway.dev/ingress-controller}\n";
    let scene = scene(&format!("{class}{}", ingresses.concat()));
    translate(&scene.resources, &scene.options, NOW)
}

/// The objects whose patterns are too expensive, with their number.
fn refused(translation: &Translation) -> Vec<(String, usize)> {
    let mut refused: Vec<(String, usize)> = Vec::new();
    for diagnostic in translation.diagnostics.iter().map(ToString::to_string) {
        let Some(rest) = diagnostic.strip_prefix("error[regex-cost]: Ingress ") else { continue };
        let name = rest.split(' ').next().unwrap().to_owned();
        match refused.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => refused.push((name, 1)),
        }
    }
    refused
}

#[test]
fn hundreds_of_ordinary_patterns_of_one_host_are_accepted() {
    let paths = (0..100).flat_map(|n| {
        [
            format!("/something-{n}(/|$)(.*)"),
            format!("/service{n}/api/v[0-9]+/(.*)"),
            format!("/api/v[0-9]+/service{n}/(.*)"),
            format!("/app{n}/(?!health|metrics)(.*)"),
        ]
    });
    let translation = translated(&[ingress("demo", 1, paths)]);
    let messages: Vec<_> = translation.diagnostics.iter().map(ToString::to_string).collect();
    assert!(messages.is_empty(), "{messages:?}");
}

#[test]
fn the_newer_object_is_refused_alone_and_each_namespace_has_a_share() {
    let reading = |name: &'static str, count: usize| (0..count).map(move |n| format!("/[^x]*x{name}{n}"));
    let old = ingress("one", 1, reading("a", 150));
    assert_eq!(refused(&translated(std::slice::from_ref(&old))), []);
    let new = ingress("one", 2, reading("b", 150));
    let both = refused(&translated(&[new.clone(), old.clone()]));
    assert!(matches!(&both[..], [(name, 100..150)] if name == "one/patterns-2"), "{both:?}");
    let other = ingress("two", 3, reading("c", 10));
    assert_eq!(refused(&translated(&[other, new, old])), both, "another namespace has its share");
}

#[test]
fn a_diagnostic_has_the_figures() {
    let paths = (0..400).map(|n| format!("/[^x]*x(y|z){n}"));
    let translation = translated(&[ingress("demo", 1, paths)]);
    let messages: Vec<_> = translation.diagnostics.iter().map(ToString::to_string).collect();
    let message = messages.iter().find(|it| it.contains("regex-cost")).unwrap();
    assert!(
        message.contains("a path of 8 KiB could cost 14") && message.contains("are left to its namespace"),
        "{message}"
    );
}
