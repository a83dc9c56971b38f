//! The recorded cases as values, and how they are written. Defines which responses count as the same.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// One file of `cases/`.
pub(crate) struct File {
    path: PathBuf,
    pub(crate) groups: Vec<Group>,
}

/// Cases with the same ConfigMap keys.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) keys: BTreeMap<String, String>,
    pub(crate) cases: Vec<Case>,
}

/// A request, the endpoint's response, and the responses that clients received.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    /// The specification section of the case, and its name.
    pub(crate) about: String,
    #[serde(default)]
    pub(crate) request: RecordedRequest,
    #[serde(default)]
    pub(crate) endpoint: Endpoint,
    /// The recorded response.
    pub(crate) recorded: Option<Answered>,
    /// Fairway's response, if it differs.
    pub(crate) fairway: Option<Answered>,
    /// Why it differs.
    pub(crate) why: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RecordedRequest {
    #[serde(skip_serializing_if = "is_get")]
    pub(crate) method: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) http10: bool,
    pub(crate) headers: Vec<(String, String)>,
}

/// The response of the endpoint, which evaluates `If-None-Match` and `Range` itself.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Endpoint {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    /// The length of the text.
    pub(crate) body: usize,
    /// `length`, `chunked` or `close`.
    pub(crate) framing: String,
    /// Trailers after a chunked body.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) trailers: Vec<(String, String)>,
}

/// The response that the client received, and the headers that the endpoint received.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Answered {
    /// 0 if the connection ended without a response.
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    /// `length`, `chunked`, `close` or `none`.
    pub(crate) framing: String,
    pub(crate) body: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) trailers: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) seen: BTreeMap<String, String>,
}

impl Default for RecordedRequest {
    fn default() -> Self {
        Self { method: "GET".to_owned(), http10: false, headers: Vec::new() }
    }
}

impl Default for Endpoint {
    fn default() -> Self {
        let headers = vec![("Content-Type".to_owned(), "text/plain".to_owned())];
        Self { status: 200, headers, body: 2000, framing: "length".to_owned(), trailers: Vec::new() }
    }
}

impl File {
    pub(crate) fn read(name: &str) -> Self {
        let path =
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/compression/cases/{name}.json"));
        let text = fs::read(&path).unwrap();
        let groups =
            serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self { path, groups }
    }

    pub(crate) fn write(&self) {
        let mut text = String::new();
        for group in &self.groups {
            let cases: Vec<_> = group.cases.iter().map(Case::text).collect();
            text.push_str(if text.is_empty() { "[\n" } else { ",\n" });
            _ = write!(
                text,
                " {{\"name\": {}, \"keys\": {}, \"cases\": [\n{}\n ]}}",
                json(&group.name),
                json(&group.keys),
                cases.join(",\n")
            );
        }
        fs::write(&self.path, text + "\n]\n").unwrap();
    }
}

impl Case {
    fn text(&self) -> String {
        let mut lines = vec![
            format!("\"about\": {}", json(&self.about)),
            format!("\"request\": {}", json(&self.request)),
            format!("\"endpoint\": {}", json(&self.endpoint)),
        ];
        lines.extend(self.recorded.as_ref().map(|it| format!("\"recorded\": {}", json(it))));
        lines.extend(self.fairway.as_ref().map(|it| format!("\"fairway\": {}", json(it))));
        lines.extend(self.why.as_ref().map(|it| format!("\"why\": {}", json(it))));
        format!("  {{{}}}", lines.join(",\n   "))
    }

    /// The deviation of Fairway's response.
    pub(crate) fn judge(&self, now: &Answered) -> Option<String> {
        let recorded = self.recorded.as_ref().expect("a recorded response");
        match (&self.fairway, &self.why) {
            (None, None) if now == recorded => None,
            (None, None) => Some(format!("\n  recorded {}\n  now      {}", json(recorded), json(now))),
            (Some(meant), Some(_)) if meant == recorded => Some("it is no difference".to_owned()),
            (Some(meant), Some(_)) if now == meant => None,
            (Some(meant), Some(_)) => Some(format!("\n  meant    {}\n  now      {}", json(meant), json(now))),
            _ => Some("a difference has a response and a reason".to_owned()),
        }
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap()
}

fn is_get(method: &String) -> bool {
    method == "GET"
}
