//! What a cluster has for each Gateway: ports of the pods ([`ports`]), Services ([`services`]), EndpointSlices ([`slices`]), and
//! where all this puts the Gateway ([`places`]); and whether every replica serves it there ([`agreement`]).
//!
//! Pure: what is there goes in, what should be there comes out. [0039](../../../docs/design/0039-gateway-addresses.md) says why
//! it is so.

pub mod agreement;
pub mod names;
pub mod places;
pub mod ports;
pub mod services;
pub mod slices;
