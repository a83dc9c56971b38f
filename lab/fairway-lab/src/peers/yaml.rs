//! Manifests of packages, which are YAML, as values. Never applies them.

use std::path::Path;

use anyhow::Context;
use serde_json::Value;

/// All documents of a text that are objects.
pub(super) fn parse(text: &str) -> anyhow::Result<Vec<Value>> {
    // Kubernetes reads YAML 1.1, where 0644 is octal.
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    let mut documents: Vec<Value> = serde_saphyr::from_multiple_with_options(text, options)
        .map_err(|error| anyhow::anyhow!("read YAML: {error}"))?;
    documents.retain(Value::is_object);
    Ok(documents)
}

/// All objects of a file.
pub(super) fn read(path: &Path) -> anyhow::Result<Vec<Value>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("read the manifest {}", path.display()))?;
    parse(&text).with_context(|| format!("in the manifest {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn numbers_that_begin_with_0_are_octal_and_empty_documents_are_none() {
        let documents = parse("---\n---\nmode: 0644\nport: 80\n---\n# nothing\n").unwrap();
        assert_eq!(documents, [serde_json::json!({ "mode": 420, "port": 80 })]);
    }
}
