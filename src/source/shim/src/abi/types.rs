// SPDX-License-Identifier: Apache-2.0
//! The types of leat_store.h.
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;
use std::time::Duration;

use futures::future::AbortHandle;

use crate::core::condition::Condition;
use crate::core::entry::Entry;
use crate::core::failure::{Code, Failure};
use crate::core::kinds::VersionKind;
use crate::core::timeouts::Timeouts;
use crate::store::open::Store;
use crate::store::upload::{CopiedRange, UserMetadata, Writer};

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Text {
    pub data: *const c_char,
    pub size: usize,
}

#[repr(C)]
pub struct CEntry {
    pub key: Text,
    pub size: u64,
    pub version: Text,
    pub mtime_ns: i64,
    pub is_directory: u8,
    pub has_mtime: u8,
    pub metadata: Text,
}

#[repr(C)]
pub struct COption {
    pub name: Text,
    pub value: Text,
}

#[repr(C)]
pub struct Abilities {
    pub version: VersionKind,
    pub conditional_read: u8,
    pub lists_from_any_key: u8,
    pub real_directories: u8,
    pub writes: u8,
    pub write_if_absent: u8,
    pub write_if_version: u8,
    pub repeats_parts: u8,
    pub copies: u8,
    pub copies_parts: u8,
    pub renames: u8,
    pub metadata: u8,
    pub removes_max: usize,
    pub part_min: usize,
    pub parts_max: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Expected {
    pub version: Text,
    pub size: u64,
    pub mtime_s: i64,
    pub has_mtime: u8,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Memory {
    pub start: *mut c_void,
    pub size: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Terms {
    pub first_byte_max_ms: u32,
    pub silence_max_ms: u32,
}

impl Terms {
    pub fn timeouts(self) -> Timeouts {
        Timeouts {
            first_byte: Duration::from_millis(self.first_byte_max_ms.into()),
            idle: Duration::from_millis(self.silence_max_ms.into()),
        }
    }
}

#[repr(C)]
pub struct Outcome {
    pub code: Code,
    pub message: Text,
    pub entries: *const CEntry,
    pub entry_count: usize,
    pub next_token: Text,
    pub left_out: usize,
    pub left_out_example: Text,
    pub requests: u32,
    pub first_byte_us: u64,
    pub retry_after_ms: u64,
    pub store_code: Text,
    pub store_region: Text,
    pub proxy: Text,
    pub clock_ahead_s: i64,
    pub http_status: u32,
}

pub type Done = unsafe extern "C" fn(*mut c_void, *const Outcome);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct CCondition {
    pub if_absent: c_int,
    pub if_version: Text,
    pub metadata: Text,
}

impl CCondition {
    /// Returns None if the version is not UTF-8.
    pub unsafe fn condition(self) -> Option<Condition> {
        if self.if_absent != 0 {
            return Some(Condition::Absent);
        }
        let version = unsafe { self.if_version.string() }?;
        Some(match version.is_empty() {
            true => Condition::None,
            false => Condition::Version(version),
        })
    }
}

impl CCondition {
    /// Returns None if it is not UTF-8. A line without `=` is left out.
    pub unsafe fn user_metadata(self) -> Option<UserMetadata> {
        let text = unsafe { self.metadata.string() }?;
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        Some(
            pairs
                .map(|(name, value)| (name.to_string(), value.to_string()))
                .collect(),
        )
    }
}

/// A range of a version of an object.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CRange {
    pub key: Text,
    pub version: Text,
    pub offset: u64,
    pub size: u64,
}

impl CRange {
    /// Returns None if a text is not UTF-8.
    pub unsafe fn range(self) -> Option<CopiedRange> {
        let (key, version) = unsafe { self.key.string().zip(self.version.string()) }?;
        Some(CopiedRange {
            key,
            version,
            start: self.offset,
            end: self.offset + self.size,
        })
    }
}

pub struct StoreHandle(pub Arc<Store>);
pub struct WriterHandle(pub Result<Arc<Writer>, Failure>);
pub struct RequestHandle(pub AbortHandle);

impl Text {
    pub fn of(text: &str) -> Self {
        Self {
            data: text.as_ptr().cast(),
            size: text.len(),
        }
    }

    pub unsafe fn bytes<'a>(self) -> &'a [u8] {
        if self.size == 0 {
            return &[];
        }
        // SAFETY: the caller vouches for data and size.
        unsafe { std::slice::from_raw_parts(self.data.cast(), self.size) }
    }

    /// Returns None if the text is not UTF-8.
    pub unsafe fn string(self) -> Option<String> {
        let bytes = unsafe { self.bytes() };
        std::str::from_utf8(bytes).ok().map(str::to_string)
    }
}

impl CEntry {
    pub fn of(entry: &Entry) -> Self {
        Self {
            key: Text::of(&entry.key),
            size: entry.size,
            version: Text::of(&entry.version),
            mtime_ns: entry.mtime_ns.unwrap_or_default(),
            is_directory: entry.is_directory as u8,
            has_mtime: entry.mtime_ns.is_some() as u8,
            metadata: Text::of(&entry.metadata),
        }
    }
}
