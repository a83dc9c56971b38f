//! `fairway.dev/compression`: how the responses of an Ingress are compressed, whatever the switches of the settings ConfigMap say. It
//! protects nothing, so one that cannot be read closes nothing.

use std::sync::Arc;

use fairway_model::{CodingRule, Compression};
use fairway_objects::diagnostic::{Diagnostic, Severity};

use crate::ingress::defaults::CompressionDefaults;
use crate::ingress::reader::Reader;

/// It is Fairway's own: `--annotations-prefix` does not change it.
const COMPRESSION: &str = "fairway.dev/compression";

/// How the responses of an Ingress are compressed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum CompressionChoice {
    /// As those of all Ingresses.
    #[default]
    OfAll,
    /// Not at all.
    Off,
    /// Like this.
    Own(Arc<Compression>),
}

impl CompressionChoice {
    /// Reads the annotation: `on`, `off`, or codings separated by commas, the preferred one first.
    pub(crate) fn read(reader: &mut Reader<'_>, defaults: &CompressionDefaults) -> Self {
        let annotations = reader.ingress.object.metadata.annotations.as_ref();
        let Some(value) = annotations.and_then(|all| all.get(COMPRESSION)) else { return Self::OfAll };
        match &*value.trim().to_ascii_lowercase() {
            "off" => Self::Off,
            "on" => Self::Own(Arc::new(Compression { codings: defaults.codings.clone() })),
            list => Self::listed(list, reader, defaults),
        }
    }

    fn listed(list: &str, reader: &mut Reader<'_>, defaults: &CompressionDefaults) -> Self {
        let mut codings: Vec<CodingRule> = Vec::new();
        let mut unknown = Vec::new();
        for word in list.split(',').map(str::trim) {
            match defaults.codings.iter().find(|rule| rule.coding.name() == word) {
                Some(rule) if !codings.contains(rule) => codings.push(rule.clone()),
                Some(_) => {}
                None => unknown.push(format!("\"{word}\"")),
            }
        }
        let consequence = match &*codings {
            [] => "the settings decide, as for an Ingress without the annotation".to_owned(),
            some => {
                let names: Vec<_> = some.iter().map(|rule| rule.coding.name()).collect();
                format!("responses are compressed with {}", names.join(", "))
            }
        };
        if !unknown.is_empty() {
            let known: Vec<_> = defaults.codings.iter().map(|rule| rule.coding.name()).collect();
            let problem =
                format!("{} is neither on, off nor a list of {}", unknown.join(", "), known.join(", "));
            let origin = reader.field(&format!("metadata.annotations[\"{COMPRESSION}\"]"));
            let found = Diagnostic::new(Severity::Warning, "invalid-annotation", origin);
            reader.report(found.because(problem, consequence));
        }
        match codings.is_empty() {
            true => Self::OfAll,
            false => Self::Own(Arc::new(Compression { codings })),
        }
    }

    /// How responses are compressed.
    pub(crate) fn settle(&self, defaults: &CompressionDefaults) -> Option<Arc<Compression>> {
        match self {
            Self::OfAll => defaults.of_all.clone(),
            Self::Off => None,
            Self::Own(own) => Some(Arc::clone(own)),
        }
    }
}
