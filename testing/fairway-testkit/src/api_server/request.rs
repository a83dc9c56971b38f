//! A request as it comes, and which object or collection it is about.

use std::collections::BTreeMap;
use std::io;

use serde_json::Value;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};

/// What is asked for.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) query: BTreeMap<String, String>,
    pub(super) body: Value,
}

/// A collection, an object, or a part of one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Target<'a> {
    /// Empty for the core API.
    pub(super) group: &'a str,
    pub(super) namespace: Option<&'a str>,
    pub(super) resource: &'a str,
    pub(super) name: Option<&'a str>,
    /// `status`.
    pub(super) part: Option<&'a str>,
}

impl Asked {
    /// Reads the next request of a connection; `None` at its end.
    pub(super) async fn read(read: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Self>> {
        let (mut first, mut line, mut length) = (String::new(), String::new(), 0);
        if read.read_line(&mut first).await? == 0 {
            return Ok(None);
        }
        while read.read_line(&mut line).await? > 0 && !line.trim().is_empty() {
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().map_err(io::Error::other)?;
            }
            line.clear();
        }
        let mut body = vec![0; length];
        read.read_exact(&mut body).await?;
        let mut words = first.split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let decoded = |text: &str| text.replace("%3D", "=").replace("%2F", "/");
        Ok(Some(Self {
            method: method.to_owned(),
            path: path.to_owned(),
            query: pairs.map(|(name, value)| (name.to_owned(), decoded(value))).collect(),
            body: serde_json::from_slice(&body).unwrap_or_default(),
        }))
    }

    pub(super) fn number(&self, name: &str) -> Option<usize> {
        self.query.get(name)?.parse().ok()
    }

    /// The name that a list or a watch is limited to.
    pub(super) fn selected_name(&self) -> Option<&str> {
        self.query.get("fieldSelector")?.strip_prefix("metadata.name=")
    }
}

impl<'a> Target<'a> {
    /// Of a path of an API in version `v1`; `None` for other pages.
    pub(super) fn of(path: &'a str) -> Option<Self> {
        let words: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let (group, rest) = match words.as_slice() {
            ["api", "v1", rest @ ..] => ("", rest),
            ["apis", group, "v1", rest @ ..] => (*group, rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some(*namespace), rest),
            rest => (None, rest),
        };
        let (&resource, rest) = rest.split_first()?;
        let target =
            Self { group, namespace, resource, name: rest.first().copied(), part: rest.get(1).copied() };
        (rest.len() <= 2).then_some(target)
    }

    /// As rules name it: `ingresses/status`.
    pub(super) fn resource_with_part(&self) -> String {
        match self.part {
            Some(part) => format!("{}/{part}", self.resource),
            None => self.resource.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_collections_objects_and_their_parts() {
        let of = |path| {
            let it = Target::of(path).unwrap();
            (it.group, it.namespace, it.resource, it.name, it.part)
        };
        assert_eq!(of("/api/v1/namespaces"), ("", None, "namespaces", None, None));
        assert_eq!(of("/api/v1/namespaces/a"), ("", None, "namespaces", Some("a"), None));
        assert_eq!(of("/api/v1/namespaces/a/pods"), ("", Some("a"), "pods", None, None));
        assert_eq!(
            of("/apis/networking.k8s.io/v1/namespaces/a/ingresses/web/status"),
            ("networking.k8s.io", Some("a"), "ingresses", Some("web"), Some("status"))
        );
        for other in ["/version", "/apis/x", "/apis/x/v1", "/apis/x/v1beta1/things"] {
            assert_eq!(Target::of(other), None, "{other}");
        }
    }
}
