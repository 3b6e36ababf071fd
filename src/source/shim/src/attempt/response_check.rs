// SPDX-License-Identifier: Apache-2.0
//! Checks the head of a response to a read: it must have the demanded version, the known object
//! size, and exactly the requested range. OpenDAL accepts any body.
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use opendal::raw::Timestamp;
use opendal::{Error, ErrorKind, Result};

use crate::attempt::exchange::Read;
use crate::core::entry::usable_etag;
use crate::core::kinds::VersionKind;

/// The message of a response that does not show the time or the size that a read demands.
pub const UNVERIFIED: &str = "the response shows no time of the last change, or no size";

/// Runs before any byte of a body is used. Returns the number of body bytes before the range: a
/// server that ignores ranges sends the whole object.
pub fn check(
    read: &Read,
    requested: Option<&HeaderValue>,
    status: StatusCode,
    headers: &HeaderMap,
) -> Result<u64> {
    if status.is_success()
        && let Some(wanted) = &read.version
        && is_other_version(headers, wanted)
    {
        let message = "the store ignored the condition and answered with another version";
        return Err(Error::new(ErrorKind::ConditionNotMatch, message));
    }
    if status.is_success()
        && let Some(wanted) = read.mtime_s
    {
        if read.has_etags
            && text(headers, header::ETAG).is_some_and(|etag| !usable_etag(etag).is_empty())
        {
            let message = "the object has an ETag, and had none";
            return Err(Error::new(ErrorKind::ConditionNotMatch, message));
        }
        check_mtime(wanted, status, headers)?;
    }
    match requested.and_then(range_of) {
        None => Ok(0),
        Some((first, last)) => match status {
            StatusCode::OK => check_whole(read, first, last, headers),
            StatusCode::PARTIAL_CONTENT => check_part(read, first, last, headers).map(|()| 0),
            other if other.is_success() => Err(transient(format!(
                "the store answered {} to a read",
                other.as_u16()
            ))),
            _ => Ok(0),
        },
    }
}

/// Whether the response names a version other than the demanded one.
fn is_other_version(headers: &HeaderMap, (kind, wanted): &(VersionKind, String)) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    match kind {
        VersionKind::None => false,
        VersionKind::Etag => {
            text("etag").is_some_and(|etag| etag.trim_matches('"') != wanted.trim_matches('"'))
        }
        VersionKind::Generation => {
            text("x-goog-generation").is_some_and(|generation| generation != wanted)
        }
    }
}

/// A store without ETags: the time of the last change, with the size, is the version. The size
/// itself is checked with the range.
fn check_mtime(wanted: i64, status: StatusCode, headers: &HeaderMap) -> Result<()> {
    let unverified = || Error::new(ErrorKind::Unexpected, UNVERIFIED);
    let shown = text(headers, header::LAST_MODIFIED).ok_or_else(unverified)?;
    let time = Timestamp::parse_rfc2822(shown.trim()).map_err(|_| unverified())?;
    if time.into_inner().as_second() != wanted {
        let message = format!("the object was changed, at last {shown}");
        return Err(Error::new(ErrorKind::ConditionNotMatch, message));
    }
    let size = match status {
        StatusCode::PARTIAL_CONTENT => {
            text(headers, header::CONTENT_RANGE).and_then(|range| range.rsplit('/').next())
        }
        _ => text(headers, header::CONTENT_LENGTH),
    };
    let size: Option<u64> = size.and_then(|size| size.parse().ok());
    size.map(|_| ()).ok_or_else(unverified)
}

/// The first and the last byte of `bytes=FIRST-LAST`.
fn range_of(requested: &HeaderValue) -> Option<(u64, u64)> {
    let range = requested.to_str().ok()?.strip_prefix("bytes=")?;
    let (first, last) = range.split_once('-')?;
    Some((first.parse().ok()?, last.parse().ok()?))
}

/// A 200 is valid if the range is the whole object (RFC 9110, 14.2).
fn check_whole(read: &Read, first: u64, last: u64, headers: &HeaderMap) -> Result<u64> {
    let whole = text(headers, header::CONTENT_LENGTH).and_then(|value| value.parse().ok());
    if first == 0 && whole == Some(last + 1) {
        return check_size(read, whole, headers).map(|()| 0);
    }
    match whole {
        Some(length) if length <= last => Err(too_short(read, length, last)),
        Some(length) if length <= read.whole_max => {
            check_size(read, whole, headers).map(|()| first)
        }
        Some(length) if read.whole_max > 0 => {
            let message = format!(
                "the server ignores ranges, so only objects of up to {} MiB can be read, and this \
                 one has {length} bytes; serve it by a server with ranges, such as nginx, Apache \
                 httpd or Caddy",
                read.whole_max >> 20
            );
            Err(Error::new(ErrorKind::Unsupported, message))
        }
        _ => {
            let message = format!(
                "the store ignored the range and answered 200 with the whole object{}",
                encoding_of(headers)
            );
            Err(Error::new(ErrorKind::Unsupported, message))
        }
    }
}

/// If the server ignores ranges, the object may have shrunk. With other servers the response may
/// come from a machine in between.
fn too_short(read: &Read, length: u64, last: u64) -> Error {
    if read.whole_max > 0 && (read.object_size == 0 || read.object_size == length) {
        let message = format!("the object has only {length} bytes");
        return Error::new(ErrorKind::RangeNotSatisfied, message);
    }
    transient(format!(
        "the store answered 200 with {length} bytes to a read up to byte {last}"
    ))
}

fn check_part(read: &Read, first: u64, last: u64, headers: &HeaderMap) -> Result<()> {
    if headers.get_all(header::CONTENT_RANGE).iter().count() > 1 {
        return Err(transient("the answer has two ranges".to_string()));
    }
    let got = text(headers, header::CONTENT_RANGE).unwrap_or_default();
    let (range, total) = got
        .strip_prefix("bytes ")
        .and_then(|range| range.split_once('/'))
        .unwrap_or_default();
    let total: Option<u64> = total.parse().ok();
    if range == format!("{first}-{last}") {
        return check_size(read, total, headers);
    }
    if let Some(total) = total.filter(|total| *total <= last) {
        check_size_of_short(read, total, headers)?;
        let message = format!("the object has only {total} bytes");
        return Err(Error::new(ErrorKind::RangeNotSatisfied, message));
    }
    Err(transient(format!(
        "the store answered with range '{got}' to 'bytes={first}-{last}'"
    )))
}

/// A response with another object size than the known one is cut out of other bytes: a server on
/// the way packs or unpacks them. `size` is None if the response does not name it.
fn check_size(read: &Read, size: Option<u64>, headers: &HeaderMap) -> Result<()> {
    match size {
        Some(size) if read.object_size != 0 && size != read.object_size => {
            let changed = match read.version {
                Some(_) => "",
                None => "the object has changed, or ",
            };
            let message = format!(
                "the answer is a part of {size} bytes{}, but the object has {} bytes: {changed}a \
                 server on the way unpacks or packs it; mount the store without that server, or \
                 turn its compression off for these objects",
                encoding_of(headers),
                read.object_size
            );
            Err(Error::new(ErrorKind::Unsupported, message))
        }
        _ => Ok(()),
    }
}

/// An object that has shrunk is another version; only an encoding changes the size within a
/// version.
fn check_size_of_short(read: &Read, size: u64, headers: &HeaderMap) -> Result<()> {
    match encoding_of(headers).is_empty() {
        true => Ok(()),
        false => check_size(read, Some(size), headers),
    }
}

/// Returns " (Content-Encoding: gzip)", or an empty text.
fn encoding_of(headers: &HeaderMap) -> String {
    match text(headers, header::CONTENT_ENCODING) {
        Some(encoding) if encoding.len() <= 40 => format!(" (Content-Encoding: {encoding})"),
        _ => String::new(),
    }
}

fn transient(text: String) -> Error {
    Error::new(ErrorKind::Unexpected, text).set_temporary()
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}
