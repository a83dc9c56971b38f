//! Where requests carry a credential.

use fairway_model::CredentialLocation;

use crate::annotations::value::check_header_name;
use crate::identity::errors::{IdentityFieldError, IdentityResult};
use crate::identity::headers::{is_same_header, request_header};
use crate::identity::values::{check_length, most};
use crate::policies as types;

pub(super) fn read_locations(
    field: &str,
    written: &[types::CredentialSource],
    default: CredentialLocation,
) -> IdentityResult<Vec<CredentialLocation>> {
    if written.is_empty() {
        return Ok(vec![default]);
    }
    check_length(field, written, most::SOURCES_OF_CREDENTIALS)?;
    let mut locations = Vec::with_capacity(written.len());
    for (index, it) in written.iter().enumerate() {
        let at = format!("{field}[{index}]");
        let location = read_location(&at, it)?;
        if locations.contains(&location) {
            return Err(IdentityFieldError::new(at, "it is listed twice"));
        }
        locations.push(location);
    }
    Ok(locations)
}

fn read_location(at: &str, source: &types::CredentialSource) -> IdentityResult<CredentialLocation> {
    let field = format!("{at}.name");
    if source.prefix.is_some() && source.type_ != "Header" {
        return Err(IdentityFieldError::new(format!("{at}.prefix"), "only a header has a prefix"));
    }
    match &*source.type_ {
        "Header" => {
            let name = request_header(&field, &source.name)?.into();
            if is_same_header(&source.name, "cookie") {
                return Err(IdentityFieldError::new(field, "cookies are read with the type Cookie"));
            }
            let prefix = source.prefix.as_deref().unwrap_or_default();
            if prefix.starts_with(' ') || !prefix.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ')
            {
                let problem = "it begins with a space, or has something besides visible ASCII";
                return Err(IdentityFieldError::new(format!("{at}.prefix"), problem));
            }
            Ok(CredentialLocation::Header { name, prefix: prefix.into() })
        }
        "Cookie" if check_header_name(&source.name).is_ok() => {
            Ok(CredentialLocation::Cookie(source.name.as_str().into()))
        }
        // The name may include the value.
        "Cookie" => Err(IdentityFieldError::new(field, "it is no name of a cookie")),
        "QueryParam" => {
            let good = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
            match !source.name.is_empty() && source.name.bytes().all(good) {
                true => Ok(CredentialLocation::Query(source.name.as_str().into())),
                false => Err(IdentityFieldError::new(
                    field,
                    "it is empty, or has something besides letters, digits and -._~",
                )),
            }
        }
        other => {
            let problem = format!("\"{other}\" is none of Header, Cookie, QueryParam");
            Err(IdentityFieldError::new(format!("{at}.type"), problem))
        }
    }
}
