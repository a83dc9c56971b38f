//! Fairway's own annotations, `fairway.dev/...`: typed forms of settings that people write in nginx snippets. Parses a value to a
//! filter of the model, or reports what is wrong with it. Knows nothing of Ingresses. [`text`] parses the values of
//! ingress-nginx's annotations and settings as Go and nginx do.

mod deny;
mod extension;
mod headers;
mod real_ip;
mod redirect;
pub mod text;
pub(crate) mod value;

pub use deny::deny;
pub use extension::extension;
pub use headers::{is_hop_header, request_headers, response_headers};
pub use real_ip::real_ip;
pub use redirect::redirect;
pub use value::parse_policy_field;
