//! Salvages the metadata and targets of a policy that cannot be decoded, so that its targets can be closed. Does not read other
//! fields.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::manifest::decode::decode;
use crate::manifest::node::{Entry, Node, Value};

/// A policy without the fields that do not fit.
#[derive(Debug)]
pub(crate) struct SalvagedPolicy {
    /// Its metadata and its targets.
    pub(crate) node: Node,
    /// The paths of targets that cannot be read either.
    pub(crate) unread: Vec<String>,
}

/// Salvages a policy; `None` if its name or namespace cannot be read.
pub(crate) fn salvage(policy: &Node) -> Option<SalvagedPolicy> {
    let metadata = metadata(policy.field("metadata")?)?;
    let (targets, unread) = targets(policy);
    let targets = Node { line: policy.line, value: Value::List(targets) };
    let spec = map(policy.line, vec![entry("targetRefs", targets)]);
    let node = map(policy.line, vec![entry("metadata", metadata), entry("spec", spec)]);
    Some(SalvagedPolicy { node, unread })
}

/// The age is kept if possible: it decides between two policies for one target.
fn metadata(written: &Node) -> Option<Node> {
    let Value::Map(entries) = &written.value else { return None };
    let fits = |entry: &&Entry| decode::<ObjectMeta>(&map(entry.line, vec![(*entry).clone()])).is_ok();
    let fitting = map(written.line, entries.iter().filter(fits).cloned().collect());
    let named = fitting.text_of("name").is_some_and(|name| !name.is_empty());
    // The namespace is never guessed: objects of the same name in another one are not its targets.
    let placed = written.field("namespace").is_none() || fitting.field("namespace").is_some();
    (named && placed).then_some(fitting)
}

fn targets(policy: &Node) -> (Vec<Node>, Vec<String>) {
    let written = policy.field("spec").and_then(|spec| spec.field("targetRefs"));
    let items = match written.map(|node| (&node.value, node)) {
        Some((Value::List(items), _)) => items.as_slice(),
        Some((Value::Map(_), single)) => std::slice::from_ref(single),
        _ => return (Vec::new(), vec!["spec.targetRefs".to_owned()]),
    };
    let (mut targets, mut unread) = (Vec::new(), Vec::new());
    for (index, item) in items.iter().enumerate() {
        match target(item) {
            Some(target) => targets.push(target),
            None => unread.push(format!("spec.targetRefs[{index}]")),
        }
    }
    (targets, unread)
}

/// A target whose section cannot be read becomes the whole object, which contains the section.
fn target(item: &Node) -> Option<Node> {
    let Value::Map(entries) = &item.value else { return None };
    let fits = |entry: &&Entry| {
        let known = matches!(entry.key.as_str(), "group" | "kind" | "name" | "sectionName");
        known && matches!(entry.node.value, Value::Text(_))
    };
    let target = map(item.line, entries.iter().filter(fits).cloned().collect());
    ["group", "kind", "name"].iter().all(|key| target.text_of(key).is_some()).then_some(target)
}

fn map(line: u32, entries: Vec<Entry>) -> Node {
    Node { line, value: Value::Map(entries) }
}

fn entry(key: &str, node: Node) -> Entry {
    Entry { key: key.to_owned(), line: node.line, node }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::{Section, parse};

    fn remains(text: &str) -> Option<SalvagedPolicy> {
        salvage(&parse(&Section { text, line: 1 }).unwrap().unwrap())
    }

    /// The names and sections of the targets that remain, and those that cannot be read.
    fn targets_of(spec: &str) -> (Vec<(String, Option<String>)>, Vec<String>) {
        let SalvagedPolicy { node, unread } =
            remains(&format!("metadata: {{name: a}}\nspec: {spec}\n")).unwrap();
        let Some(Value::List(targets)) =
            node.field("spec").and_then(|spec| spec.field("targetRefs")).map(|targets| &targets.value)
        else {
            panic!("{node:?}")
        };
        let text = |target: &Node, key: &str| target.text_of(key).map(str::to_owned);
        let target = |it: &Node| (text(it, "name").unwrap(), text(it, "sectionName"));
        (targets.iter().map(target).collect(), unread)
    }

    #[test]
    fn targets_are_kept_without_invalid_fields() {
        let good = "{group: g, kind: HTTPRoute, name: a, sectionName: b}";
        let section = "{group: g, kind: HTTPRoute, name: c, sectionName: 5}";
        let spec = format!(
            "{{basicAuth: 7, targetRefs: [{good}, {section}, {{group: g, kind: HTTPRoute, name: 5}}, x]}}"
        );
        let (targets, unread) = targets_of(&spec);
        assert_eq!(targets, [("a".to_owned(), Some("b".to_owned())), ("c".to_owned(), None)]);
        assert_eq!(unread, ["spec.targetRefs[2]", "spec.targetRefs[3]"]);
        assert_eq!(targets_of(&format!("{{targetRefs: {good}}}")).0.len(), 1, "one instead of a list of one");
        for spec in ["{targetRefs: 5}", "5", "{}"] {
            assert_eq!(targets_of(spec), (Vec::new(), vec!["spec.targetRefs".to_owned()]), "{spec}");
        }
    }

    #[test]
    fn valid_metadata_is_kept_but_never_under_another_name() {
        let metadata = |text: &str| {
            let remains = remains(&format!("metadata: {{{text}}}\n"))?;
            let Some(Value::Map(entries)) = remains.node.field("metadata").map(|node| &node.value) else {
                panic!("{remains:?}")
            };
            Some(entries.iter().map(|entry| entry.key.clone()).collect::<Vec<_>>().join(" "))
        };
        let age = "creationTimestamp: 2024-05-01T00:00:00Z";
        assert_eq!(metadata(&format!("name: a, {age}, labels: 5")).unwrap(), "name creationTimestamp");
        assert_eq!(metadata("name: a, namespace: b, creationTimestamp: long ago").unwrap(), "name namespace");
        assert_eq!(metadata("name: a, namespace: 5"), None);
        assert_eq!(metadata("name: 5"), None);
        assert_eq!(metadata("namespace: b"), None);
    }
}
