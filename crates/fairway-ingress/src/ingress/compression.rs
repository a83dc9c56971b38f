//! `fairway.dev/compression`: response compression of an Ingress, overriding the settings ConfigMap. It protects
//! nothing, so an unreadable value closes nothing.

use std::sync::Arc;

use fairway_model::{CodingRule, Compression};
use fairway_objects::diagnostic::{Diagnostic, Severity};

use crate::ingress::defaults::CompressionDefaults;
use crate::ingress::reader::Reader;

/// Fairway's own annotation, which `--annotations-prefix` does not affect.
const COMPRESSION: &str = "fairway.dev/compression";

/// Response compression of an Ingress.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum CompressionChoice {
    /// The global setting.
    #[default]
    OfAll,
    /// Disabled.
    Off,
    /// These codings.
    Own(Arc<Compression>),
}

impl CompressionChoice {
    /// Reads the annotation: `on`, `off`, or comma-separated codings in order of preference.
    pub(crate) fn read(reader: &mut Reader<'_>, defaults: &CompressionDefaults) -> Self {
        let annotations = reader.ingress.object.metadata.annotations.as_ref();
        let Some(value) = annotations.and_then(|all| all.get(COMPRESSION)) else { return Self::OfAll };
        match &*value.trim().to_ascii_lowercase() {
            "off" => Self::Off,
            "on" => Self::Own(Arc::new(Compression { codings: defaults.codings.clone() })),
            list => Self::read_list(list, reader, defaults),
        }
    }

    fn read_list(list: &str, reader: &mut Reader<'_>, defaults: &CompressionDefaults) -> Self {
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
            let origin = reader.field_origin(&format!("metadata.annotations[\"{COMPRESSION}\"]"));
            let found = Diagnostic::new(Severity::Warning, "invalid-annotation", origin);
            reader.report(found.because(problem, consequence));
        }
        match codings.is_empty() {
            true => Self::OfAll,
            false => Self::Own(Arc::new(Compression { codings })),
        }
    }

    /// The resulting compression.
    pub(crate) fn resolve(&self, defaults: &CompressionDefaults) -> Option<Arc<Compression>> {
        match self {
            Self::OfAll => defaults.of_all.clone(),
            Self::Off => None,
            Self::Own(own) => Some(Arc::clone(own)),
        }
    }
}
