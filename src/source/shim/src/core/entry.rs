// SPDX-License-Identifier: Apache-2.0
//! Entry: a store's description of an object, and which keys are addressable.
use std::time::UNIX_EPOCH;

use opendal::{Metadata, UserMetadata};

use crate::core::failure::{Code, Failure};
use crate::core::kinds::{Dialect, VersionKind};

pub struct Entry {
    pub key: String,
    pub size: u64,
    /// In the form of a condition; empty if there is none.
    pub version: String,
    pub mtime_ns: Option<i64>,
    pub is_directory: bool,
    /// Lines NAME=VALUE; empty where it is unknown.
    pub metadata: String,
}

impl Entry {
    pub fn directory(key: String) -> Self {
        Self {
            key,
            size: 0,
            version: String::new(),
            mtime_ns: None,
            is_directory: true,
            metadata: String::new(),
        }
    }

    pub fn new(key: String, metadata: &Metadata, dialect: Dialect) -> Self {
        if metadata.is_dir() {
            return Self::directory(key);
        }
        let mtime = metadata.last_modified().and_then(|time| {
            std::time::SystemTime::from(time)
                .duration_since(UNIX_EPOCH)
                .ok()
        });
        let version = match dialect.version {
            VersionKind::None => String::new(),
            VersionKind::Etag => usable_etag(metadata.etag().unwrap_or_default()),
            VersionKind::Generation => metadata.version().unwrap_or_default().to_string(),
        };
        // A HEAD has whole seconds, a listing may have more, and the two must not differ.
        let unit = if dialect.exact_times {
            1
        } else {
            1_000_000_000
        };
        Self {
            key,
            size: metadata.content_length(),
            version,
            mtime_ns: mtime.map(|since| since.as_nanos() as i64 / unit * unit),
            is_directory: false,
            metadata: metadata.user_metadata().map(lines_of).unwrap_or_default(),
        }
    }
}

fn lines_of(metadata: UserMetadata<'_>) -> String {
    let mut lines = String::new();
    for (name, value) in metadata.into_iter() {
        if !name.contains(['=', '\n']) && !value.contains('\n') {
            lines.push_str(&format!("{name}={value}\n"));
        }
    }
    lines
}

/// A name with a slash is a directory's, one without is a file's; a store may find either with both
/// forms.
pub fn check_kind(key: &str, is_directory: bool) -> Result<(), Failure> {
    if is_directory == key.ends_with('/') {
        return Ok(());
    }
    let is = if is_directory { "a" } else { "not a" };
    Err(Failure::new(
        Code::NotFound,
        format!("it is {is} directory"),
    ))
}

/// Returns the form for If-Match. Some servers list it without quotes, and use `""` for objects
/// without one. A weak ETag does not guarantee equal bytes, so it gives an empty text.
pub fn usable_etag(etag: &str) -> String {
    if etag.starts_with("W/") {
        return String::new();
    }
    match etag.trim_matches('"') {
        "" => String::new(),
        _ if etag.ends_with('"') => etag.to_string(),
        bare => format!("\"{bare}\""),
    }
}

/// OpenDAL trims white space at the ends and drops empty components, and URLs cannot hold "." and
/// ".."; such a key would silently become another one.
pub fn is_addressable(key: &str, dialect: Dialect) -> bool {
    let body = key.strip_suffix('/').unwrap_or(key);
    key.trim() == key
        && !(dialect.turns_backslash && key.contains('\\'))
        && body.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

pub fn check_addressable(key: &str, dialect: Dialect) -> Result<(), Failure> {
    if is_addressable(key, dialect) {
        return Ok(());
    }
    Err(Failure::new(
        Code::Unsupported,
        "the key cannot be addressed: it begins or ends with white space, or has an empty, '.' or \
         '..' component, or a backslash where the store takes it for a slash",
    ))
}
