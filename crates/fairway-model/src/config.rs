//! The waist: one complete, immutable description of what the data plane shall do.

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
/// The maps are persistent: a clone costs nothing, an edit costs its own size, and the difference between two versions
/// is found without visiting what they share (docs/design/0001-persistent-maps.md).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// Where connections arrive, by name.
    #[serde(with = "by_value")]
    pub listeners: OrdMap<Arc<str>, Arc<Listener>>,
    /// The hosts of all route tables.
    #[serde(with = "by_value")]
    pub hosts: OrdMap<HostKey, Arc<VirtualHost>>,
    /// Where connections go that are not HTTP, of all tables.
    #[serde(default, with = "by_value", skip_serializing_if = "OrdMap::is_empty")]
    pub streams: OrdMap<StreamKey, Arc<StreamRoute>>,
    /// The backends that rules and stream routes name.
    #[serde(with = "by_value")]
    pub backends: OrdMap<BackendKey, Arc<Backend>>,
    /// The certificates that hosts name.
    #[serde(with = "by_value")]
    pub certificates: OrdMap<CertificateKey, Arc<Certificate>>,
    /// The certificate for TLS clients that name no host with one; the proxy's own self-signed one where there is none.
    pub default_certificate: Option<CertificateKey>,
    /// Settings of the data plane as a whole.
    pub settings: Settings,
}

/// Writes a map as the list of its values, each of which holds its own key: JSON has no structured keys.
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
