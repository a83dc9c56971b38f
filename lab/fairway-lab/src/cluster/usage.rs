//! CPU and memory of pods as reported by a node's kubelet, read through the API server (`/metrics/resource`), for pods on
//! other machines.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use fairway_lab_measure::Sample;
use http::Request;

use super::client::Cluster;

const CPU: &str = "pod_cpu_usage_seconds_total";
const MEMORY: &str = "pod_memory_working_set_bytes";

impl Cluster {
    /// The counters of a namespace's pods on these nodes, as their kubelets have them.
    ///
    /// # Errors
    /// A kubelet cannot be queried; the text gives the missing permission or setting.
    pub async fn kubelets(&self, nodes: &BTreeSet<String>, namespace: &str) -> anyhow::Result<Vec<Sample>> {
        let mut samples = Vec::new();
        for node in nodes {
            let path = format!("/api/v1/nodes/{node}/proxy/metrics/resource");
            let text = self.client.request_text(Request::get(&path).body(Vec::new())?).await;
            let text = text
                .map_err(|error| explain_error(&error))
                .with_context(|| format!("ask the kubelet of node {node}"))?;
            samples.extend(counters(&text, namespace));
        }
        Ok(samples)
    }
}

/// How to fix an error response.
fn explain_error(error: &kube::Error) -> anyhow::Error {
    match error {
        kube::Error::Api(answer) if answer.code == 403 => {
            anyhow::anyhow!(
                "it is forbidden: grant `get` on `nodes/proxy` to whom the kubeconfig names ({})",
                answer.message
            )
        }
        kube::Error::Api(answer) if answer.code == 404 => {
            anyhow::anyhow!("the cluster does not serve it ({})", answer.message)
        }
        other => anyhow::anyhow!("{other}"),
    }
}

/// The counters of a namespace in the text of `/metrics/resource`: `name{labels} value milliseconds`.
fn counters(text: &str, namespace: &str) -> Vec<Sample> {
    let usage_of = |name: &str| {
        text.lines()
            .filter_map(|line| figure(line.strip_prefix(name)?, namespace))
            .map(|(pod, value, at_s)| (pod.to_owned(), (value, at_s)))
            .collect::<BTreeMap<_, _>>()
    };
    let memory = usage_of(MEMORY);
    usage_of(CPU)
        .into_iter()
        .map(|(pod, (cpu_s, at_s))| Sample {
            at_s,
            cpu_s,
            // A working set is small enough for a float to be exact.
            memory_bytes: memory.get(&pod).map(|(bytes, _)| *bytes as u64),
            pod,
        })
        .collect()
}

fn figure<'a>(rest: &'a str, namespace: &str) -> Option<(&'a str, f64, f64)> {
    let (labels, values) = rest.strip_prefix('{')?.split_once('}')?;
    // Names of objects have neither quotes nor commas.
    let label = |name: &str| {
        labels.split(',').find_map(|label| label.strip_prefix(name)?.strip_prefix("=\"")?.strip_suffix('"'))
    };
    if label("namespace")? != namespace {
        return None;
    }
    let mut values = values.split_whitespace().map(str::parse::<f64>);
    let (value, at_ms) = (values.next()?.ok()?, values.next()?.ok()?);
    Some((label("pod")?, value, at_ms / 1e3))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESOURCE: &str = "\
# HELP pod_cpu_usage_seconds_total [STABLE] Cumulative cpu time consumed by the pod in core-seconds
# TYPE pod_cpu_usage_seconds_total counter
container_cpu_usage_seconds_total{container=\"proxy\",namespace=\"edge\",pod=\"a\"} 9.5 1795259711217
pod_cpu_usage_seconds_total{namespace=\"edge\",pod=\"a\"} 10.25 1795259711217
pod_cpu_usage_seconds_total{namespace=\"other\",pod=\"a\"} 99 1795259711217
pod_memory_working_set_bytes{namespace=\"edge\",pod=\"a\"} 1.5249408e+07 1795259711217
resource_scrape_error 0
";

    #[test]
    fn counters_of_a_kubelet_are_summed_for_the_pods_at_their_own_time() {
        let expected = Sample {
            pod: "a".to_owned(),
            at_s: 1_795_259_711.217,
            cpu_s: 10.25,
            memory_bytes: Some(15_249_408),
        };
        assert_eq!(counters(RESOURCE, "edge"), [expected]);
        assert_eq!(counters("resource_scrape_error 1\n", "edge"), []);
    }
}
