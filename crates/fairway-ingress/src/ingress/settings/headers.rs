//! Keys that set headers for all Ingresses: `add-headers`, `proxy-set-headers` and `hide-headers`
//! (`proxy-hide-headers` in the F5 controller). The first two name a ConfigMap with the headers.
//!
//! An invalid header is skipped without affecting others.

use std::sync::Arc;

use fairway_model::{HeaderTemplate, Origin, TemplatePart, variables};
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::object::{Kind, ObjectKey};
use fairway_objects::resources::Resources;
use k8s_openapi::api::core::v1::ConfigMap;

use crate::ingress::defaults::{Defaults, GlobalHeaders};
use crate::ingress::external_auth::is_hop_header;
use crate::ingress::settings::problem::KeyProblem;

const ADD_HEADERS_KEY: &str = "add-headers";
const SET_HEADERS_KEY: &str = "proxy-set-headers";
const HIDE_HEADERS_KEY: &str = "hide-headers";

const NOT_A_MAP: KeyProblem =
    KeyProblem::Partly("the namespace and name of a ConfigMap, as in edge/headers", "no header is set");
const NOT_ALL_NAMES: KeyProblem =
    KeyProblem::Partly("a list of header names", "only the names that can be read are hidden");

/// The values as written.
#[derive(Debug, Default)]
pub(super) struct HeaderKeys {
    response_headers: Option<ObjectKey>,
    requests: Option<ObjectKey>,
    hidden: Vec<Arc<str>>,
}

/// A key that names a ConfigMap with headers.
struct HeaderMapKey {
    key: &'static str,
    /// The consequence of an invalid header.
    without_one: &'static str,
    without_all: &'static str,
}

const RESPONSE_HEADERS: HeaderMapKey = HeaderMapKey {
    key: ADD_HEADERS_KEY,
    without_one: "answers do not have this header",
    without_all: "answers do not have its headers",
};

const REQUEST_HEADERS: HeaderMapKey = HeaderMapKey {
    key: SET_HEADERS_KEY,
    without_one: "backends do not get this header",
    without_all: "backends do not get its headers",
};

/// The ConfigMaps that the settings reference, existing or not.
pub(crate) fn named_config_maps(settings: &ConfigMap) -> impl Iterator<Item = ObjectKey> {
    let value = |key: &str| settings.data.as_ref()?.get(key);
    [ADD_HEADERS_KEY, SET_HEADERS_KEY].into_iter().filter_map(move |key| ObjectKey::parse(value(key)?.trim()))
}

impl HeaderKeys {
    /// Reads one key; `None` for any other.
    pub(super) fn read(&mut self, name: &str, value: &str) -> Option<Result<(), KeyProblem>> {
        let slot = match name {
            ADD_HEADERS_KEY => &mut self.response_headers,
            SET_HEADERS_KEY => &mut self.requests,
            HIDE_HEADERS_KEY | "proxy-hide-headers" => return Some(self.hide(value)),
            _ => return None,
        };
        *slot = ObjectKey::parse(value);
        Some(if slot.is_none() && !value.is_empty() { Err(NOT_A_MAP) } else { Ok(()) })
    }

    fn hide(&mut self, value: &str) -> Result<(), KeyProblem> {
        let names = value.split(',').map(str::trim).filter(|name| !name.is_empty());
        let (good, wrong): (Vec<_>, Vec<_>) = names.partition(|name| is_name(name));
        let (framing, hidden): (Vec<_>, Vec<_>) = good.into_iter().partition(|name| is_hop_header(name));
        self.hidden = hidden.into_iter().map(|name| name.to_ascii_lowercase().into()).collect();
        self.hidden.sort();
        self.hidden.dedup();
        match (wrong.is_empty(), framing.is_empty()) {
            (false, _) => Err(NOT_ALL_NAMES),
            (true, false) => Err(KeyProblem::Lost(
                "it has a header that belongs to the connection",
                "such headers are written anew for each client; the others are hidden",
            )),
            (true, true) => Ok(()),
        }
    }

    /// Puts the headers into the defaults. `at` gives the origin of a key.
    pub(super) fn apply(
        self,
        resources: &Resources,
        defaults: &mut Defaults,
        at: &impl Fn(&str) -> Origin,
    ) -> Vec<Diagnostic> {
        let mut found = Vec::new();
        let mut fields = |map: Option<&ObjectKey>, whose: &HeaderMapKey| -> Arc<[HeaderTemplate]> {
            map.map(|map| read(resources, map, whose, at(whose.key), &mut found)).unwrap_or_default().into()
        };
        let responses = fields(self.response_headers.as_ref(), &RESPONSE_HEADERS);
        let requests = fields(self.requests.as_ref(), &REQUEST_HEADERS);
        let is_hsts = |field: &HeaderTemplate| field.name.eq_ignore_ascii_case("strict-transport-security");
        if responses.iter().any(is_hsts) {
            // nginx sets it after that of `hsts`.
            defaults.hsts = None;
        }
        defaults.headers =
            GlobalHeaders { requests, response_headers: responses, hidden: self.hidden.into() };
        found
    }
}

/// The valid headers of a ConfigMap.
fn read(
    resources: &Resources,
    map: &ObjectKey,
    whose: &HeaderMapKey,
    named_at: Origin,
    found: &mut Vec<Diagnostic>,
) -> Vec<HeaderTemplate> {
    let Some(headers) = resources.config_maps.get(map) else {
        let missing = Diagnostic::new(Severity::Warning, "missing-reference", named_at);
        let problem = format!("{}: ConfigMap {map} does not exist", whose.key);
        found.push(missing.because(problem, whose.without_all));
        return Vec::new();
    };
    let mut fields = Vec::new();
    for (name, value) in headers.object.data.iter().flatten() {
        match header_template(name, value.trim()) {
            Ok(field) => fields.push(field),
            Err((code, problem)) => {
                let at = headers.origin(Kind::ConfigMap, map, &format!("data.{name}"));
                let wrong = Diagnostic::new(Severity::Warning, code, at);
                found.push(wrong.because(format!("{}: {problem}", whose.key), whose.without_one));
            }
        }
    }
    // In nginx a variable always has the client's value: headers derived from others are set before those are
    // replaced.
    fields.sort_by_key(|field| field.value.0.iter().all(|part| matches!(part, TemplatePart::Text(_))));
    fields
}

/// One header, or the code and text of its problem.
fn header_template(name: &str, value: &str) -> Result<HeaderTemplate, (&'static str, String)> {
    if !is_name(name) {
        return Err(("invalid-setting", format!("\"{name}\" is no name of a header")));
    }
    if is_hop_header(name) || name.eq_ignore_ascii_case("proxy") {
        let instead = if name.eq_ignore_ascii_case("host") { "; upstream-vhost sets it" } else { "" };
        return Err(("invalid-setting", format!("{name} belongs to the connection{instead}")));
    }
    // RFC 9110 §5.5: visible characters, spaces and tabs.
    if value.bytes().any(|byte| byte != b'\t' && (byte < b' ' || byte == 0x7f)) {
        let problem = format!("the value of {name} has a line break or another control character");
        return Err(("invalid-setting", problem));
    }
    match variables::header(value) {
        Ok(value) => Ok(HeaderTemplate { name: name.into(), value }),
        Err(variable) => {
            Err(("unsupported-setting", format!("the value of {name} has {variable}, which is not known")))
        }
    }
}

/// RFC 9110 §5.1: a token.
fn is_name(text: &str) -> bool {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !text.is_empty() && text.bytes().all(token)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairway_objects::object::Sourced;

    fn hidden(value: &str) -> (Vec<String>, bool) {
        let mut keys = HeaderKeys::default();
        let read = keys.read(HIDE_HEADERS_KEY, value).unwrap();
        (keys.hidden.iter().map(ToString::to_string).collect(), read.is_ok())
    }

    #[test]
    fn hidden_headers_are_a_list_of_names_except_connection_headers() {
        assert_eq!(
            hidden("X-B, x-a,,X-Powered-By,X-A"),
            (["x-a", "x-b", "x-powered-by"].map(String::from).into(), true)
        );
        assert_eq!(hidden("X-A, X B"), (vec!["x-a".to_owned()], false));
        assert_eq!(hidden("Content-Length,X-A"), (vec!["x-a".to_owned()], false));
        assert_eq!(hidden(""), (Vec::new(), true));
    }

    #[test]
    fn a_map_is_named_with_its_namespace() {
        for (value, good) in
            [("edge/headers", true), ("", true), ("headers", false), ("a/b/c", false), ("/b", false)]
        {
            let mut keys = HeaderKeys::default();
            assert_eq!(keys.read(ADD_HEADERS_KEY, value).unwrap().is_ok(), good, "{value}");
            assert_eq!(keys.response_headers.is_some(), value == "edge/headers");
        }
        assert!(HeaderKeys::default().read("hsts", "true").is_none());
    }

    #[test]
    fn derived_headers_are_set_first() {
        let map = serde_json::json!({ "data": { "X-A": "1", "X-B": "$http_x_a", "X-C": "" } });
        let mut resources = Resources::default();
        let (key, map) = (ObjectKey::new("edge", "headers"), serde_json::from_value(map).unwrap());
        resources.config_maps.insert(key.clone(), Sourced { object: Arc::new(map), source: None });
        let fields = read(&resources, &key, &REQUEST_HEADERS, Origin::default(), &mut Vec::new());
        assert_eq!(fields.iter().map(|field| &*field.name).collect::<Vec<_>>(), ["X-B", "X-A", "X-C"]);
    }

    #[test]
    fn invalid_headers_are_reported() {
        for (name, value, words) in [
            ("X A", "1", "is no name of a header"),
            ("Host", "a", "upstream-vhost"),
            ("Transfer-Encoding", "chunked", "belongs to the connection"),
            ("Proxy", "http://a", "belongs to the connection"),
            ("X-A", "a\r\nSet-Cookie: b", "line break"),
            ("X-A", "in $geoip_city", "has $geoip_city, which is not known"),
            ("X-A", "5 $", "has $, which is not known"),
        ] {
            let (_, problem) = header_template(name, value).unwrap_err();
            assert!(problem.contains(words), "{name}: {problem}");
        }
        assert_eq!(header_template("X-A", "t=${msec}").unwrap().value.to_string(), "t=$msec");
        assert!(header_template("X-Powered-By", "").unwrap().value.0.is_empty());
    }
}
