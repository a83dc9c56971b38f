//! Where requests have a credential.

use fairway_model::CredentialLocation;

use crate::annotations::value::header_name;
use crate::identity::headers::{is_same_header, request_header};
use crate::identity::mistake::{Checked, Mistake};
use crate::identity::values::{at_most, most};
use crate::policies as types;

pub(super) fn locations(
    field: &str,
    written: &[types::CredentialSource],
    default: CredentialLocation,
) -> Checked<Vec<CredentialLocation>> {
    if written.is_empty() {
        return Ok(vec![default]);
    }
    at_most(field, written, most::SOURCES_OF_CREDENTIALS)?;
    let mut locations = Vec::with_capacity(written.len());
    for (index, it) in written.iter().enumerate() {
        let at = format!("{field}[{index}]");
        let location = location(&at, it)?;
        if locations.contains(&location) {
            return Err(Mistake::new(at, "it is listed twice"));
        }
        locations.push(location);
    }
    Ok(locations)
}

fn location(at: &str, of: &types::CredentialSource) -> Checked<CredentialLocation> {
    let field = format!("{at}.name");
    if of.prefix.is_some() && of.type_ != "Header" {
        return Err(Mistake::new(format!("{at}.prefix"), "only a header has a prefix"));
    }
    match &*of.type_ {
        "Header" => {
            let name = request_header(&field, &of.name)?.into();
            if is_same_header(&of.name, "cookie") {
                return Err(Mistake::new(field, "cookies are read with the type Cookie"));
            }
            let prefix = of.prefix.as_deref().unwrap_or_default();
            if prefix.starts_with(' ') || !prefix.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ')
            {
                let problem = "it begins with a space, or has something besides visible ASCII";
                return Err(Mistake::new(format!("{at}.prefix"), problem));
            }
            Ok(CredentialLocation::Header { name, prefix: prefix.into() })
        }
        "Cookie" if header_name(&of.name).is_ok() => Ok(CredentialLocation::Cookie(of.name.as_str().into())),
        // It may be written with its value.
        "Cookie" => Err(Mistake::new(field, "it is no name of a cookie")),
        "QueryParam" => {
            let good = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
            match !of.name.is_empty() && of.name.bytes().all(good) {
                true => Ok(CredentialLocation::Query(of.name.as_str().into())),
                false => {
                    Err(Mistake::new(field, "it is empty, or has something besides letters, digits and -._~"))
                }
            }
        }
        other => {
            let problem = format!("\"{other}\" is none of Header, Cookie, QueryParam");
            Err(Mistake::new(format!("{at}.type"), problem))
        }
    }
}
