//! CPU and memory of pods as the API server can tell: a node's kubelet, asked through it (`/metrics/resource`), or the
//! metrics API. For pods that run on other machines. Never decides what a figure is.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use fairway_lab_measure::{Reading, Sample};
use http::Request;
use kube::api::ListParams;
use serde::Deserialize;

use super::client::Cluster;

const CPU: &str = "pod_cpu_usage_seconds_total";
const MEMORY: &str = "pod_memory_working_set_bytes";

impl Cluster {
    /// The counters of a namespace's pods on these nodes, as their kubelets have them.
    ///
    /// # Errors
    /// A kubelet cannot be asked; the text says what is missing.
    pub async fn kubelets(&self, nodes: &BTreeSet<String>, namespace: &str) -> anyhow::Result<Vec<Sample>> {
        let mut samples = Vec::new();
        for node in nodes {
            let path = format!("/api/v1/nodes/{node}/proxy/metrics/resource");
            let text = self.client.request_text(Request::get(&path).body(Vec::new())?).await;
            let text = text
                .map_err(|error| said(&error, "`get` on `nodes/proxy`"))
                .with_context(|| format!("ask the kubelet of node {node}"))?;
            samples.extend(counters(&text, namespace));
        }
        Ok(samples)
    }

    /// The rates of pods as the metrics API has them.
    ///
    /// # Errors
    /// It is not served or not allowed; the text says which.
    pub async fn rates(&self, namespace: &str, selector: &str) -> anyhow::Result<Vec<Sample>> {
        let path = format!("/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods");
        let request = kube::core::Request::new(path).list(&ListParams::default().labels(selector))?;
        let answer: Result<PodMetricsList, _> = self.client.request(request).await;
        let answer = answer
            .map_err(|error| said(&error, "`list` on `pods.metrics.k8s.io`"))
            .with_context(|| format!("ask the metrics API for the pods of {namespace}"))?;
        answer.items.iter().map(rate).collect()
    }
}

/// What a person can do about an answer.
fn said(error: &kube::Error, right: &str) -> anyhow::Error {
    match error {
        kube::Error::Api(answer) if answer.code == 403 => {
            anyhow::anyhow!(
                "it is forbidden: grant {right} to whom the kubeconfig names ({})",
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
    let of = |name: &str| {
        text.lines()
            .filter_map(|line| figure(line.strip_prefix(name)?, namespace))
            .map(|(pod, value, at_s)| (pod.to_owned(), (value, at_s)))
            .collect::<BTreeMap<_, _>>()
    };
    let memory = of(MEMORY);
    of(CPU)
        .into_iter()
        .map(|(pod, (cpu_s, at_s))| Sample {
            reading: Reading::Counter { at_s, cpu_s },
            // A working set is far below what a float holds exactly.
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

#[derive(Deserialize)]
struct PodMetricsList {
    items: Vec<PodMetrics>,
}

#[derive(Deserialize)]
struct PodMetrics {
    metadata: Named,
    timestamp: String,
    window: String,
    containers: Vec<ContainerMetrics>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
struct ContainerMetrics {
    usage: Amounts,
}

#[derive(Deserialize)]
struct Amounts {
    cpu: String,
    memory: String,
}

fn rate(pod: &PodMetrics) -> anyhow::Result<Sample> {
    let unreadable = |what: &str| format!("the metrics API says {what} of pod {}", pod.metadata.name);
    let ended: jiff::Timestamp =
        pod.timestamp.parse().with_context(|| unreadable(&format!("timestamp {:?}", pod.timestamp)))?;
    let window = seconds(&pod.window).with_context(|| unreadable(&format!("window {:?}", pod.window)))?;
    let sum = |of: fn(&Amounts) -> &str| {
        let amounts = pod.containers.iter().map(|container| of(&container.usage));
        amounts
            .map(|text| quantity(text).with_context(|| unreadable(&format!("usage {text:?}"))))
            .sum::<anyhow::Result<f64>>()
    };
    Ok(Sample {
        pod: pod.metadata.name.clone(),
        reading: Reading::Rate {
            at_s: ended.as_millisecond() as f64 / 1e3,
            window_s: window,
            cpus: sum(|usage| &usage.cpu)?,
        },
        memory_bytes: Some(sum(|usage| &usage.memory)? as u64),
    })
}

/// Kubernetes' quantities, as far as usage has them: `12345n`, `250m`, `1`, `20Mi`.
fn quantity(text: &str) -> Option<f64> {
    const UNITS: [(&str, f64); 12] = [
        ("Ki", 1024.0),
        ("Mi", 1_048_576.0),
        ("Gi", 1_073_741_824.0),
        ("Ti", 1_099_511_627_776.0),
        ("n", 1e-9),
        ("u", 1e-6),
        ("m", 1e-3),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
        ("", 1.0),
    ];
    let (number, factor) =
        UNITS.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))?;
    Some(number.parse::<f64>().ok()? * factor)
}

/// A duration as Go writes it: `15.079s`, `1m0s`.
fn seconds(text: &str) -> Option<f64> {
    let (minutes, rest) = match text.split_once('m') {
        Some((minutes, rest)) if !rest.starts_with('s') => (minutes.parse::<f64>().ok()?, rest),
        _ => (0.0, text),
    };
    let rest = match rest.strip_suffix("ms") {
        Some(milliseconds) => milliseconds.parse::<f64>().ok()? / 1e3,
        None => rest.strip_suffix('s')?.parse::<f64>().ok()?,
    };
    Some(minutes * 60.0 + rest)
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
    fn a_kubelets_counters_are_those_of_the_namespaces_pods_at_their_own_time() {
        let expected = Sample {
            pod: "a".to_owned(),
            reading: Reading::Counter { at_s: 1_795_259_711.217, cpu_s: 10.25 },
            memory_bytes: Some(15_249_408),
        };
        assert_eq!(counters(RESOURCE, "edge"), [expected]);
        assert_eq!(counters("resource_scrape_error 1\n", "edge"), []);
    }

    #[test]
    fn a_pods_rate_is_the_sum_of_its_containers() {
        let container = |cpu: &str, memory: &str| ContainerMetrics {
            usage: Amounts { cpu: cpu.to_owned(), memory: memory.to_owned() },
        };
        let pod = PodMetrics {
            metadata: Named { name: "a".to_owned() },
            timestamp: "2026-11-21T11:15:11Z".to_owned(),
            window: "1m0.5s".to_owned(),
            containers: vec![container("250m", "1Mi"), container("500000000n", "512Ki")],
        };
        let Sample { reading: Reading::Rate { at_s, window_s, cpus }, memory_bytes, .. } =
            rate(&pod).expect("it is whole")
        else {
            panic!("the metrics API gives rates");
        };
        assert!((at_s - 1_795_259_711.0).abs() < 1e-3 && (window_s - 60.5).abs() < 1e-9);
        assert!((cpus - 0.75).abs() < 1e-9);
        assert_eq!(memory_bytes, Some(1_048_576 + 524_288));
    }

    #[test]
    fn what_the_metrics_api_should_not_say_is_named_with_its_pod() {
        let pod = PodMetrics {
            metadata: Named { name: "a".to_owned() },
            timestamp: "2026-11-21T11:15:11Z".to_owned(),
            window: "a while".to_owned(),
            containers: Vec::new(),
        };
        let error = format!("{:#}", rate(&pod).expect_err("that is no window"));
        assert!(error.contains("window \"a while\" of pod a"), "{error}");
    }
}
