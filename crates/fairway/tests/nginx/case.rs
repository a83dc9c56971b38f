//! The recorded cases as values, and how they are written: one exchange per line. Defines what counts as the same.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use fairway_testkit::RecordedRequest;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Request headers at the backend that are not compared: they belong to the connection, are generated for each request, or depend
/// on the port of a test.
const NOT_COMPARED: [&str; 5] = ["host", "connection", "content-length", "x-request-id", "x-forwarded-port"];

/// One file of `cases/`.
pub(crate) struct File {
    path: PathBuf,
    pub(crate) cases: Vec<Case>,
}

/// ConfigMap keys, and the exchanges with them.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) keys: BTreeMap<String, String>,
    /// The allowed client ranges, if access is restricted.
    pub(crate) allow: Option<String>,
    /// Annotations of the Ingress, without their prefix.
    #[serde(default)]
    pub(crate) annotations: BTreeMap<String, String>,
    /// Whether another request is waiting for its response meanwhile.
    #[serde(default)]
    pub(crate) busy: bool,
    pub(crate) exchanges: Vec<Exchange>,
}

/// A request and its outcome.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Exchange {
    /// Bytes before the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) proxy_header: Option<String>,
    /// Path and query; `/` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) target: Option<String>,
    pub(crate) headers: Vec<(String, String)>,
    /// The outcome with nginx.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) nginx: Option<Answered>,
    /// The outcome with Fairway, if it differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fairway: Option<Answered>,
    /// Why it differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) why: Option<String>,
}

/// The response that the client received, and the request that the backend received.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Answered {
    /// 0 if the connection ended without a response.
    pub(crate) status: u16,
    /// The target of a redirect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) location: Option<String>,
    /// The headers of the request for an error page: `X-Code` and `X-Original-URI`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) page: Option<[String; 2]>,
    /// Headers of the request at the backend, by name in lower case; empty if none reached it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seen: Option<BTreeMap<String, Vec<String>>>,
}

impl File {
    pub(crate) fn read(name: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/nginx/cases/{name}.json"));
        let text = fs::read(&path).unwrap();
        let cases =
            serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self { path, cases }
    }

    pub(crate) fn write(&self) {
        let mut text = "[\n".to_owned();
        for (number, case) in self.cases.iter().enumerate() {
            let json = |value: &Value| serde_json::to_string(value).unwrap();
            let allow = case
                .allow
                .as_ref()
                .map(|allow| format!("\"allow\": {},\n  ", json(&Value::from(allow.as_str()))));
            let annotations = (!case.annotations.is_empty()).then(|| {
                format!("\"annotations\": {},\n  ", serde_json::to_string(&case.annotations).unwrap())
            });
            _ = write!(
                text,
                " {{\"name\": {},\n  \"keys\": {},\n  {}{}{}\"exchanges\": [\n",
                json(&Value::from(case.name.as_str())),
                serde_json::to_string(&case.keys).unwrap(),
                allow.unwrap_or_default(),
                annotations.unwrap_or_default(),
                if case.busy { "\"busy\": true,\n  " } else { "" },
            );
            let lines: Vec<_> = case
                .exchanges
                .iter()
                .map(|it| format!("   {}", serde_json::to_string(it).unwrap()))
                .collect();
            text.push_str(&lines.join(",\n"));
            text.push_str(if number + 1 < self.cases.len() { "\n  ]},\n" } else { "\n  ]}\n" });
        }
        text.push_str("]\n");
        fs::write(&self.path, text).unwrap();
    }
}

impl Exchange {
    /// The deviation of Fairway's outcome.
    pub(crate) fn judge(&self, now: &Answered) -> Option<String> {
        let nginx = self.nginx.as_ref().expect("the request to nginx succeeds");
        let requests = format!(
            "{:?} {} {:?}",
            self.proxy_header.as_deref().unwrap_or_default(),
            self.target.as_deref().unwrap_or("/"),
            self.headers
        );
        match (&self.fairway, &self.why) {
            (None, None) if now == nginx => None,
            (None, None) => Some(format!("{requests}: nginx {nginx:?}, now {now:?}")),
            (Some(meant), Some(_)) if meant == nginx => Some(format!("{requests}: it is no difference")),
            (Some(meant), Some(_)) if now == meant => None,
            (Some(meant), Some(_)) => Some(format!("{requests}: meant {meant:?}, now {now:?}")),
            _ => Some(format!("{requests}: a difference has an answer and a reason")),
        }
    }
}

/// The compared headers of a request at the backend.
pub(crate) fn relevant_headers(request: &RecordedRequest) -> BTreeMap<String, Vec<String>> {
    let mut headers = BTreeMap::<String, Vec<String>>::new();
    for (name, value) in &request.headers {
        let name = name.to_ascii_lowercase();
        if !NOT_COMPARED.contains(&name.as_str()) {
            headers.entry(name).or_default().push(value.clone());
        }
    }
    headers
}
