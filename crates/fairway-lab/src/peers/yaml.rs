//! Manifests of packages, which are YAML, as values. Never applies them.

use std::path::Path;

use anyhow::Context;
use serde_json::Value;

/// All documents of a text that are objects.
pub(super) fn parse(text: &str) -> anyhow::Result<Vec<Value>> {
    let mut documents: Vec<Value> =
        serde_saphyr::from_multiple(text).map_err(|error| anyhow::anyhow!("read YAML: {error}"))?;
    documents.retain(Value::is_object);
    Ok(documents)
}

/// All objects of a file.
pub(super) fn read(path: &Path) -> anyhow::Result<Vec<Value>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("read the manifest {}", path.display()))?;
    parse(&text).with_context(|| format!("in the manifest {}", path.display()))
}
