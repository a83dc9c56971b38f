//! Compiled CORS headers: most of them are the same in every response.

use std::sync::Arc;

use fairway_http::ReadyFields;
use fairway_model::{Cors, CorsMode, CorsOrigin};

/// A compiled [`Cors`].
#[derive(Clone, Debug)]
pub struct CompiledCors {
    /// The allowed origins and their settings.
    pub cors: Arc<Cors>,
    /// The headers of responses, including `Access-Control-Allow-Origin` only if it is always `*`; otherwise it is
    /// written before them.
    pub fields: ReadyFields,
    /// The same for preflight responses, without headers that echo the request.
    pub preflight: ReadyFields,
    /// Whether every response has `Access-Control-Allow-Origin: *`.
    pub open: bool,
    /// Whether responses differ by origin.
    pub varies: bool,
}

/// The headers, in the order they are written.
#[derive(Clone, Copy)]
enum CorsHeader {
    Origin,
    Credentials,
    Methods,
    Headers,
    Expose,
    MaxAge,
}

const ALL: [CorsHeader; 6] = [
    CorsHeader::Origin,
    CorsHeader::Credentials,
    CorsHeader::Methods,
    CorsHeader::Headers,
    CorsHeader::Expose,
    CorsHeader::MaxAge,
];

impl CompiledCors {
    pub(crate) fn new(cors: Arc<Cors>) -> Self {
        let (all, open) = (ready(&cors, &ALL), is_open(&cors));
        let (fields, varies) = match cors.manner {
            CorsMode::IngressNginx => (all.clone(), false),
            CorsMode::GatewayApi => {
                (ready(&cors, &[CorsHeader::Origin, CorsHeader::Credentials, CorsHeader::Expose]), !open)
            }
        };
        Self { cors, fields, preflight: all, open, varies }
    }
}

/// Whether `*` must not be sent. With credentials, browsers treat it as a literal name (Fetch Standard §3.2).
fn is_literal(cors: &Cors) -> bool {
    cors.manner == CorsMode::GatewayApi && cors.credentials
}

fn is_open(cors: &Cors) -> bool {
    !is_literal(cors) && matches!(cors.origins[..], [CorsOrigin::Any])
}

fn ready(cors: &Cors, fields: &[CorsHeader]) -> ReadyFields {
    let (age, literal) = (cors.max_age.to_string(), is_literal(cors));
    let named = |value| if literal && value == "*" { "" } else { value };
    let lines = fields.iter().map(|field| match field {
        CorsHeader::Origin => ("Access-Control-Allow-Origin", if is_open(cors) { "*" } else { "" }),
        CorsHeader::Credentials => {
            ("Access-Control-Allow-Credentials", if cors.credentials { "true" } else { "" })
        }
        CorsHeader::Methods => ("Access-Control-Allow-Methods", named(&cors.methods)),
        CorsHeader::Headers => ("Access-Control-Allow-Headers", named(&cors.headers)),
        CorsHeader::Expose => ("Access-Control-Expose-Headers", named(&cors.expose)),
        CorsHeader::MaxAge => ("Access-Control-Max-Age", &*age),
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
    fn a_wildcard_origin_is_a_fixed_header_and_comes_first() {
        use CorsMode::{GatewayApi, IngressNginx};
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
            let response = CompiledCors::new(Arc::new(cors));
            assert_eq!((response.open, response.varies), (open, varies), "{:?}", response.cors);
            for fields in [&response.fields, &response.preflight] {
                let origin = fields.iter().next().filter(|field| field.name.ends_with(b"-Origin"));
                let value = origin.map(|field| field.value);
                assert_eq!(value, open.then_some(&b"*"[..]), "{:?}", response.cors);
                assert_eq!(names(fields)[1..].iter().filter(|name| name.ends_with("-Origin")).count(), 0);
            }
            assert_eq!(names(&response.preflight).last(), Some(&"Access-Control-Max-Age"));
        }
    }
}
