//! Manifests of packages, which are YAML, as values. Never applies them.

use serde_json::Value;

/// All documents of a text that are objects.
pub(super) fn parse(text: &str) -> anyhow::Result<Vec<Value>> {
    let mut documents: Vec<Value> =
        serde_saphyr::from_multiple(text).map_err(|error| anyhow::anyhow!("read YAML: {error}"))?;
    documents.retain(Value::is_object);
    Ok(documents)
}
