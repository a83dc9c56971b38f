//! Parses one document to a node tree. Depth, nodes and alias expansion are limited, so that no document can exhaust the memory.

use std::collections::{HashMap, HashSet};

use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, Span};

use crate::manifest::node::{Entry, Node, Value};
use crate::manifest::scalar::Schema;
use crate::manifest::split::{Section, sections};

/// The maximum nesting depth; Kubernetes objects have about ten levels.
const MAX_DEPTH: usize = 64;
/// The maximum number of nodes in a document, aliases expanded. A `kind: List` with 20,000 Ingresses has about 1,500,000.
const MAX_NODES: usize = 4_000_000;
/// The maximum number of nodes that aliases add: more is a "billion laughs" document.
const MAX_ALIAS_NODES: usize = 100_000;

/// Why a document cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestError {
    /// The line in the file, counted from 1.
    pub line: u32,
    /// What is wrong, as half a sentence.
    pub problem: String,
}

/// Parses a document; `None` if it has no content.
///
/// # Errors
/// The first syntax error or exceeded limit.
pub fn parse(section: &Section<'_>) -> Result<Option<Node>, ManifestError> {
    parse_by(section, Schema::Core)
}

/// Parses a text with at most one document; `None` if it has no content.
///
/// # Errors
/// The first syntax error or exceeded limit, or a second document.
pub fn parse_single(text: &str, schema: Schema) -> Result<Option<Node>, ManifestError> {
    match sections(text)[..] {
        [] => Ok(None),
        [section] => parse_by(&section, schema),
        [_, second, ..] => Err(ManifestError {
            line: second.line,
            problem: "has more than one document, and one is expected".into(),
        }),
    }
}

fn parse_by(section: &Section<'_>, schema: Schema) -> Result<Option<Node>, ManifestError> {
    let mut builder = Builder { first_line: section.line, schema, ..Builder::default() };
    let text = section.text.trim_start_matches('\u{feff}');
    let options = granit_parser::options! {
        // Another crate of the build may enable comment events, which carry no value.
        emit_comments: false,
        // The parser may read ahead many brackets before it emits their first event.
        flow_nesting_limit: MAX_DEPTH,
    };
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) = event.map_err(|error| ManifestError {
            line: section.line + offset(error.marker().line()),
            problem: match error.kind() {
                ErrorKind::RecursionLimitExceeded => too_deep(),
                _ => format!("is not valid YAML: {}", error.info()),
            },
        })?;
        builder.accept(event, span)?;
    }
    Ok(builder.root)
}

fn too_deep() -> String {
    format!("is nested deeper than {MAX_DEPTH} levels")
}

fn offset(line: usize) -> u32 {
    u32::try_from(line.saturating_sub(1)).unwrap_or(u32::MAX - 1)
}

#[derive(Default)]
struct Builder {
    first_line: u32,
    schema: Schema,
    open: Vec<OpenCollection>,
    root: Option<Node>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
    alias_nodes: usize,
}

/// A collection that has not ended yet.
struct OpenCollection {
    line: u32,
    anchor: usize,
    content: Content,
}

enum Content {
    List(Vec<Node>),
    Map(Mapping),
}

/// Up to this many keys are compared one by one, which is faster than a set for ordinary mappings.
const MAX_LINEAR_KEYS: usize = 32;

/// A mapping that has not ended yet.
#[derive(Default)]
struct Mapping {
    entries: Vec<Entry>,
    /// The keys of the entries, once there are more than [`MAX_LINEAR_KEYS`]: a mapping may have millions.
    keys: HashSet<String>,
    /// A key whose value has not been read yet.
    key: Option<(String, u32)>,
    merged: Vec<Entry>,
}

impl Builder {
    fn accept(&mut self, event: Event<'_>, span: Span) -> Result<(), ManifestError> {
        let line = self.first_line + offset(span.start.line());
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let forced_text = tag.is_some_and(|tag| tag.is_yaml_core_schema_tag("str"));
                let value = match style {
                    ScalarStyle::Plain if !forced_text => self.schema.plain(&text),
                    _ => Value::Text(text.into_owned()),
                };
                self.finish_node(Node { line, value }, anchor)
            }
            Event::SequenceStart(_, anchor, _) => {
                self.open_collection(line, anchor, Content::List(Vec::new()))
            }
            Event::MappingStart(_, anchor, _) => {
                self.open_collection(line, anchor, Content::Map(Mapping::default()))
            }
            Event::SequenceEnd | Event::MappingEnd => self.close_collection(),
            Event::Alias(anchor) => self.expand_alias(anchor, line),
            // Stream and document ends, and events that no option enables.
            _ => Ok(()),
        }
    }

    fn open_collection(&mut self, line: u32, anchor: usize, content: Content) -> Result<(), ManifestError> {
        if self.open.len() == MAX_DEPTH {
            return Err(ManifestError { line, problem: too_deep() });
        }
        self.open.push(OpenCollection { line, anchor, content });
        Ok(())
    }

    fn close_collection(&mut self) -> Result<(), ManifestError> {
        let Some(OpenCollection { line, anchor, content }) = self.open.pop() else {
            return Ok(());
        };
        let value = match content {
            Content::List(items) => Value::List(items),
            Content::Map(mapping) => Value::Map(mapping.with_merged()),
        };
        self.finish_node(Node { line, value }, anchor)
    }

    fn expand_alias(&mut self, anchor: usize, line: u32) -> Result<(), ManifestError> {
        let Some(node) = self.anchors.get(&anchor).cloned() else {
            return Err(ManifestError { line, problem: "uses an alias inside of its own anchor".into() });
        };
        let size = node.size();
        self.alias_nodes += size;
        self.nodes += size;
        if self.alias_nodes > MAX_ALIAS_NODES {
            return Err(ManifestError {
                line,
                problem: format!("expands aliases to more than {MAX_ALIAS_NODES} nodes"),
            });
        }
        self.push_node(Node { line, ..node })
    }

    fn finish_node(&mut self, node: Node, anchor: usize) -> Result<(), ManifestError> {
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        self.push_node(node)
    }

    /// Attaches a finished node to its parent.
    fn push_node(&mut self, node: Node) -> Result<(), ManifestError> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(ManifestError {
                line: node.line,
                problem: format!("has more than {MAX_NODES} values"),
            });
        }
        let Some(open) = self.open.last_mut() else {
            self.root = (node.value != Value::Null).then_some(node);
            return Ok(());
        };
        match &mut open.content {
            Content::List(items) => items.push(node),
            Content::Map(mapping) => mapping.push_node(node)?,
        }
        Ok(())
    }
}

impl Mapping {
    /// Adds a key or its value, whichever is next.
    fn push_node(&mut self, node: Node) -> Result<(), ManifestError> {
        match self.key.take() {
            None => self.key = Some((key_text(node.value, node.line)?, node.line)),
            Some((name, _)) if name == "<<" => merge_mapping(node, &mut self.merged)?,
            Some((name, line)) => {
                if !self.is_new(&name) {
                    return Err(ManifestError { line, problem: format!("has the key {name:?} twice") });
                }
                self.entries.push(Entry { key: name, line, node });
            }
        }
        Ok(())
    }

    /// Whether no entry has this key. Called once per key.
    fn is_new(&mut self, key: &str) -> bool {
        if self.entries.len() < MAX_LINEAR_KEYS {
            return self.entries.iter().all(|entry| entry.key != key);
        }
        if self.keys.is_empty() {
            self.keys = self.entries.iter().map(|entry| entry.key.clone()).collect();
        }
        self.keys.insert(key.to_owned())
    }

    /// All entries, and merged ones whose keys are not overridden.
    fn with_merged(mut self) -> Vec<Entry> {
        for entry in std::mem::take(&mut self.merged) {
            if self.is_new(&entry.key) {
                self.entries.push(entry);
            }
        }
        self.entries
    }
}

fn key_text(key: Value, line: u32) -> Result<String, ManifestError> {
    match key {
        Value::Text(text) => Ok(text),
        Value::Int(number) => Ok(number.to_string()),
        Value::Bool(value) => Ok(value.to_string()),
        Value::Float(number) => Ok(number.to_string()),
        Value::Null => Ok("null".to_owned()),
        Value::List(_) | Value::Map(_) => {
            Err(ManifestError { line, problem: "has a key that is no scalar".into() })
        }
    }
}

/// `<<: *alias` (YAML merge key): keys of the mapping itself take precedence.
fn merge_mapping(node: Node, merged: &mut Vec<Entry>) -> Result<(), ManifestError> {
    match node.value {
        Value::Map(entries) => merged.extend(entries),
        Value::List(items) => {
            for item in items {
                merge_mapping(item, merged)?;
            }
        }
        _ => {
            return Err(ManifestError {
                line: node.line,
                problem: "merges something that is no mapping".into(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(text: &str) -> Node {
        parse(&Section { text, line: 1 }).unwrap().unwrap()
    }

    fn flaw(text: &str) -> ManifestError {
        parse(&Section { text, line: 1 }).unwrap_err()
    }

    #[test]
    fn nodes_know_their_lines() {
        let root =
            parse(&Section { text: "---\na:\n  b: 1\n  c:\n  - x\n  - y: z\n", line: 10 }).unwrap().unwrap();
        let a = root.field("a").unwrap();
        assert_eq!(a.field("b").unwrap().line, 12);
        let Value::List(items) = &a.field("c").unwrap().value else { panic!("{a:?}") };
        assert_eq!((items[0].line, items[1].line), (14, 15));
    }

    #[test]
    fn quoted_scalars_are_strings_and_plain_ones_have_types() {
        let root = tree("a: \"80\"\nb: 80\nc: !!str 80\nd: |\n  text\n");
        assert_eq!(root.text_of("a"), Some("80"));
        assert_eq!(root.field("b").unwrap().value, Value::Int(80));
        assert_eq!(root.text_of("c"), Some("80"));
        assert_eq!(root.text_of("d"), Some("text\n"));
    }

    #[test]
    fn a_single_document_is_parsed_by_the_given_schema() {
        let read = |text: &str, schema| parse_single(text, schema).map(|node| node.map(|it| it.to_json()));
        assert_eq!(read("# note\n---\na: yes\n", Schema::Core), Ok(Some(serde_json::json!({"a": "yes"}))));
        assert_eq!(
            read("a: yes\nb: 'yes'\n", Schema::Yaml11),
            Ok(Some(serde_json::json!({"a": true, "b": "yes"})))
        );
        assert_eq!(read("# nothing\n", Schema::Core), Ok(None));
    }

    #[test]
    fn a_second_document_is_rejected_where_one_is_expected() {
        let problem = "has more than one document, and one is expected".to_owned();
        assert_eq!(parse_single("a: 1\n---\nb: 2\n", Schema::Core), Err(ManifestError { line: 2, problem }));
    }

    #[test]
    fn comments_are_skipped_everywhere() {
        let note = "# note\n".repeat(200);
        let root = tree(&format!("{note}a: # note\n{note}  b: 1\n{note}c:\n{note}- x # note\n{note}"));
        assert_eq!(root.to_json(), serde_json::json!({"a": {"b": 1}, "c": ["x"]}));
    }

    #[test]
    fn json_is_read_too() {
        let root = tree("{\n\t\"a\": [1, \"two\", null],\n\t\"b\": {\"c\": true}\n}\n");
        assert_eq!(root.to_json(), serde_json::json!({"a": [1, "two", null], "b": {"c": true}}));
    }

    #[test]
    fn aliases_and_merge_keys_are_expanded() {
        let root = tree("base: &b {x: 1, y: 2}\nuse:\n  <<: *b\n  y: 3\n");
        assert_eq!(root.to_json()["use"], serde_json::json!({"y": 3, "x": 1}));
    }

    #[test]
    fn the_first_of_several_merged_mappings_wins_and_keeps_its_place() {
        let root = tree("a: &a {x: 1, y: 2}\nb: &b {y: 3, z: 4}\nuse:\n  <<: [*a, *b]\n  z: 5\n");
        let Value::Map(entries) = &root.field("use").unwrap().value else { panic!("{root:?}") };
        let keys: Vec<_> = entries.iter().map(|entry| entry.key.as_str()).collect();
        assert_eq!(keys, ["z", "x", "y"]);
        assert_eq!(root.to_json()["use"], serde_json::json!({"x": 1, "y": 2, "z": 5}));
    }

    /// Compared one by one, 200,000 keys would take 20,000,000,000 comparisons.
    #[test]
    fn the_time_for_a_mapping_is_linear_in_its_keys() {
        let text: String = (0..200_000).map(|number| format!("k{number:06}: 0\n")).collect();
        let began = std::time::Instant::now();
        let Value::Map(entries) = tree(&text).value else { panic!("no mapping") };
        assert_eq!(entries.len(), 200_000);
        assert!(began.elapsed() < std::time::Duration::from_secs(60), "{:?}", began.elapsed());
    }

    #[test]
    fn a_billion_laughs_is_refused() {
        let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..10 {
            let alias = format!("*a{}, ", level - 1);
            text.push_str(&format!("a{level}: &a{level} [{}]\n", alias.repeat(10).trim_end_matches(", ")));
        }
        assert!(flaw(&text).problem.contains("aliases"));
    }

    #[test]
    fn deep_nesting_and_duplicate_keys_are_refused_with_their_line() {
        assert!(flaw(&"[".repeat(100)).problem.contains("nested deeper"));
        assert_eq!(
            flaw("a: 1\nb: 2\na: 3\n"),
            ManifestError { line: 3, problem: "has the key \"a\" twice".into() }
        );
        assert_eq!(flaw("a: 1\n b: [\n").line, 2);
    }
}
