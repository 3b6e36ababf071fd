// SPDX-License-Identifier: Apache-2.0
//! Changes of a store. A written object appears as a whole or not at all, whatever the store does
//! by itself.
use std::sync::Arc;

use opendal::Buffer;
use opendal::options::CopyOptions;
use tokio::sync::Mutex;

use crate::attempt::exchange::Purpose;
use crate::attempt::explain::explain;
use crate::attempt::time_limit::{bounded, within};
use crate::attempt::trace::Trace;
use crate::backends::parts::WriteMode;
use crate::core::condition::Condition;
use crate::core::entry::Entry;
use crate::core::failure::{Code, Failure};
use crate::core::timeouts::Timeouts;
use crate::store::open::Store;
use crate::store::upload::{UserMetadata, clean_up};
use crate::store::write_checks::unsupported;

impl Store {
    /// Writes a whole object in one request, or a directory if the key ends in a slash.
    pub async fn write(
        self: &Arc<Self>,
        key: String,
        condition: Condition,
        metadata: UserMetadata,
        content: Buffer,
        timeouts: Timeouts,
        trace: &mut Trace,
    ) -> Result<Entry, Failure> {
        self.check_change(&key)?;
        if key.ends_with('/') {
            if !matches!(condition, Condition::None) {
                return Err(unsupported("makes no directories on conditions"));
            }
            return self.write_directory(key, &content, timeouts, trace).await;
        }
        self.check_condition(&condition)?;
        let attempt = || async {
            let mut upload = self.open_upload(&key, &condition, &metadata)?;
            let size = content.len() as u64;
            let done = async {
                upload.append(self, content.clone(), timeouts).await?;
                upload
                    .complete(self, &key, &condition, size, timeouts)
                    .await
            };
            let done = done.await;
            if done.is_err() && upload.staged.is_some() {
                // Continues if the caller gives up.
                let cleaning = tokio::spawn(clean_up(self.clone(), upload));
                let _ = tokio::time::timeout(timeouts.first_byte, cleaning).await;
            }
            done
        };
        self.attempt(trace, || Purpose::Other, timeouts, attempt)
            .await
    }

    async fn write_directory(
        &self,
        key: String,
        content: &Buffer,
        timeouts: Timeouts,
        trace: &mut Trace,
    ) -> Result<Entry, Failure> {
        if !content.is_empty() {
            let message = "a directory holds no bytes";
            return Err(Failure::new(Code::InvalidArgument, message));
        }
        let attempt = || async {
            match &self.writes {
                WriteMode::HdfsRename(hdfs) => {
                    bounded(timeouts.first_byte, hdfs.create_directory(&key)).await
                }
                _ => within(timeouts.first_byte, self.operator.load().create_dir(&key)).await,
            }
        };
        self.attempt(trace, || Purpose::Other, timeouts, attempt)
            .await?;
        Ok(Entry::directory(key))
    }

    pub async fn copy(
        &self,
        from: String,
        to: String,
        if_absent: bool,
        timeouts: Timeouts,
        trace: &mut Trace,
    ) -> Result<Entry, Failure> {
        self.check_change(&from)?;
        self.check_change(&to)?;
        if !self.changes().copies {
            return Err(unsupported("does not copy objects by itself"));
        }
        let condition = match if_absent {
            true => Condition::Absent,
            false => Condition::None,
        };
        let done = Mutex::new(None);
        let attempt = || async {
            let mut done = done.lock().await;
            if let Some(metadata) = &*done {
                return self.entry_after_write(&to, metadata, None, timeouts).await;
            }
            let options = CopyOptions {
                if_not_exists: if_absent,
                ..Default::default()
            };
            let copied = self.operator.load().copy_options(&from, &to, options).await;
            let copied = copied.map_err(|error| condition.explain(explain(&error)))?;
            self.entry_after_write(&to, done.insert(copied), None, timeouts)
                .await
        };
        self.attempt(trace, || Purpose::Other, timeouts, attempt)
            .await
    }

    pub async fn rename(
        &self,
        from: String,
        to: String,
        timeouts: Timeouts,
        trace: &mut Trace,
    ) -> Result<(), Failure> {
        self.check_change(&from)?;
        self.check_change(&to)?;
        let is_directory = from.ends_with('/');
        if is_directory != to.ends_with('/') {
            let message = "a file does not become a directory, nor a directory a file";
            return Err(Failure::new(Code::InvalidArgument, message));
        }
        let (from, to) = (from.trim_end_matches('/'), to.trim_end_matches('/'));
        let attempt = || async {
            match &self.writes {
                WriteMode::HdfsRename(hdfs) => {
                    bounded(timeouts.first_byte, hdfs.rename(from, to, !is_directory)).await
                }
                WriteMode::StagedRename => {
                    within(timeouts.first_byte, self.operator.load().rename(from, to)).await
                }
                _ => Err(unsupported("cannot rename objects")),
            }
        };
        self.attempt(trace, || Purpose::Other, timeouts, attempt)
            .await
    }

    /// Removes all keys; a missing one is no failure. After a failure any of them may be removed.
    pub async fn remove(
        &self,
        keys: Vec<String>,
        timeouts: Timeouts,
        trace: &mut Trace,
    ) -> Result<(), Failure> {
        for key in &keys {
            self.check_change(key)?;
        }
        let attempt = || async {
            match &self.writes {
                WriteMode::HdfsRename(hdfs) => {
                    for key in &keys {
                        bounded(timeouts.first_byte, hdfs.remove(key)).await?;
                    }
                    Ok(())
                }
                _ if self.changes().removes_max == 1 => {
                    for key in &keys {
                        within(timeouts.first_byte, self.operator.load().delete(key)).await?;
                    }
                    Ok(())
                }
                _ => {
                    let removed = async {
                        let mut deleter = self.operator.load().deleter().await?;
                        deleter.delete_iter(keys.clone()).await?;
                        deleter.close().await
                    };
                    within(timeouts.first_byte, removed).await
                }
            }
        };
        self.attempt(trace, || Purpose::Other, timeouts, attempt)
            .await
    }
}
