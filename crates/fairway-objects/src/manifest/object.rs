//! Decodes a node tree to the objects that Fairway reads, with diagnostics about others.

use std::collections::BTreeMap;
use std::sync::Arc;

use fairway_model::{Origin, SourceLine};
use k8s_openapi::ByteString;
use serde::Deserialize;

use crate::diagnostic::{Diagnostic, Severity};
use crate::kinds::{ApiResource, GROUP, INFERENCE_GROUP, KINDS, POLICY_GROUP};
use crate::lines::FieldLines;
use crate::manifest::decode::{Decoded, FieldError, decode, push_key};
use crate::manifest::node::{Node, Value};
use crate::manifest::salvage::{self, SalvagedPolicy};
use crate::object::{DocumentSource, Kind, Object, ObjectKey, ObjectRef};
use crate::with_type;

/// The result of reading a document.
#[derive(Debug, Default)]
pub struct ReadDocument {
    /// Its objects.
    pub objects: Vec<(Object, DocumentSource)>,
    /// Objects that could not be read: their previous state stays.
    pub broken: Vec<ObjectRef>,
    /// Stand-ins that close the targets of unreadable objects that protect something, as long as no previous state exists.
    pub stand_ins: Vec<(Object, DocumentSource)>,
    /// The diagnostics about it.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads a document of `file`; a `kind: List` is read item by item.
#[must_use]
pub fn read(root: &Node, file: &Arc<str>) -> ReadDocument {
    let mut reading = ReadDocument::default();
    read_node(root, file, &mut reading);
    reading
}

/// A diagnostic about a line of a file without a known object.
#[must_use]
pub fn line_diagnostic(
    file: &Arc<str>,
    line: u32,
    code: &'static str,
    because: (String, &str),
) -> Diagnostic {
    let origin = Origin { source: Some(SourceLine { file: file.clone(), line }), ..Origin::default() };
    let (problem, consequence) = (because.0, because.1.to_owned());
    Diagnostic { severity: Severity::Error, origin, code, problem, consequence }
}

fn read_node(node: &Node, file: &Arc<str>, reading: &mut ReadDocument) {
    let object = ManifestObject { node, file };
    let (Some(api), Some(kind)) = (node.text_of("apiVersion"), node.text_of("kind")) else {
        let problem = "is no Kubernetes object: apiVersion or kind is missing".to_owned();
        reading.diagnostics.push(line_diagnostic(
            file,
            node.line,
            "not-an-object",
            (problem, "it is ignored"),
        ));
        return;
    };
    match (api, kind) {
        (_, kind) if is_list(kind) && node.field("items").is_some() => {
            let Some(Value::List(items)) = node.field("items").map(|items| &items.value) else {
                object.refuse(reading, "items is no list");
                return;
            };
            for item in items {
                read_node(item, file, reading);
            }
        }
        ("extensions/v1beta1" | "networking.k8s.io/v1beta1", "Ingress") => {
            object.keep(Object::OldIngress(node.to_json()), reading);
        }
        _ => match ApiResource::find(api, kind) {
            // Written in any of its versions.
            Some(known) => with_type!(known.kind, K => object.read_typed::<K>(known.kind, reading), _ => {}),
            None => object.skip_kind(api, kind, reading),
        },
    }
}

/// Whether it is a list of objects, some of which may be readable.
fn is_list(kind: &str) -> bool {
    let is_read = |item: &str| item.is_empty() || KINDS.iter().any(|known| known.name == item);
    kind.strip_suffix("List").is_some_and(is_read)
}

/// Merges `stringData` of a Secret into its `data`, as the API server does.
fn move_string_entries(object: &mut Object) {
    let Object::Secret(secret) = object else { return };
    let secret = Arc::make_mut(secret);
    if let Some(texts) = secret.string_data.take() {
        let entries = secret.data.get_or_insert_default();
        entries.extend(texts.into_iter().map(|(key, text)| (key, ByteString(text.into_bytes()))));
    }
}

/// The base64 decoder does not name the format; its messages start with a capital, serde's do not.
fn error_text(kind: Kind, misfit: FieldError) -> String {
    let FieldError { field, problem, .. } = misfit;
    match kind == Kind::Secret && field.starts_with("data") && problem.starts_with("Invalid") {
        true => format!("the value is no base64 ({})", problem.trim_end_matches('.')),
        false => problem,
    }
}

/// The consequence for the targets of a policy that cannot be read as written: without a field, a SecurityPolicy protects less
/// than its author intended, and a service of an ExtensionPolicy gets less or may do more.
fn refusal_consequence(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::SecurityPolicy => Some("requests to its targets are answered 503"),
        Kind::ExtensionPolicy => Some("requests to its targets are answered 500"),
        _ => None,
    }
}

/// Whether an object without this field must not be used.
fn is_required_field(kind: Kind, misfit: &FieldError) -> bool {
    let below_spec = |rest: &str| rest.starts_with(['.', '[']);
    refusal_consequence(kind).is_some() && misfit.field.strip_prefix("spec").is_some_and(below_spec)
}

/// An object in a file.
struct ManifestObject<'a> {
    node: &'a Node,
    file: &'a Arc<str>,
}

impl ManifestObject<'_> {
    fn read_typed<T>(&self, kind: Kind, reading: &mut ReadDocument)
    where
        T: for<'de> Deserialize<'de> + Into<Object>,
    {
        match decode::<T>(self.node) {
            Ok(Decoded { value, unknown }) => {
                let mut object = value.into();
                object.set_default_namespace();
                move_string_entries(&mut object);
                // Not all kinds have a type with the fields that identify them.
                let named_by = |misfit: &FieldError| matches!(misfit.field.as_str(), "apiVersion" | "kind");
                for misfit in unknown.into_iter().filter(|misfit| !named_by(misfit)) {
                    reading.diagnostics.push(self.unknown_field(kind, &misfit));
                    if is_required_field(kind, &misfit) {
                        object.refuse(&misfit.field, &misfit.problem);
                    }
                }
                self.keep(object, reading);
            }
            Err(misfit) => {
                let consequence = match refusal_consequence(kind) {
                    Some(closed) => self.close::<T>(&misfit, closed, reading),
                    None => "the object is not read; what was known of it before stays".to_owned(),
                };
                let diagnostic = Diagnostic {
                    severity: Severity::Error,
                    origin: self.origin(kind, &misfit),
                    code: "wrong-type",
                    problem: error_text(kind, misfit),
                    consequence,
                };
                reading.diagnostics.push(diagnostic);
                reading.broken.push(ObjectRef::new(kind, self.key(kind)));
            }
        }
    }

    /// Adds a stand-in for a policy that cannot be read; returns the consequence.
    fn close<T>(&self, misfit: &FieldError, closed: &str, reading: &mut ReadDocument) -> String
    where
        T: for<'de> Deserialize<'de> + Into<Object>,
    {
        let decoded = |it: SalvagedPolicy| Some((decode::<T>(&it.node).ok()?.value, it.unread));
        let Some((value, unread)) = salvage::salvage(self.node).and_then(decoded) else {
            return "neither the policy nor its name can be read; it protects nothing".to_owned();
        };
        let mut object = value.into();
        object.set_default_namespace();
        object.refuse(&misfit.field, &misfit.problem);
        reading.stand_ins.push(self.sourced(object));
        let consequence =
            format!("the policy is not read; what was known of it before stays, otherwise {closed}");
        match unread.is_empty() {
            true => consequence,
            false => format!("{consequence}; targets that cannot be read stay open ({})", unread.join(", ")),
        }
    }

    fn keep(&self, object: Object, reading: &mut ReadDocument) {
        if object.reference().key.name.is_empty() {
            self.refuse(reading, "has no metadata.name");
            return;
        }
        reading.objects.push(self.sourced(object));
    }

    fn sourced(&self, object: Object) -> (Object, DocumentSource) {
        let lines = FieldLines::from_lines(&lines(self.node), self.node.line).map(Arc::new);
        (object, DocumentSource { file: self.file.clone(), line: self.node.line, lines })
    }

    /// Skips a kind that is not read: silently for workloads and the like, with a note for kinds related to supported ones.
    fn skip_kind(&self, api: &str, kind: &str, reading: &mut ReadDocument) {
        let group = api.split_once('/').map_or("", |(group, _)| group);
        let (severity, code, problem, consequence) = match (group, kind) {
            ("", "Endpoints") => (
                Severity::Warning,
                "endpoints-not-read",
                "is of a deprecated kind",
                "only EndpointSlice objects give endpoints",
            ),
            ("networking.k8s.io" | "extensions", "Ingress") => (
                Severity::Error,
                "unknown-version",
                "is of an API version that does not exist",
                "it is ignored",
            ),
            (INFERENCE_GROUP, _) => (
                Severity::Warning,
                "inference-extension-not-read",
                "is of a kind or version of the Gateway API Inference Extension that is not read",
                "it is ignored",
            ),
            (GROUP, _) => (
                Severity::Warning,
                "gateway-api-not-read",
                "is of a kind or version of the Gateway API that is not read",
                "it is ignored",
            ),
            (POLICY_GROUP, _) => (
                Severity::Error,
                "policy-not-read",
                "is of a kind or version of fairway.dev that does not exist",
                "it is ignored",
            ),
            _ if is_unrelated_group(group) => return,
            _ => (Severity::Note, "unknown-kind", "is of a kind that is not read", "it is ignored"),
        };
        let key = self.key(Kind::Ingress);
        let origin = self.origin_of(kind, &key, "", self.node.line);
        let problem = format!("{problem} ({api})");
        reading.diagnostics.push(Diagnostic {
            severity,
            origin,
            code,
            problem,
            consequence: consequence.to_owned(),
        });
    }

    fn refuse(&self, reading: &mut ReadDocument, problem: &str) {
        let problem = format!("is no Kubernetes object: {problem}");
        reading.diagnostics.push(line_diagnostic(
            self.file,
            self.node.line,
            "not-an-object",
            (problem, "it is ignored"),
        ));
    }

    fn unknown_field(&self, kind: Kind, misfit: &FieldError) -> Diagnostic {
        let (severity, consequence) = match refusal_consequence(kind)
            .filter(|_| is_required_field(kind, misfit))
        {
            Some(closed) if kind == Kind::ExtensionPolicy => {
                (Severity::Error, format!("the policy is Invalid, and {closed}, unless failureMode is Open"))
            }
            Some(closed) => (Severity::Error, format!("the policy is Invalid, and {closed}")),
            None => (Severity::Warning, "it is ignored".to_owned()),
        };
        Diagnostic {
            severity,
            origin: self.origin(kind, misfit),
            code: "unknown-field",
            problem: misfit.problem.clone(),
            consequence,
        }
    }

    fn origin(&self, kind: Kind, misfit: &FieldError) -> Origin {
        self.origin_of(kind.name(), &self.key(kind), &misfit.field, misfit.line)
    }

    fn origin_of(&self, kind: &str, key: &ObjectKey, field: &str, line: u32) -> Origin {
        Origin {
            kind: kind.into(),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            field: field.into(),
            source: Some(SourceLine { file: self.file.clone(), line }),
        }
    }

    /// The name, as far as it can be read from a broken object.
    fn key(&self, kind: Kind) -> ObjectKey {
        let metadata = self.node.field("metadata");
        let text = |key| metadata.and_then(|metadata| metadata.text_of(key));
        let namespace = if kind.is_namespaced() { text("namespace").unwrap_or("default") } else { "" };
        ObjectKey::new(namespace, text("name").unwrap_or_default())
    }
}

/// Groups that are common in manifest directories and irrelevant to an ingress controller.
fn is_unrelated_group(group: &str) -> bool {
    matches!(
        group,
        "" | "apps"
            | "batch"
            | "autoscaling"
            | "policy"
            | "networking.k8s.io"
            | "discovery.k8s.io"
            | "rbac.authorization.k8s.io"
            | "storage.k8s.io"
            | "scheduling.k8s.io"
            | "coordination.k8s.io"
            | "admissionregistration.k8s.io"
            | "apiextensions.k8s.io"
            | "apiregistration.k8s.io"
            | "certificates.k8s.io"
            | "events.k8s.io"
            | "kustomize.config.k8s.io"
    )
}

/// The line of every field, by path.
fn lines(root: &Node) -> BTreeMap<String, u32> {
    let mut lines = Vec::new();
    let mut path = String::new();
    collect_lines(root, &mut path, &mut lines);
    lines.into_iter().collect()
}

fn collect_lines(node: &Node, path: &mut String, lines: &mut Vec<(String, u32)>) {
    let length = path.len();
    match &node.value {
        Value::Map(entries) => {
            for entry in entries {
                push_key(path, &entry.key);
                lines.push((path.clone(), entry.line));
                collect_lines(&entry.node, path, lines);
                path.truncate(length);
            }
        }
        Value::List(items) => {
            for (index, item) in items.iter().enumerate() {
                path.push_str(&format!("[{index}]"));
                lines.push((path.clone(), item.line));
                collect_lines(item, path, lines);
                path.truncate(length);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::{Section, parse, sections};

    fn reading(text: &str) -> ReadDocument {
        let file: Arc<str> = "web.yaml".into();
        read(&parse(&Section { text, line: 1 }).unwrap().unwrap(), &file)
    }

    fn codes(reading: &ReadDocument) -> Vec<&str> {
        reading.diagnostics.iter().map(|diagnostic| diagnostic.code).collect()
    }

    #[test]
    fn a_list_is_read_item_by_item_with_the_lines_of_each() {
        let text = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Service\n  metadata: {name: a}\n- apiVersion: v1\n  kind: Secret\n  metadata:\n    name: b\n    namespace: other\n  stringData:\n    password: x\n";
        let reading = reading(text);
        let names: Vec<_> = reading
            .objects
            .iter()
            .map(|(object, source)| (object.reference().key.to_string(), source.line))
            .collect();
        assert_eq!(names, [("default/a".to_owned(), 4), ("other/b".to_owned(), 7)]);
        assert_eq!(reading.objects[1].1.line_of("metadata.namespace"), 11);
        let Object::Secret(secret) = &reading.objects[1].0 else { panic!() };
        assert_eq!(secret.data.as_ref().unwrap()["password"].0, b"x");
    }

    #[test]
    fn every_field_has_its_line_however_the_documents_are_written() {
        let block = "# a comment\napiVersion: v1\nkind: Service\n\nmetadata:\n  name: a # another\n  labels: {a: b,\n    c.d/e: f, g: h}\nspec:\n  ports:\n  - {name: web, port: 80}\n  -\n    name: api\n    port: 81\n";
        let aliases = "apiVersion: v1\nkind: Service\nmetadata:\n  name: b\n  annotations: &shared\n    c.d/e: f\n    g: h\n  labels: *shared\nspec:\n  ports:\n  - &port\n    name: web\n    port: 80\n  - <<: *port\n    name: api\n";
        let flow = "{apiVersion: v1, kind: Service, metadata: {name: c},\n spec: {ports: [{port: 80,\n name: web}]}}\n";
        let one_line = "{apiVersion: v1, kind: Service, metadata: {name: d}, spec: {ports: [{port: 80}]}}\n";
        let all = [block, aliases, flow, one_line].join("---\n");
        let [unix, windows] = ["\n", "\r\n"].map(|end| {
            let (text, mut found) = (all.replace('\n', end), Vec::new());
            for section in sections(&text) {
                let root = parse(&section).unwrap().unwrap();
                let reading = read(&root, &"web.yaml".into());
                let [(_, source)] = &reading.objects[..] else { panic!("{:?}", reading.diagnostics) };
                for (path, line) in lines(&root) {
                    assert_eq!(source.line_of(&path), line, "{path}");
                    found.push((path, line));
                }
                assert_eq!(source.lines.is_none(), section.line == 35, "only the last is one line");
            }
            found
        });
        assert_eq!(unix, windows);
        for (path, line) in [
            ("metadata.labels[\"c.d/e\"]", 8),
            ("spec.ports[1].port", 14),
            ("metadata.labels", 23),
            ("metadata.labels[\"c.d/e\"]", 21),
            ("spec.ports[1].port", 28),
            ("spec.ports[0].name", 34),
        ] {
            assert!(unix.contains(&(path.to_owned(), line)), "{path} {line}: {unix:?}");
        }
    }

    #[test]
    fn workloads_are_skipped_silently_and_related_kinds_with_a_note() {
        let kind_of = |api: &str, kind: &str| {
            let reading = reading(&format!("apiVersion: {api}\nkind: {kind}\nmetadata: {{name: x}}\n"));
            assert!(reading.objects.is_empty());
            reading.diagnostics.first().map(|diagnostic| (diagnostic.severity, diagnostic.code))
        };
        assert_eq!(kind_of("apps/v1", "Deployment"), None);
        assert_eq!(kind_of("v1", "PersistentVolumeClaim"), None);
        assert_eq!(kind_of("acme.example/v1", "Anvil"), Some((Severity::Note, "unknown-kind")));
        assert_eq!(kind_of("v1", "Endpoints"), Some((Severity::Warning, "endpoints-not-read")));
        assert_eq!(kind_of("networking.k8s.io/v2", "Ingress"), Some((Severity::Error, "unknown-version")));
        for (version, kind) in [("v1alpha2", "HTTPRoute"), ("v1", "Balloon")] {
            let api = format!("gateway.networking.k8s.io/{version}");
            assert_eq!(kind_of(&api, kind), Some((Severity::Warning, "gateway-api-not-read")), "{kind}");
        }
    }

    #[test]
    fn every_kind_is_read_in_each_of_its_versions() {
        for known in KINDS {
            for version in known.versions {
                let (group, kind) = (known.group, known.name);
                let api = if group.is_empty() { (*version).to_owned() } else { format!("{group}/{version}") };
                let reading = reading(&format!("apiVersion: {api}\nkind: {kind}\nmetadata: {{name: x}}\n"));
                let namespace = if known.is_namespaced { "default" } else { "" };
                let expected = ObjectRef::new(known.kind, ObjectKey::new(namespace, "x"));
                assert_eq!(reading.objects[0].0.reference(), expected, "{kind} {version}");
                assert_eq!(codes(&reading), [""; 0], "{kind}");
            }
        }
    }

    #[test]
    fn a_wrong_type_in_a_route_is_reported_and_skips_only_that_route() {
        let route = |name: &str, port: &str| {
            format!(
                "- apiVersion: gateway.networking.k8s.io/v1\n  kind: HTTPRoute\n  metadata: {{name: {name}}}\n  spec:\n    \
                 rules:\n    - backendRefs:\n      - name: web\n        port: {port}\n"
            )
        };
        let text = format!(
            "apiVersion: v1\nkind: HTTPRouteList\nitems:\n{}{}",
            route("good", "80"),
            route("bad", "http")
        );
        let reading = reading(&text);
        assert_eq!(codes(&reading), ["wrong-type"]);
        let message = reading.diagnostics[0].to_string();
        assert!(message.contains("HTTPRoute default/bad spec.rules[0].backendRefs[0].port"), "{message}");
        assert_eq!(reading.diagnostics[0].origin.source.as_ref().unwrap().line, 19);
        assert_eq!(reading.objects.len(), 1);
        assert_eq!(reading.objects[0].1.line_of("spec.rules[0].backendRefs[0].port"), 11);
        assert_eq!(reading.broken, [ObjectRef::new(Kind::HttpRoute, ObjectKey::new("default", "bad"))]);
    }

    #[test]
    fn a_namespace_keeps_its_labels() {
        let reading = reading("apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {team: a}}\n");
        let (Object::Namespace(namespace), _) = &reading.objects[0] else { panic!() };
        assert_eq!(namespace.metadata.labels.as_ref().unwrap()["team"], "a");
        assert_eq!(reading.objects[0].0.reference().key, ObjectKey::new("", "shop"));
    }

    #[test]
    fn a_document_that_is_not_an_object_is_reported_with_its_line() {
        let values = reading("# values of a chart\nreplicas: 3\n");
        assert_eq!(codes(&values), ["not-an-object"]);
        assert_eq!(values.diagnostics[0].origin.source.as_ref().unwrap().line, 2);
        assert_eq!(codes(&reading("apiVersion: v1\nkind: Service\nmetadata: {}\n")), ["not-an-object"]);
    }

    #[test]
    fn a_list_is_no_object() {
        let message_for = |group: &str, kind: &str, spec: &str| {
            let text =
                format!("apiVersion: {group}/v1alpha1\nkind: {kind}\nmetadata: {{name: a}}\nspec: {spec}\n");
            let text = if group == GROUP { text.replace("v1alpha1", "v1") } else { text };
            let reading = reading(&text);
            assert_eq!(reading.broken.len(), 1, "{kind} {spec}");
            let diagnostic = &reading.diagnostics[0];
            format!("{} {}: {}", diagnostic.code, diagnostic.origin.field, diagnostic.problem)
        };
        assert_eq!(
            message_for(GROUP, "HTTPRoute", "[]"),
            "wrong-type spec: invalid type: sequence, expected struct HttpRouteSpec"
        );
        assert_eq!(
            message_for(GROUP, "HTTPRoute", "{rules: [{timeouts: [1s, 1s]}]}"),
            "wrong-type spec.rules[0].timeouts: invalid type: sequence, expected struct HttpRouteTimeouts"
        );
        assert_eq!(
            message_for(GROUP, "Gateway", "{listeners: [[]]}"),
            "wrong-type spec.listeners[0]: invalid type: sequence, expected struct Listener"
        );
        assert_eq!(
            message_for(POLICY_GROUP, "SecurityPolicy", "{basicAuth: []}"),
            "wrong-type spec.basicAuth: invalid type: sequence, expected struct BasicAuth"
        );
    }

    #[test]
    fn wrong_types_in_a_slice_are_reported_even_for_unused_fields() {
        let messages_for = |fields: &str| {
            let text = format!("apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n{fields}\n");
            let message_of = |it: Diagnostic| format!("{} {}: {}", it.code, it.origin.field, it.problem);
            reading(&text).diagnostics.into_iter().map(message_of).collect::<Vec<_>>().join("; ")
        };
        let unknown = "is a field that this kind does not have";
        for (fields, field, problem) in [
            ("metadata: []", "metadata", "invalid type: sequence, expected ObjectMeta"),
            ("metadata: {name: 5}", "metadata.name", "invalid type: integer `5`, expected a string"),
            ("metadata: {name: a, x: 1}", "metadata.x", unknown),
            ("addressType: 5", "addressType", "invalid type: integer `5`, expected a string"),
            ("endpoints: {}", "endpoints", "invalid type: map, expected a sequence"),
            ("endpoints: [{}, []]", "endpoints[1]", "invalid type: sequence, expected Endpoint"),
            ("endpoints: [null]", "endpoints[0]", "invalid type: unit value, expected Endpoint"),
            ("ports: [{port: \"80\"}]", "ports[0].port", "invalid type: string \"80\", expected i32"),
            ("ports: [{x: 1}]", "ports[0].x", unknown),
            ("spec: {}", "spec", unknown),
        ] {
            let code = if problem == unknown { "unknown-field" } else { "wrong-type" };
            let fields = if fields.starts_with("metadata") {
                fields
            } else {
                &format!("metadata: {{name: a}}\n{fields}")
            };
            assert_eq!(messages_for(fields), format!("{code} {field}: {problem}"));
        }
        for (fields, field, problem) in [
            ("addresses: 5", "addresses", "invalid type: integer `5`, expected a sequence"),
            ("addresses: [null]", "addresses[0]", "invalid type: unit value, expected a string"),
            ("address: []", "address", unknown),
            ("conditions: []", "conditions", "invalid type: sequence, expected EndpointConditions"),
            ("conditions: {ready: 1}", "conditions.ready", "invalid type: integer `1`, expected a boolean"),
            ("targetRef: []", "targetRef", "invalid type: sequence, expected ObjectReference"),
            ("targetRef: {name: 5}", "targetRef.name", "invalid type: integer `5`, expected a string"),
            ("targetRef: {uid: 5}", "targetRef.uid", "invalid type: integer `5`, expected a string"),
            ("targetRef: {uids: a}", "targetRef.uids", unknown),
            ("nodeName: 5", "nodeName", "invalid type: integer `5`, expected a string"),
            ("zone: []", "zone", "invalid type: sequence, expected a string"),
            ("hostname: {}", "hostname", "invalid type: map, expected a string"),
            ("hints: {forZones: [5]}", "hints.forZones[0]", "invalid type: integer `5`, expected ForZone"),
            (
                "deprecatedTopology: {a: 5}",
                "deprecatedTopology.a",
                "invalid type: integer `5`, expected a string",
            ),
            ("unheard: 5", "unheard", unknown),
        ] {
            let code = if problem == unknown { "unknown-field" } else { "wrong-type" };
            let message = messages_for(&format!("metadata: {{name: a}}\nendpoints: [{{{fields}}}]"));
            assert_eq!(message, format!("{code} endpoints[0].{field}: {problem}"));
        }
        let nothing =
            "addresses: null, conditions: null, targetRef: null, nodeName: null, hints: null, zone: null";
        let target =
            "{apiVersion: v1, kind: Pod, namespace: a, name: b, uid: c, resourceVersion: d, fieldPath: e}";
        let endpoints =
            format!("[{{}}, {{{nothing}}}, {{targetRef: {target}, deprecatedTopology: {{a: b}}}}]");
        let complete =
            format!("metadata: {{name: a}}\naddressType: IPv4\nports: null\nendpoints: {endpoints}");
        assert_eq!(messages_for(&complete), "");
    }

    #[test]
    fn a_broken_object_is_known_by_name() {
        let reading = reading("apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {ports: 80}\n");
        assert_eq!(codes(&reading), ["wrong-type"]);
        assert_eq!(reading.broken, [ObjectRef::new(Kind::Service, ObjectKey::new("default", "a"))]);
    }

    /// A SecurityPolicy `shop/login` for the HTTPRoute `shop`.
    fn policy(spec: &str) -> String {
        format!(
            "apiVersion: fairway.dev/v1alpha1\nkind: SecurityPolicy\nmetadata: {{name: login, namespace: shop}}\nspec:\n  \
             targetRefs: [{{group: gateway.networking.k8s.io, kind: HTTPRoute, name: shop}}]\n{spec}"
        )
    }

    #[test]
    fn a_policy_with_a_wrong_type_leaves_a_stand_in() {
        let reading = reading(&policy("  rateLimits: [{requests: \"600\"}]\n"));
        assert_eq!(codes(&reading), ["wrong-type"]);
        let message = reading.diagnostics[0].to_string();
        assert!(message.contains("SecurityPolicy shop/login spec.rateLimits[0].requests"), "{message}");
        assert!(message.contains("requests to its targets are answered 503"), "{message}");
        assert!(reading.objects.is_empty());
        let expected = ObjectRef::new(Kind::SecurityPolicy, ObjectKey::new("shop", "login"));
        assert_eq!(reading.broken, std::slice::from_ref(&expected));
        let (object, source) = &reading.stand_ins[0];
        assert_eq!((object.reference(), source.line_of("spec.rateLimits[0].requests")), (expected, 6));
        let Object::SecurityPolicy(policy) = object else { panic!("{object:?}") };
        assert_eq!(policy.spec.refused.as_ref().unwrap().field, "spec.rateLimits[0].requests");
        assert_eq!(policy.spec.target_refs[0].name, "shop");
        assert!(policy.spec.rate_limits.is_empty());
    }

    #[test]
    fn targets_of_a_broken_policy_that_stay_open_are_reported() {
        let policy = |metadata: &str, targets: &str| {
            let reading = reading(&format!(
                "apiVersion: fairway.dev/v1alpha1\nkind: SecurityPolicy\nmetadata: {metadata}\nspec: {{targetRefs: {targets}}}\n"
            ));
            assert_eq!(codes(&reading), ["wrong-type"]);
            (reading.stand_ins.len(), reading.diagnostics[0].consequence.clone())
        };
        let (stand_ins, consequence) = policy("{name: a}", "[{group: g, kind: HTTPRoute, name: 5}]");
        assert!(stand_ins == 1 && consequence.ends_with("stay open (spec.targetRefs[0])"), "{consequence}");
        let (stand_ins, consequence) = policy("{name: 5}", "[]");
        assert!(stand_ins == 0 && consequence.ends_with("it protects nothing"), "{consequence}");
    }

    #[test]
    fn a_policy_with_a_field_that_does_not_exist_is_refused() {
        let refused = |reading: &ReadDocument| {
            let Object::SecurityPolicy(policy) = &reading.objects[0].0 else { panic!() };
            policy.spec.refused.as_ref().map(|refused| refused.field.clone())
        };
        let mut misspelled =
            reading(&policy("  sourceRange: {deny: [192.0.2.1]}\n  basicAuth: {realms: x}\n"));
        assert_eq!(codes(&misspelled), ["unknown-field", "unknown-field"]);
        let diagnostic = misspelled.diagnostics.remove(0);
        assert_eq!((diagnostic.severity, &*diagnostic.origin.field), (Severity::Error, "spec.sourceRange"));
        assert!(diagnostic.consequence.contains("answered 503"), "{diagnostic}");
        assert_eq!(refused(&misspelled).as_deref(), Some("spec.sourceRange"));
        let elsewhere = reading(&format!("{}extra: 1\n", policy("")));
        assert_eq!(elsewhere.diagnostics[0].severity, Severity::Warning);
        assert_eq!(refused(&elsewhere), None);
    }

    #[test]
    fn an_extension_policy_is_closed_like_a_security_policy_and_its_metadata_may_be_anything() {
        let policy = |spec: &str| reading(&policy(spec).replace("SecurityPolicy", "ExtensionPolicy"));
        let service = "backendRef: {name: waf, port: 9000}";
        let good = policy(&format!("  extProc: [{{{service}, metadata: {{a: {{b: [1, {{c: ~}}]}}}}}}]\n"));
        assert_eq!(codes(&good), [""; 0]);
        let Object::ExtensionPolicy(read) = &good.objects[0].0 else { panic!() };
        let metadata = serde_json::to_string(&read.spec.ext_proc[0].metadata).unwrap();
        assert_eq!(metadata, r#"{"a":{"b":[1,{"c":null}]}}"#);
        let misspelled = policy(&format!("  extProc: [{{{service}, failuremode: Open}}]\n"));
        let diagnostic = &misspelled.diagnostics[0];
        assert!(diagnostic.consequence.contains("answered 500, unless failureMode is Open"), "{diagnostic}");
        let Object::ExtensionPolicy(read) = &misspelled.objects[0].0 else { panic!() };
        assert_eq!(read.spec.refused.as_ref().unwrap().field, "spec.extProc[0].failuremode");
        let broken = policy("  extProc: [{messageTimeout: 5}]\n");
        assert!(broken.diagnostics[0].consequence.ends_with("answered 500"), "{}", broken.diagnostics[0]);
        let Object::ExtensionPolicy(read) = &broken.stand_ins[0].0 else { panic!() };
        assert!(read.spec.ext_proc.is_empty() && read.spec.refused.is_some());
    }

    #[test]
    fn a_field_that_does_not_exist_is_ignored_in_other_kinds() {
        let text = policy("  limits: {burst: 1}\n").replace("SecurityPolicy", "ClientTrafficPolicy");
        let reading = reading(&text);
        assert_eq!(codes(&reading), ["unknown-field"]);
        let diagnostic = &reading.diagnostics[0];
        assert_eq!((diagnostic.severity, &*diagnostic.consequence), (Severity::Warning, "it is ignored"));
        assert_eq!(reading.objects.len(), 1);
    }

    #[test]
    fn an_invalid_base64_value_is_reported_as_such() {
        let problem = |yaml: &str| reading(yaml).diagnostics.remove(0).problem;
        let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n";
        assert_eq!(
            problem(&format!("{secret}data: {{tls.crt: '!'}}\n")),
            "the value is no base64 (Invalid symbol 33, offset 0)"
        );
        assert!(problem(&format!("{secret}data: {{tls.crt: 1}}\n")).starts_with("invalid type"));
    }

    #[test]
    fn old_ingresses_are_kept_as_written() {
        let reading = reading("apiVersion: extensions/v1beta1\nkind: Ingress\nmetadata: {name: old}\n");
        assert_eq!(reading.objects[0].0.reference().kind, Kind::OldIngress);
    }
}
