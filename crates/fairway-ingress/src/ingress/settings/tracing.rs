//! Keys for tracing: how requests are traced (`enable-opentelemetry`, `opentelemetry-*`, `otel-sampler*`) and where
//! spans are sent (`otlp-collector-*`, the other `otel-*`).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use fairway_model::{Collector, Origin, SampleRatio, Settings, Template, Tracing};
use fairway_objects::annotations::text::parse_bool;
use fairway_objects::diagnostic::{Diagnostic, Severity};

use crate::ingress::defaults::TracingDefaults;
use crate::ingress::settings::problem::KeyProblem;
use crate::ingress::span_name;

/// ingress-nginx: default of `otel-sampler-ratio`.
const DEFAULT_RATIO: f64 = 0.01;

/// ingress-nginx: default of `otlp-collector-port`.
const DEFAULT_PORT: u16 = 4317;

/// Maximum queued spans.
const MAX_QUEUE: u32 = 65_536;

/// Maximum spans of one message: collectors refuse messages of more than 4 MiB by default.
const MAX_BATCH: u32 = 4_096;

/// Maximum length of a service name, in bytes.
const MAX_SERVICE_NAME: usize = 255;

const NAME: &str = "opentelemetry-operation-name";
const BATCH: &str = "otel-max-export-batch-size";

/// The valid keys.
#[derive(Debug, Default)]
pub(super) struct TracingKeys {
    enabled: Option<bool>,
    trust_incoming: Option<bool>,
    parent_based: Option<bool>,
    sampler: Sampler,
    ratio: Option<SampleRatio>,
    /// As written.
    operation_name: Option<String>,
    collector: CollectorKeys,
}

/// `otel-sampler`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Sampler {
    #[default]
    AlwaysOn,
    AlwaysOff,
    TraceIdRatioBased,
}

/// The collector of spans.
#[derive(Debug, Default)]
struct CollectorKeys {
    /// In the form used in a URL.
    host: Option<Arc<str>>,
    port: Option<u16>,
    service_name: Option<Arc<str>>,
    max_queue: Option<u32>,
    max_delay: Option<Duration>,
    max_batch: Option<u32>,
}

impl TracingKeys {
    /// Reads one key; `None` for any other.
    pub(super) fn read(&mut self, name: &str, value: &str) -> Option<Result<(), KeyProblem>> {
        let read = match name {
            "enable-opentelemetry" => flag(value).map(|on| self.enabled = Some(on)),
            "opentelemetry-trust-incoming-span" => flag(value).map(|on| self.trust_incoming = Some(on)),
            NAME => {
                self.operation_name = (!value.is_empty()).then(|| value.to_owned());
                Ok(())
            }
            "opentelemetry-config" => Err(KeyProblem::Note(
                "it names a file of a module of nginx, and the keys otel-* and otlp-* say what is in it",
                "it has no effect",
            )),
            "otel-sampler" => sampler(value).map(|sampler| self.sampler = sampler),
            "otel-sampler-ratio" => ratio(value).map(|ratio| self.ratio = Some(ratio)),
            "otel-sampler-parent-based" => flag(value).map(|on| self.parent_based = Some(on)),
            _ => return self.collector.read(name, value),
        };
        Some(read)
    }

    /// Puts the keys into the settings and the defaults of Ingresses. `at` gives the origin of a key.
    pub(super) fn apply(
        &self,
        settings: &mut Settings,
        defaults: &mut TracingDefaults,
        at: impl Fn(&str) -> Origin,
    ) -> Vec<Diagnostic> {
        let mut found = Vec::new();
        let usual = TracingDefaults::default().traced;
        let traced = Tracing {
            ratio: self.ratio(),
            parent_based: self.parent_based.unwrap_or(usual.parent_based),
            trust_incoming: self.trust_incoming.unwrap_or(usual.trust_incoming),
            span_name: self.span_name(&at, &mut found),
            ..usual
        };
        found.extend(self.unread_ratio(&at));
        settings.tracing = self.enabled.map(|on| Arc::new(if on { traced.clone() } else { Tracing::off() }));
        settings.collector = self.collector.resolve(&at, &mut found).map(Arc::new);
        *defaults = TracingDefaults { enabled: self.enabled, traced };
        found
    }

    fn ratio(&self) -> SampleRatio {
        match self.sampler {
            Sampler::AlwaysOn => SampleRatio::ALL,
            Sampler::AlwaysOff => SampleRatio::NONE,
            Sampler::TraceIdRatioBased => {
                let usual = || SampleRatio::new(DEFAULT_RATIO).expect("it is between 0 and 1");
                self.ratio.unwrap_or_else(usual)
            }
        }
    }

    /// Reports that the ratio applies to one sampler only: whoever set it may expect that few traces are sampled.
    fn unread_ratio(&self, at: impl Fn(&str) -> Origin) -> Option<Diagnostic> {
        let unread = self.ratio? != self.ratio() && self.sampler != Sampler::TraceIdRatioBased;
        let key = "otel-sampler-ratio";
        unread.then(|| {
            let problem = format!("{key}: otel-sampler is {}", self.sampler.name());
            let found = Diagnostic::new(Severity::Note, "setting", at(key));
            found.because(problem, "it has no effect; TraceIdRatioBased reads it")
        })
    }

    fn span_name(&self, at: impl Fn(&str) -> Origin, found: &mut Vec<Diagnostic>) -> Option<Arc<Template>> {
        match span_name::read(self.operation_name.as_deref()?) {
            Ok(name) => Some(Arc::new(name)),
            Err(problem) => {
                let invalid = Diagnostic::new(Severity::Warning, "invalid-setting", at(NAME));
                found.push(invalid.because(format!("{NAME}: {problem}"), "the default is used"));
                None
            }
        }
    }
}

impl Sampler {
    fn name(self) -> &'static str {
        match self {
            Self::AlwaysOn => "AlwaysOn",
            Self::AlwaysOff => "AlwaysOff",
            Self::TraceIdRatioBased => "TraceIdRatioBased",
        }
    }
}

impl CollectorKeys {
    fn read(&mut self, name: &str, value: &str) -> Option<Result<(), KeyProblem>> {
        const MANY_WAIT: KeyProblem = KeyProblem::Note("at most 65536 spans wait", "more are dropped");
        const MANY_SENT: KeyProblem =
            KeyProblem::Note("a message has at most 4096 spans", "more are sent in several");
        let read = match name {
            "otlp-collector-host" if value.is_empty() => Ok(()),
            "otlp-collector-host" => host(value).map(|host| self.host = Some(host)),
            "otlp-collector-port" => port(value).map(|port| self.port = Some(port)),
            "otel-service-name" if value.is_empty() => Ok(()),
            "otel-service-name" => service_name(value).map(|name| self.service_name = Some(name)),
            "otel-max-queuesize" => positive_number(value).and_then(|spans| {
                self.max_queue = Some(spans.min(MAX_QUEUE));
                if spans > MAX_QUEUE { Err(MANY_WAIT) } else { Ok(()) }
            }),
            "otel-schedule-delay-millis" => {
                positive_number(value).map(|delay| self.max_delay = Some(Duration::from_millis(delay.into())))
            }
            BATCH => positive_number(value).and_then(|spans| {
                self.max_batch = Some(spans.min(MAX_BATCH));
                if spans > MAX_BATCH { Err(MANY_SENT) } else { Ok(()) }
            }),
            _ => return None,
        };
        Some(read)
    }

    /// The collector, if one is named.
    fn resolve(&self, at: impl Fn(&str) -> Origin, found: &mut Vec<Diagnostic>) -> Option<Collector> {
        let mut note = |key: &str, problem: &str, consequence: String| {
            let noted = Diagnostic::new(Severity::Note, "setting", at(key));
            found.push(noted.because(format!("{key}: {problem}"), consequence));
        };
        let Some(host) = &self.host else {
            for key in self.without_host() {
                let problem = "no otlp-collector-host is named, so the flags say where spans go";
                note(key, problem, "it has no effect".to_owned());
            }
            return None;
        };
        let usual = Collector::at(format!("http://{host}:{}", self.port.unwrap_or(DEFAULT_PORT)));
        let max_queue = self.max_queue.unwrap_or(usual.max_queue);
        if self.max_batch.is_some_and(|batch| batch > max_queue) {
            note(BATCH, "it is more than may wait", format!("a message has at most {max_queue} spans"));
        }
        Some(Collector {
            service_name: self.service_name.clone().unwrap_or_else(|| usual.service_name.clone()),
            max_queue,
            max_delay: self.max_delay.unwrap_or(usual.max_delay),
            max_batch: self.max_batch.unwrap_or(usual.max_batch).min(max_queue),
            ..usual
        })
    }

    /// Collector keys without a collector host.
    fn without_host(&self) -> impl Iterator<Item = &'static str> {
        let keys = [
            ("otlp-collector-port", self.port.is_some()),
            ("otel-service-name", self.service_name.is_some()),
            ("otel-max-queuesize", self.max_queue.is_some()),
            ("otel-schedule-delay-millis", self.max_delay.is_some()),
            (BATCH, self.max_batch.is_some()),
        ];
        keys.into_iter().filter(|(_, is_set)| *is_set).map(|(key, _)| key)
    }
}

fn flag(value: &str) -> Result<bool, KeyProblem> {
    parse_bool(value).ok_or(KeyProblem::NotA("true or false"))
}

fn sampler(value: &str) -> Result<Sampler, KeyProblem> {
    let known = [Sampler::AlwaysOn, Sampler::AlwaysOff, Sampler::TraceIdRatioBased];
    let found = known.into_iter().find(|sampler| sampler.name() == value);
    found.ok_or(KeyProblem::NotA("AlwaysOn, AlwaysOff or TraceIdRatioBased"))
}

fn ratio(value: &str) -> Result<SampleRatio, KeyProblem> {
    value.parse().ok().and_then(SampleRatio::new).ok_or(KeyProblem::NotA("a number from 0 to 1"))
}

/// An integer above 0.
fn positive_number(value: &str) -> Result<u32, KeyProblem> {
    let number = value.parse::<u32>().ok().filter(|number| *number > 0);
    number.ok_or(KeyProblem::NotA("a whole number above 0"))
}

fn port(value: &str) -> Result<u16, KeyProblem> {
    let port = value.parse::<u16>().ok().filter(|port| *port > 0);
    port.ok_or(KeyProblem::NotA("a port from 1 to 65535"))
}

/// A host as used in a URL.
fn host(value: &str) -> Result<Arc<str>, KeyProblem> {
    let bare = value.strip_prefix('[').and_then(|value| value.strip_suffix(']')).unwrap_or(value);
    match bare.parse() {
        Ok(IpAddr::V6(address)) => return Ok(format!("[{address}]").into()),
        Ok(IpAddr::V4(_)) => return Ok(value.into()),
        Err(_) => {}
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let is_good =
        value.len() <= 253 && value.starts_with(char::is_alphanumeric) && value.chars().all(is_name);
    is_good.then(|| value.into()).ok_or(KeyProblem::NotA("a host name or an IP address"))
}

fn service_name(value: &str) -> Result<Arc<str>, KeyProblem> {
    let is_good = value.len() <= MAX_SERVICE_NAME && !value.contains(char::is_control);
    is_good.then(|| value.into()).ok_or(KeyProblem::NotA("a name of at most 255 bytes on one line"))
}

#[cfg(test)]
mod tests {
    use fairway_model::Propagation;

    use super::*;

    /// The result of keys, and their diagnostics; invalid ones are listed.
    fn settled(keys: &[(&str, &str)]) -> (Settings, TracingDefaults, Vec<String>) {
        let mut read = TracingKeys::default();
        let (mut settings, mut defaults) = (Settings::default(), TracingDefaults::default());
        let mut messages = Vec::new();
        for (name, value) in keys {
            if read.read(name, value).expect("a key about traces").is_err() {
                messages.push((*name).to_owned());
            }
        }
        let found = read.apply(&mut settings, &mut defaults, |_| Origin::default());
        messages.extend(found.into_iter().map(|found| format!("{}; {}", found.problem, found.consequence)));
        (settings, defaults, messages)
    }

    #[test]
    fn without_keys_the_flags_decide_and_an_ingress_can_enable_tracing() {
        let (settings, defaults, said) = settled(&[]);
        assert_eq!((settings.tracing, settings.collector, said), (None, None, Vec::new()));
        assert_eq!(defaults, TracingDefaults::default());
        let usual = Tracing {
            ratio: SampleRatio::ALL,
            parent_based: true,
            trust_incoming: true,
            propagation: Propagation::W3c,
            span_name: None,
        };
        assert_eq!(defaults.traced, usual);
        let (settings, ..) = settled(&[("enable-opentelemetry", "true")]);
        assert_eq!(settings.tracing.as_deref(), Some(&usual));
    }

    #[test]
    fn false_turns_off_tracing_enabled_by_a_flag() {
        let (settings, defaults, _) =
            settled(&[("enable-opentelemetry", "false"), ("otel-sampler", "AlwaysOn")]);
        assert!(settings.tracing.unwrap().is_off());
        assert_eq!((defaults.enabled, defaults.traced.is_off()), (Some(false), false));
    }

    #[test]
    fn a_ratio_belongs_to_one_sampler() {
        let settings_for = |keys: &[(&str, &str)]| {
            let (_, defaults, said) = settled(keys);
            (defaults.traced.ratio, said.len())
        };
        let percent = SampleRatio::new(DEFAULT_RATIO).unwrap();
        let (sampler, ratio) = ("otel-sampler", "otel-sampler-ratio");
        assert_eq!(settings_for(&[(sampler, "TraceIdRatioBased")]), (percent, 0));
        assert_eq!(
            settings_for(&[(sampler, "TraceIdRatioBased"), (ratio, "0.5")]),
            (SampleRatio::new(0.5).unwrap(), 0)
        );
        assert_eq!(
            settings_for(&[(sampler, "AlwaysOn"), (ratio, "1.0")]),
            (SampleRatio::ALL, 0),
            "nothing is lost"
        );
        assert_eq!(settings_for(&[(ratio, "0.5")]), (SampleRatio::ALL, 1));
        assert_eq!(settings_for(&[(sampler, "AlwaysOff"), (ratio, "0.5")]), (SampleRatio::NONE, 1));
        for wrong in ["1.1", "-1", "NaN", "50%", ""] {
            assert_eq!(
                settings_for(&[(sampler, "TraceIdRatioBased"), (ratio, wrong)]),
                (percent, 1),
                "{wrong}"
            );
        }
        assert_eq!(settings_for(&[(sampler, "alwayson")]), (SampleRatio::ALL, 1));
    }

    #[test]
    fn client_sampled_traces_are_recorded_without_own_sampling() {
        let (settings, ..) = settled(&[("enable-opentelemetry", "true"), ("otel-sampler", "AlwaysOff")]);
        assert!(!settings.tracing.unwrap().is_off());
    }

    #[test]
    fn a_collector_has_the_address_and_the_bounds_of_its_keys() {
        let (settings, _, said) = settled(&[("otlp-collector-host", "otel.observability.svc")]);
        let collector = settings.collector.unwrap();
        assert_eq!((&*collector, said.len()), (&Collector::at("http://otel.observability.svc:4317"), 0));
        let (settings, _, said) = settled(&[
            ("otlp-collector-host", "fd00::1"),
            ("otlp-collector-port", "14317"),
            ("otel-service-name", "edge"),
            ("otel-max-queuesize", "100"),
            ("otel-schedule-delay-millis", "250"),
            ("otel-max-export-batch-size", "200"),
        ]);
        let expected = Collector {
            service_name: "edge".into(),
            max_queue: 100,
            max_delay: Duration::from_millis(250),
            max_batch: 100,
            ..Collector::at("http://[fd00::1]:14317")
        };
        assert_eq!(settings.collector.as_deref(), Some(&expected));
        let noted = "otel-max-export-batch-size: it is more than may wait; a message has at most 100 spans";
        assert_eq!(said, [noted]);
    }

    #[test]
    fn queue_and_batch_sizes_are_bounded() {
        let (settings, _, said) = settled(&[
            ("otlp-collector-host", "10.0.0.1"),
            ("otel-max-queuesize", "4294967295"),
            ("otel-max-export-batch-size", "65536"),
        ]);
        let collector = settings.collector.unwrap();
        assert_eq!((collector.max_queue, collector.max_batch), (MAX_QUEUE, MAX_BATCH));
        assert_eq!(said, ["otel-max-queuesize", "otel-max-export-batch-size"]);
    }

    #[test]
    fn collector_keys_without_a_host_are_reported() {
        let (settings, _, said) = settled(&[
            ("otel-service-name", "edge"),
            ("otlp-collector-port", "4318"),
            ("otlp-collector-host", ""),
        ]);
        assert_eq!((settings.collector, said.len()), (None, 2));
        assert!(said.iter().all(|said| said.ends_with("it has no effect")), "{said:?}");
    }

    #[test]
    fn rejects_invalid_hosts_ports_and_numbers() {
        for (name, wrong) in [
            ("otlp-collector-host", "http://otel"),
            ("otlp-collector-host", "otel:4317"),
            ("otlp-collector-host", "user@otel"),
            ("otlp-collector-host", "-otel"),
            ("otlp-collector-port", "0"),
            ("otlp-collector-port", "grpc"),
            ("otel-max-queuesize", "0"),
            ("otel-schedule-delay-millis", "5s"),
            ("otel-max-export-batch-size", "-1"),
            ("otel-service-name", "a\nb"),
        ] {
            let read = CollectorKeys::default().read(name, wrong);
            assert!(matches!(read, Some(Err(KeyProblem::NotA(_)))), "{name}: {wrong}");
        }
    }
}
