//! What answers to other origins carry, compiled: most of it is the same in every answer.

use std::sync::Arc;

use fairway_http::ReadyFields;
use fairway_model::{Cors, CorsManner, CorsOrigin};

/// Of a [`Cors`].
#[derive(Clone, Debug)]
pub struct CorsAnswer {
    /// Who is allowed.
    pub cors: Arc<Cors>,
    /// What answers have besides `Access-Control-Allow-Origin`, which goes before it; that, too, where it is always `*`.
    pub fields: ReadyFields,
    /// The same of answers to preflights, without what the request says in its own words.
    pub preflight: ReadyFields,
    /// Whether every answer has `Access-Control-Allow-Origin: *`.
    pub open: bool,
    /// Whether answers differ from origin to origin.
    pub varies: bool,
}

/// The fields, in the order in which they are written.
#[derive(Clone, Copy)]
enum Field {
    Origin,
    Credentials,
    Methods,
    Headers,
    Expose,
    MaxAge,
}

const ALL: [Field; 6] =
    [Field::Origin, Field::Credentials, Field::Methods, Field::Headers, Field::Expose, Field::MaxAge];

impl CorsAnswer {
    pub(crate) fn of(cors: Arc<Cors>) -> Self {
        let (all, open) = (ready(&cors, &ALL), is_open(&cors));
        let (fields, varies) = match cors.manner {
            CorsManner::IngressNginx => (all.clone(), false),
            CorsManner::GatewayApi => {
                (ready(&cors, &[Field::Origin, Field::Credentials, Field::Expose]), !open)
            }
        };
        Self { cors, fields, preflight: all, open, varies }
    }
}

/// Whether a `*` may not be said. With credentials, browsers take it for a name like any other (Fetch Standard §3.2).
fn is_literal(cors: &Cors) -> bool {
    cors.manner == CorsManner::GatewayApi && cors.credentials
}

fn is_open(cors: &Cors) -> bool {
    !is_literal(cors) && matches!(cors.origins[..], [CorsOrigin::Any])
}

fn ready(cors: &Cors, fields: &[Field]) -> ReadyFields {
    let (age, literal) = (cors.max_age.to_string(), is_literal(cors));
    let named = |value| if literal && value == "*" { "" } else { value };
    let lines = fields.iter().map(|field| match field {
        Field::Origin => ("Access-Control-Allow-Origin", if is_open(cors) { "*" } else { "" }),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn names(fields: &ReadyFields) -> Vec<&str> {
        fields.iter().map(|field| std::str::from_utf8(field.name).unwrap()).collect()
    }

    #[test]
    fn a_star_for_every_origin_is_one_of_the_fields_and_goes_first() {
        use CorsManner::{GatewayApi, IngressNginx};
        let (any, one) = (CorsOrigin::Any, CorsOrigin::Exact("https://a.test".into()));
        for (origins, manner, credentials, open, varies) in [
            (vec![any.clone()], IngressNginx, true, true, false),
            (vec![any.clone()], IngressNginx, false, true, false),
            (vec![any.clone()], GatewayApi, false, true, false),
            (vec![any.clone()], GatewayApi, true, false, true),
            (vec![one.clone()], IngressNginx, false, false, false),
            (vec![one.clone(), any], IngressNginx, false, false, false),
            (vec![one], GatewayApi, false, false, true),
            (vec![], GatewayApi, false, false, true),
        ] {
            let (methods, headers, expose) = ("*".into(), "".into(), "X-A".into());
            let cors = Cors { origins, methods, headers, expose, credentials, max_age: 5, manner };
            let answer = CorsAnswer::of(Arc::new(cors));
            assert_eq!((answer.open, answer.varies), (open, varies), "{:?}", answer.cors);
            for fields in [&answer.fields, &answer.preflight] {
                let origin = fields.iter().next().filter(|field| field.name.ends_with(b"-Origin"));
                let value = origin.map(|field| field.value);
                assert_eq!(value, open.then_some(&b"*"[..]), "{:?}", answer.cors);
                assert_eq!(names(fields)[1..].iter().filter(|name| name.ends_with("-Origin")).count(), 0);
            }
            assert_eq!(names(&answer.preflight).last(), Some(&"Access-Control-Max-Age"));
        }
    }
}
