// SPDX-License-Identifier: Apache-2.0
//! Pages of listings, as they come over the wire. OpenDAL's readers take any document of which they
//! know no element for an empty listing, so a proxy's "come back later" would hide every object.
use opendal::{Error, ErrorKind, Result};

/// What the root of a listing is called: S3 and its like; Azure.
const ROOTS: [&str; 2] = ["ListBucketResult", "EnumerationResults"];
/// What stands in those that are JSON: Google's; B2's.
const MARKS: [&str; 2] = ["\"storage#objects\"", "\"files\""];

/// A listing, all of it.
pub fn check_listing(body: &str) -> Result<()> {
    let text = body.trim_start_matches('\u{feff}').trim();
    if text.starts_with('{') && MARKS.iter().any(|mark| text.contains(mark)) {
        return Ok(());
    }
    let root = root_of(text);
    if !ROOTS.contains(&root) {
        let what = match root {
            "" => "what is no listing".to_string(),
            _ => format!("<{root}>, which is no listing"),
        };
        return Err(not_whole(format!("the store answered 200 with {what}")));
    }
    // Either way the last thing in it: an element without content is the whole of its document.
    let end = text.strip_suffix('>').unwrap_or_default();
    if end.ends_with(&format!("</{root}")) || end.ends_with('/') {
        return Ok(());
    }
    Err(not_whole("the listing was cut".to_string()))
}

fn not_whole(text: String) -> Error {
    Error::new(ErrorKind::Unexpected, text).set_temporary()
}

/// The name of an XML document's root; nothing where there is none.
fn root_of(mut text: &str) -> &str {
    for (opening, end) in [("<?", "?>"), ("<!--", "-->"), ("<!", ">")] {
        while text.starts_with(opening) {
            let Some((_, rest)) = text.split_once(end) else {
                return "";
            };
            text = rest.trim_start();
        }
    }
    let Some(tag) = text.strip_prefix('<') else {
        return "";
    };
    let end = tag.find(|c: char| !c.is_ascii_alphanumeric());
    &tag[..end.unwrap_or(tag.len())]
}
