// SPDX-License-Identifier: Apache-2.0
//! The changes that a store supports, and the checks before and after a change.
use opendal::Metadata;

use crate::attempt::time_limit::within;
use crate::backends::parts::WriteMode;
use crate::core::condition::Condition;
use crate::core::entry::{Entry, check_addressable};
use crate::core::failure::{Code, Failure};
use crate::core::kinds::VersionKind;
use crate::core::timeouts::Timeouts;
use crate::store::open::Store;

/// Maximum parts of an object, if the store's kind has a limit.
const PARTS_MAX: u32 = 10_000;

/// A body of this size is sent before a server has decided.
const SMALL_BODY: u64 = 64 * 1024;

/// The changes that a store supports.
#[derive(Default)]
pub struct Changes {
    pub writes: bool,
    pub if_absent: bool,
    pub if_version: bool,
    /// A part that failed may be sent again.
    pub repeats_parts: bool,
    pub copies: bool,
    /// A part of an object may be a range of another one.
    pub copies_parts: bool,
    pub renames: bool,
    /// It keeps the metadata of a write.
    pub metadata: bool,
    /// Keys that one request removes.
    pub removes_max: usize,
    pub part_min: usize,
    pub parts_max: u32,
}

impl Store {
    pub fn changes(&self) -> Changes {
        let capability = self.operator.load().info().capability();
        let kind = self.dialect.version;
        match &self.writes {
            WriteMode::ReadOnly => Changes::default(),
            WriteMode::Atomic => Changes {
                writes: true,
                if_absent: capability.write_with_if_not_exists,
                if_version: match kind {
                    VersionKind::Etag => capability.write_with_if_match,
                    VersionKind::Generation => capability.write_with_if_version_match,
                    VersionKind::None => false,
                },
                repeats_parts: true,
                copies: capability.copy,
                copies_parts: capability.write_can_copy_from && kind == VersionKind::Etag,
                renames: false,
                metadata: capability.write_with_user_metadata,
                // Google's batches have a special form that some of its servers do not accept.
                removes_max: match kind {
                    VersionKind::Generation => 1,
                    _ => capability.delete_max_size.unwrap_or(1),
                },
                part_min: capability.write_multi_min_size.unwrap_or(1),
                parts_max: PARTS_MAX,
            },
            renamed => Changes {
                writes: true,
                if_absent: matches!(renamed, WriteMode::HdfsRename(_)),
                renames: true,
                removes_max: 1,
                part_min: 1,
                parts_max: u32::MAX,
                ..Default::default()
            },
        }
    }

    pub fn check_change(&self, key: &str) -> Result<(), Failure> {
        if matches!(self.writes, WriteMode::ReadOnly) {
            return Err(unsupported("is only read"));
        }
        check_addressable(key, self.dialect)
    }

    pub fn check_condition(&self, condition: &Condition) -> Result<(), Failure> {
        let changes = self.changes();
        match condition {
            Condition::Absent if !changes.if_absent => Err(unsupported(
                "cannot write on condition that there is no object",
            )),
            Condition::Version(_) if !changes.if_version => {
                Err(unsupported("cannot write on condition of a version"))
            }
            _ => Ok(()),
        }
    }

    /// Checks the condition first. Many servers close the connection on a body that they reject,
    /// and their response is lost then. The store itself checks again.
    pub async fn check_before_write(
        &self,
        key: &str,
        condition: &Condition,
        size: u64,
        timeouts: Timeouts,
    ) -> Result<(), Failure> {
        if size <= SMALL_BODY || !self.over_http {
            return Ok(());
        }
        let now = match within(timeouts.first_byte, self.operator.load().stat(key)).await {
            Ok(now) => Some(Entry::new(key.to_string(), &now, self.dialect)),
            Err(failure) if failure.code == Code::NotFound => None,
            Err(failure) => return Err(failure),
        };
        match (condition, now) {
            (Condition::Absent, Some(_)) => Err(Failure::new(Code::Exists, "it is there already")),
            (Condition::Version(wanted), now)
                if now.as_ref().map(|now| &now.version) != Some(wanted) =>
            {
                let message = "the object is no longer the version that was to be replaced";
                Err(Failure::new(Code::Changed, message))
            }
            _ => Ok(()),
        }
    }

    /// Returns the present object, from the response to the write or else from the store. The write
    /// is done: no failure here means that it was rejected or had no effect.
    pub async fn entry_after_write(
        &self,
        key: &str,
        metadata: &Metadata,
        size: Option<u64>,
        timeouts: Timeouts,
    ) -> Result<Entry, Failure> {
        let version = match self.dialect.version {
            VersionKind::None => None,
            VersionKind::Etag => metadata.etag(),
            VersionKind::Generation => metadata.version(),
        };
        if let (Some(size), Some(_)) = (size, version) {
            let entry = Entry::new(key.to_string(), metadata, self.dialect);
            return Ok(Entry { size, ..entry });
        }
        let found = within(timeouts.first_byte, self.operator.load().stat(key)).await;
        let now = match found {
            Ok(now) => now,
            Err(failure) => {
                let message = format!(
                    "it is written, but its new version is not known: {}",
                    failure.message
                );
                return Err(Failure::new(Code::Unavailable, message));
            }
        };
        match size {
            Some(size) if size != now.content_length() => {
                let message = "another object has taken its place already";
                Err(Failure::new(Code::Changed, message))
            }
            _ => Ok(Entry::new(key.to_string(), &now, self.dialect)),
        }
    }
}

pub fn unsupported(why: &str) -> Failure {
    Failure::new(Code::Unsupported, format!("this store {why}"))
}
