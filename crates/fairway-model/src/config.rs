//! The complete, immutable description of what the data plane does.

use std::sync::Arc;

use imbl::OrdMap;
use serde::{Deserialize, Serialize};

use crate::backend::{Backend, BackendKey};
use crate::certificate::{Certificate, CertificateKey};
use crate::listener::Listener;
use crate::route::{HostKey, VirtualHost};
use crate::settings::Settings;
use crate::stream::{StreamKey, StreamRoute};

/// A complete configuration.
///
/// The maps are persistent: a clone is free, an edit costs only its own size, and a diff of two versions skips what
/// they share (docs/design/0001-persistent-maps.md).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// Listeners by name.
    #[serde(with = "by_value")]
    pub listeners: OrdMap<Arc<str>, Arc<Listener>>,
    /// Virtual hosts of all route tables.
    #[serde(with = "by_value")]
    pub hosts: OrdMap<HostKey, Arc<VirtualHost>>,
    /// Routes for non-HTTP connections, of all tables.
    #[serde(default, with = "by_value", skip_serializing_if = "OrdMap::is_empty")]
    pub streams: OrdMap<StreamKey, Arc<StreamRoute>>,
    /// Backends that rules and stream routes name.
    #[serde(with = "by_value")]
    pub backends: OrdMap<BackendKey, Arc<Backend>>,
    /// Certificates that hosts name.
    #[serde(with = "by_value")]
    pub certificates: OrdMap<CertificateKey, Arc<Certificate>>,
    /// Certificate for TLS clients whose server name has none; `None` uses the proxy's self-signed certificate.
    pub default_certificate: Option<CertificateKey>,
    /// Settings of the whole data plane.
    pub settings: Settings,
}

/// Serialises a map as a list of values that contain their keys, because JSON has no structured keys.
mod by_value {
    use std::sync::Arc;

    use imbl::OrdMap;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::backend::{Backend, BackendKey};
    use crate::certificate::{Certificate, CertificateKey};
    use crate::listener::Listener;
    use crate::route::{HostKey, VirtualHost};
    use crate::stream::{StreamKey, StreamRoute};

    pub(super) trait Keyed {
        type Key: Ord + Clone;
        fn key(&self) -> Self::Key;
    }

    impl Keyed for Listener {
        type Key = Arc<str>;
        fn key(&self) -> Arc<str> {
            self.name.clone()
        }
    }

    impl Keyed for StreamRoute {
        type Key = StreamKey;
        fn key(&self) -> StreamKey {
            self.key.clone()
        }
    }

    impl Keyed for VirtualHost {
        type Key = HostKey;
        fn key(&self) -> HostKey {
            self.key.clone()
        }
    }

    impl Keyed for Backend {
        type Key = BackendKey;
        fn key(&self) -> BackendKey {
            self.key.clone()
        }
    }

    impl Keyed for Certificate {
        type Key = CertificateKey;
        fn key(&self) -> CertificateKey {
            self.key.clone()
        }
    }

    pub(super) fn serialize<S, T>(map: &OrdMap<T::Key, Arc<T>>, to: S) -> Result<S::Ok, S::Error>
    where
        S: Serializer,
        T: Keyed + Serialize,
    {
        to.collect_seq(map.values())
    }

    pub(super) fn deserialize<'de, D, T>(from: D) -> Result<OrdMap<T::Key, Arc<T>>, D::Error>
    where
        D: Deserializer<'de>,
        T: Keyed + Deserialize<'de>,
    {
        let values = Vec::<T>::deserialize(from)?;
        Ok(values.into_iter().map(|value| (value.key(), Arc::new(value))).collect())
    }
}
