//! Fairway's own annotations, `fairway.dev/...`: typed forms of what people write in snippets of nginx. The text of a value goes in,
//! and a filter of the model comes out, or what is wrong with the text. Knows no Ingress. [`text`] reads the values of ingress-nginx's annotations and settings, as Go and nginx do.

mod deny;
mod extension;
mod headers;
mod real_ip;
mod redirect;
pub mod text;
pub(crate) mod value;

pub use deny::deny;
pub use extension::extension;
pub use headers::{is_of_the_hop, request_headers, response_headers};
pub use real_ip::real_ip;
pub use redirect::redirect;
pub use value::field_of_policies;
