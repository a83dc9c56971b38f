//! What answers to other origins carry, compiled: most of it is the same in every answer.

use std::sync::Arc;

use fairway_message::ReadyFields;
use fairway_model::{Cors, CorsManner, CorsOrigin};

/// Of a [`Cors`].
#[derive(Clone, Debug)]
pub struct CorsAnswer {
    /// Who is allowed.
    pub cors: Arc<Cors>,
    /// What answers have besides `Access-Control-Allow-Origin`, which goes before it.
    pub fields: ReadyFields,
    /// The same of answers to preflights, without what the request says in its own words.
    pub preflight: ReadyFields,
    /// Whether answers differ from origin to origin.
    pub varies: bool,
}

/// The fields, in the order in which they are written.
#[derive(Clone, Copy)]
enum Field {
    Credentials,
    Methods,
    Headers,
    Expose,
    MaxAge,
}

const ALL: [Field; 5] = [Field::Credentials, Field::Methods, Field::Headers, Field::Expose, Field::MaxAge];

impl CorsAnswer {
    pub(crate) fn of(cors: Arc<Cors>) -> Self {
        let all = ready(&cors, &ALL);
        let (fields, varies) = match cors.manner {
            CorsManner::IngressNginx => (all.clone(), false),
            CorsManner::GatewayApi => {
                let same = !cors.credentials && matches!(cors.origins[..], [CorsOrigin::Any]);
                (ready(&cors, &[Field::Credentials, Field::Expose]), !same)
            }
        };
        Self { cors, fields, preflight: all, varies }
    }
}

fn ready(cors: &Cors, fields: &[Field]) -> ReadyFields {
    let age = cors.max_age.to_string();
    // With credentials, browsers take `*` for a name like any other (Fetch Standard §3.2).
    let literal = cors.manner == CorsManner::GatewayApi && cors.credentials;
    let named = |value| if literal && value == "*" { "" } else { value };
    let lines = fields.iter().map(|field| match field {
        Field::Credentials => {
            ("Access-Control-Allow-Credentials", if cors.credentials { "true" } else { "" })
        }
        Field::Methods => ("Access-Control-Allow-Methods", named(&cors.methods)),
        Field::Headers => ("Access-Control-Allow-Headers", named(&cors.headers)),
        Field::Expose => ("Access-Control-Expose-Headers", named(&cors.expose)),
        Field::MaxAge => ("Access-Control-Max-Age", &*age),
    });
    let lines = lines.filter(|(_, value)| !value.is_empty());
    ReadyFields::new(lines.map(|(name, value)| (name.as_bytes(), value.as_bytes())))
}
