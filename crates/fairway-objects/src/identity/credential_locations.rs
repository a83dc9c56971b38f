//! Reads where requests carry a credential: a header, a cookie or a query parameter.

use fairway_model::CredentialLocation;

use crate::annotations::value::check_header_name;
use crate::identity::errors::{IdentityFieldError, IdentityResult};
use crate::identity::headers::{is_same_header, request_header};
use crate::identity::values::{check_length, max_items};
use crate::policies as types;

pub(super) fn read_locations(
    field: &str,
    sources: &[types::CredentialSource],
    default: CredentialLocation,
) -> IdentityResult<Vec<CredentialLocation>> {
    if sources.is_empty() {
        return Ok(vec![default]);
    }
    check_length(field, sources, max_items::CREDENTIAL_SOURCES)?;
    let mut locations = Vec::with_capacity(sources.len());
    for (index, source) in sources.iter().enumerate() {
        let field = format!("{field}[{index}]");
        let location = read_location(&field, source)?;
        if locations.contains(&location) {
            return Err(IdentityFieldError::new(field, "it is listed twice"));
        }
        locations.push(location);
    }
    Ok(locations)
}

fn read_location(field: &str, source: &types::CredentialSource) -> IdentityResult<CredentialLocation> {
    let name_field = format!("{field}.name");
    if source.prefix.is_some() && source.type_ != "Header" {
        return Err(IdentityFieldError::new(format!("{field}.prefix"), "only a header has a prefix"));
    }
    match &*source.type_ {
        "Header" => {
            let name = request_header(&name_field, &source.name)?.into();
            if is_same_header(&source.name, "cookie") {
                return Err(IdentityFieldError::new(name_field, "cookies are read with the type Cookie"));
            }
            let prefix = source.prefix.as_deref().unwrap_or_default();
            if prefix.starts_with(' ') || !prefix.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ')
            {
                let problem = "it begins with a space, or has something besides visible ASCII";
                return Err(IdentityFieldError::new(format!("{field}.prefix"), problem));
            }
            Ok(CredentialLocation::Header { name, prefix: prefix.into() })
        }
        "Cookie" if check_header_name(&source.name).is_ok() => {
            Ok(CredentialLocation::Cookie(source.name.as_str().into()))
        }
        // The message leaves the name out: someone may have written the cookie itself, with its secret value.
        "Cookie" => Err(IdentityFieldError::new(name_field, "it is no name of a cookie")),
        "QueryParam" => {
            let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
            match !source.name.is_empty() && source.name.bytes().all(is_allowed) {
                true => Ok(CredentialLocation::Query(source.name.as_str().into())),
                false => Err(IdentityFieldError::new(
                    name_field,
                    "it is empty, or has something besides letters, digits and -._~",
                )),
            }
        }
        other => {
            let problem = format!("\"{other}\" is none of Header, Cookie, QueryParam");
            Err(IdentityFieldError::new(format!("{field}.type"), problem))
        }
    }
}
