//! What answers to other origins carry, compiled: most of it is the same in every answer.

use std::sync::Arc;

use fairway_message::ReadyFields;
use fairway_model::Cors;

/// Of a [`Cors`].
#[derive(Clone, Debug)]
pub struct CorsAnswer {
    /// Who is allowed.
    pub cors: Arc<Cors>,
    /// Every field but `Access-Control-Allow-Origin`, which goes before them.
    pub fields: ReadyFields,
}

impl CorsAnswer {
    pub(crate) fn of(cors: Arc<Cors>) -> Self {
        let age = cors.max_age.to_string();
        let fields = [
            ("Access-Control-Allow-Credentials", if cors.credentials { "true" } else { "" }),
            ("Access-Control-Allow-Methods", &cors.methods),
            ("Access-Control-Allow-Headers", &cors.headers),
            ("Access-Control-Expose-Headers", &cors.expose),
            ("Access-Control-Max-Age", &age),
        ];
        let fields = fields.iter().filter(|(_, value)| !value.is_empty());
        let fields = ReadyFields::new(fields.map(|(name, value)| (name.as_bytes(), value.as_bytes())));
        Self { cors, fields }
    }
}
