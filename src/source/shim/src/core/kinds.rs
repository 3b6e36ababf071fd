// SPDX-License-Identifier: Apache-2.0
//! Kinds: how stores differ in versions, listings and the description of objects.

/// The kind of value that identifies a version of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum VersionKind {
    None = 0,
    Etag = 1,
    Generation = 2,
}

/// Accept-Encoding for unmodified bytes.
pub const IDENTITY: &str = "identity";

/// How a store describes objects.
#[derive(Clone, Copy)]
pub struct Dialect {
    pub version: VersionKind,
    /// Listings and stats have the same times, finer than a second.
    pub exact_times: bool,
    /// Its servers treat a backslash as a slash.
    pub turns_backslash: bool,
    /// Accept-Encoding with which it returns objects as they are stored.
    pub accepts: &'static str,
    /// Maximum size of an object that is read from a server that ignores ranges. 0: none.
    pub whole_max: u64,
}

/// How a store lists.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ListStyle {
    /// Pages in order, after any key.
    StartAfter,
    /// Pages in order, each of which continues only the one before.
    Continued,
    /// Real directories, each as a whole and in any order.
    Directories,
    /// The same, as far as a web server shows them.
    Index,
}
