//! Access to the input values by path.

use serde_json::{Map, Value};

use super::kind::{ValueKind, has_template, is_empty};

/// Values of the chart of ingress-nginx.
#[derive(Clone, Copy, Debug)]
pub(super) struct Input<'v>(pub(super) &'v Map<String, Value>);

impl<'v> Input<'v> {
    /// The value at a path, unless it is empty or a template.
    pub(super) fn value_at(self, path: &str) -> Option<&'v Value> {
        let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
        let first = self.0.get(first)?;
        let mut rest = rest.into_iter().flat_map(|rest| rest.split('.'));
        let value = rest.try_fold(first, |value, key| value.get(key))?;
        (!is_empty(value) && !has_template(value)).then_some(value)
    }

    /// The text at the first of these paths that has one.
    pub(super) fn text(self, paths: &[&str]) -> Option<&'v str> {
        paths.iter().find_map(|path| self.value_at(path)?.as_str())
    }

    /// The name of an object at the first of these paths that has one.
    pub(super) fn name(self, paths: &[&str]) -> Option<&'v str> {
        self.text(paths).filter(|name| ValueKind::Name.convert(&(*name).into()).is_ok())
    }

    /// The number at a path, if it is at most `limit`.
    pub(super) fn number(self, path: &str, limit: u64) -> Option<u64> {
        ValueKind::Within(0, limit).convert(self.value_at(path)?).ok()??.as_u64()
    }

    pub(super) fn port(self, path: &str) -> Option<u64> {
        self.number(path, 65_535).filter(|port| *port > 0)
    }

    pub(super) fn is_true(self, path: &str) -> bool {
        self.value_at(path) == Some(&Value::Bool(true))
    }

    pub(super) fn is_false(self, path: &str) -> bool {
        self.value_at(path) == Some(&Value::Bool(false))
    }
}
