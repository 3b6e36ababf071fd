// SPDX-License-Identifier: Apache-2.0
//! Pages of listings as received. OpenDAL's readers treat any document without known elements as an
//! empty listing, so a proxy's "come back later" would hide every object.
use opendal::raw::Timestamp;
use opendal::{Error, ErrorKind, Result};

use crate::attempt::exchange::AlteredNames;

/// Root elements of listings: S3 and compatible stores; Azure.
const ROOTS: [&str; 2] = ["ListBucketResult", "EnumerationResults"];
/// Marks of listings in JSON: Google's; B2's.
const MARKS: [&str; 2] = ["\"storage#objects\"", "\"files\""];

/// Checks that `body` is a complete listing.
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
    // Both end the document: an element without content is the whole document.
    let end = text.strip_suffix('>').unwrap_or_default();
    if end.ends_with(&format!("</{root}")) || end.ends_with('/') {
        return Ok(());
    }
    Err(not_whole("the listing was cut".to_string()))
}

/// Times before 1970 mean none (`Entry::new`): one for each form of the stores.
const NO_TIME: &str = "1930-01-01T00:00:00Z";
const NO_HTTP_TIME: &str = "Wed, 01 Jan 1930 00:00:00 GMT";

pub fn is_http_time(text: &str) -> bool {
    Timestamp::parse_rfc2822(text.trim()).is_ok()
}

fn is_time(text: &str) -> bool {
    text.trim().parse::<Timestamp>().is_ok()
}

/// Returns a listing in which each object has a valid time. OpenDAL would reject the whole page for
/// one that has none.
pub fn with_times(page: Vec<u8>) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(&page) else {
        return page;
    };
    let text = text.trim_start_matches('\u{feff}');
    let repaired = if text.trim_start().starts_with('{') {
        with_json_times(text)
    } else if text.contains("<EnumerationResults") {
        with_xml_times(
            text,
            "Properties",
            "Last-Modified",
            is_http_time,
            NO_HTTP_TIME,
        )
    } else {
        with_xml_times(text, "Contents", "LastModified", is_time, NO_TIME)
    };
    repaired.map_or(page, String::into_bytes)
}

/// Returns None if there is nothing to repair.
fn with_xml_times(
    page: &str,
    object: &str,
    tag: &str,
    is_good: fn(&str) -> bool,
    none: &str,
) -> Option<String> {
    let (opening, closing) = (format!("<{object}>"), format!("</{object}>"));
    let (begin, end) = (format!("<{tag}>"), format!("</{tag}>"));
    let is_bad = |element: &&str| {
        let time = element
            .split_once(&begin)
            .and_then(|(_, rest)| rest.split_once(&end));
        !time.is_some_and(|(time, _)| is_good(time))
    };
    let elements = page.split(&opening).skip(1);
    let elements = elements.map(|rest| rest.split(&closing).next().unwrap_or_default());
    if !elements.clone().any(|element| is_bad(&element)) {
        return None;
    }
    let mut repaired = page.split(&opening).next().unwrap_or_default().to_string();
    for rest in page.split(&opening).skip(1) {
        let (element, after) = rest.split_once(&closing).unwrap_or((rest, ""));
        repaired.push_str(&opening);
        if is_bad(&element) {
            let element = element.replace(&format!("<{tag}/>"), "");
            let (before, time) = element.split_once(&begin).unwrap_or((&element, ""));
            let (_, behind) = time.split_once(&end).unwrap_or_default();
            repaired.extend([before, behind, &begin, none, &end]);
        } else {
            repaired.push_str(element);
        }
        repaired.extend([&closing, after]);
    }
    Some(repaired)
}

/// For Google's listings.
fn with_json_times(page: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Times<'a> {
        #[serde(borrow, default)]
        items: Vec<Item<'a>>,
    }
    #[derive(serde::Deserialize)]
    struct Item<'a> {
        #[serde(borrow, default)]
        updated: Option<std::borrow::Cow<'a, str>>,
    }
    let is_good = |item: &Item<'_>| item.updated.as_deref().is_some_and(is_time);
    let times = serde_json::from_str::<Times<'_>>(page);
    if times.is_ok_and(|times| times.items.iter().all(is_good)) {
        return None;
    }
    let mut whole: serde_json::Value = serde_json::from_str(page).ok()?;
    for item in whole.get_mut("items")?.as_array_mut()? {
        let time = item.get("updated").and_then(|time| time.as_str());
        if !time.is_some_and(is_time) {
            item.as_object_mut()?
                .insert("updated".to_string(), NO_TIME.into());
        }
    }
    Some(whole.to_string())
}

fn not_whole(text: String) -> Error {
    Error::new(ErrorKind::Unexpected, text).set_temporary()
}

/// Returns the name of an XML document's root; empty if there is none.
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

/// Which names OpenDAL will have changed when it yields them: its XML reader trims white space, and
/// a leading '/' is taken for the root. Such a name would stand for another object. The order is
/// OpenDAL's: common prefixes, then objects.
pub fn altered_names(xml: &str) -> AlteredNames {
    let mut names = texts_between(xml, "<CommonPrefixes>", "<Prefix>");
    names.extend(texts_between(xml, "<Contents>", "<Key>"));
    names
        .iter()
        .map(|name| name.starts_with('/') || name.trim() != *name)
        .collect()
}

/// The text that follows `tag` in each element that `opening` begins.
fn texts_between<'a>(xml: &'a str, opening: &str, tag: &str) -> Vec<&'a str> {
    let after_tag = |element: &'a str| {
        let start = element.find(tag)? + tag.len();
        element[start..].split('<').next()
    };
    xml.split(opening)
        .skip(1)
        .map(|element| after_tag(element).unwrap_or_default())
        .collect()
}
