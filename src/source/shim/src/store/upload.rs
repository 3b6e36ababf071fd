// SPDX-License-Identifier: Apache-2.0
//! Writer: an object that is written in parts, and is invisible before its end.
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hdfs_native::file::FileWriter;
use opendal::options::{ReadOptions, WriteOptions};
use opendal::raw::{OpRead, OpReader, OpWrite, Service, oio};
use opendal::{Buffer, BytesRange, Metadata, MetadataBuilder};
use tokio::sync::Mutex;

use crate::attempt::exchange::Purpose;
use crate::attempt::explain::{explain, explain_with};
use crate::attempt::hdfs_errors::explain_hdfs;
use crate::attempt::time_limit::{bounded, within};
use crate::attempt::trace::Trace;
use crate::backends::hdfs::client::HdfsClient;
use crate::backends::parts::WriteMode;
use crate::core::condition::Condition;
use crate::core::entry::Entry;
use crate::core::failure::{Code, Failure};
use crate::core::kinds::VersionKind;
use crate::core::timeouts::Timeouts;
use crate::store::open::Store;
use crate::store::write_checks::unsupported;

/// Parts of one object in flight: one connection does not fill most links.
const PARTS_IN_FLIGHT: usize = 8;
/// Time limit of background clean-up.
const CLEAN_UP: Duration = Duration::from_secs(30);
/// With pauses that double, 25 s in all.
const CLEAN_UP_ATTEMPTS: u32 = 8;
const CLEAN_UP_PAUSE: Duration = Duration::from_millis(100);

impl Store {
    pub fn open_upload(
        &self,
        key: &str,
        condition: &Condition,
        metadata: &UserMetadata,
    ) -> Result<Upload, Failure> {
        let staged = match self.writes {
            WriteMode::Atomic => None,
            _ => Some(staged_key(key)),
        };
        let bytes = match &self.writes {
            WriteMode::HdfsRename(hdfs) => Bytes::Hdfs(hdfs.clone(), None),
            _ => {
                let key = staged.as_deref().unwrap_or(key);
                Bytes::Service(self.service_writer(key, condition, metadata)?)
            }
        };
        Ok(Upload {
            staged,
            bytes,
            completion: Completion::Pending,
        })
    }

    /// Opens a writer below OpenDAL's own, which would cut and join its input, so that the bytes to
    /// resend would be unknown.
    fn service_writer(
        &self,
        key: &str,
        condition: &Condition,
        metadata: &UserMetadata,
    ) -> Result<oio::Writer, Failure> {
        let mut options = WriteOptions {
            concurrent: PARTS_IN_FLIGHT,
            ..Default::default()
        };
        if !metadata.is_empty() && self.changes().metadata {
            options.user_metadata = Some(metadata.clone());
        }
        match (condition, self.dialect.version) {
            (Condition::None, _) => {}
            (Condition::Absent, _) => options.if_not_exists = true,
            (Condition::Version(version), VersionKind::Generation) => {
                options.if_version_match = Some(version.clone());
            }
            (Condition::Version(version), _) => options.if_match = Some(version.clone()),
        }
        let operator = self.operator.load();
        let service = operator.service();
        let opened = OpWrite::from_options(&service.capability(), options)
            .and_then(|(args, _)| service.write(operator.context(), key, args));
        opened.map_err(|error| explain_with(&error, &Default::default()))
    }
}

/// Names and values that a store keeps with an object.
pub type UserMetadata = HashMap<String, String>;

/// A range of a version of an object.
pub struct CopiedRange {
    pub key: String,
    pub version: String,
    pub start: u64,
    pub end: u64,
}

/// An object that is being written.
pub struct Upload {
    /// The temporary key until it is complete, if it is another one.
    pub staged: Option<String>,
    bytes: Bytes,
    completion: Completion,
}

/// Progress of the completion: a completed step is not repeated.
enum Completion {
    Pending,
    /// Requested; the response may have been lost.
    Requested,
    Done(Metadata),
}

pub enum Bytes {
    Service(oio::Writer),
    /// Created with the first bytes.
    Hdfs(Arc<HdfsClient>, Option<FileWriter>),
}

impl Upload {
    pub async fn append(
        &mut self,
        store: &Store,
        part: Buffer,
        timeouts: Timeouts,
    ) -> Result<(), Failure> {
        match &mut self.bytes {
            Bytes::Service(writer) if store.over_http => writer
                .write_dyn(part)
                .await
                .map_err(|error| explain(&error)),
            Bytes::Service(writer) => within(timeouts.first_byte, writer.write_dyn(part)).await,
            Bytes::Hdfs(hdfs, file) => {
                let staged = self.staged.as_deref().unwrap_or_default();
                bounded(timeouts.first_byte, append_to(hdfs, file, staged, part)).await
            }
        }
    }

    /// Appends a part that the store itself copies from an object of this version.
    async fn copy(&mut self, store: &Store, from: &CopiedRange) -> Result<(), Failure> {
        match &mut self.bytes {
            Bytes::Service(writer) if store.changes().copies_parts => {
                let options = ReadOptions {
                    range: (from.start..from.end).into(),
                    if_match: Some(from.version.clone()),
                    ..Default::default()
                };
                let (range, args, _): (BytesRange, OpRead, OpReader) = options.into();
                let copied = writer.copy_from_dyn(&from.key, args, range).await;
                copied.map_err(|error| explain(&error))
            }
            _ => Err(unsupported("copies no parts of objects")),
        }
    }

    pub async fn complete(
        &mut self,
        store: &Store,
        key: &str,
        condition: &Condition,
        size: u64,
        timeouts: Timeouts,
    ) -> Result<Entry, Failure> {
        if let Completion::Done(metadata) = &self.completion {
            return store
                .entry_after_write(key, metadata, Some(size), timeouts)
                .await;
        }
        let was_requested = matches!(self.completion, Completion::Requested);
        let done = async {
            if !matches!(condition, Condition::None) {
                store
                    .check_before_write(key, condition, size, timeouts)
                    .await?;
            }
            self.completion = Completion::Requested;
            let metadata = match &mut self.bytes {
                Bytes::Service(writer) if store.over_http => {
                    let closed = writer.close_dyn().await;
                    closed.map_err(|error| explain(&error))?
                }
                Bytes::Service(writer) => within(timeouts.first_byte, writer.close_dyn()).await?,
                Bytes::Hdfs(hdfs, file) => {
                    let staged = self.staged.as_deref().unwrap_or_default();
                    bounded(
                        timeouts.first_byte,
                        append_to(hdfs, file, staged, Buffer::new()),
                    )
                    .await?;
                    if let Some(file) = file {
                        bounded(timeouts.first_byte, async {
                            file.close().await.map_err(explain_hdfs)
                        })
                        .await?;
                    }
                    MetadataBuilder::unknown().build()
                }
            };
            match (&self.staged, &self.bytes) {
                (None, _) => {}
                (Some(staged), Bytes::Hdfs(hdfs, _)) => {
                    let replace = !matches!(condition, Condition::Absent);
                    bounded(timeouts.first_byte, hdfs.rename(staged, key, replace)).await?;
                }
                (Some(staged), _) => {
                    within(
                        timeouts.first_byte,
                        store.operator.load().rename(staged, key),
                    )
                    .await?;
                }
            }
            self.staged = None;
            Ok(metadata)
        };
        let done: Result<Metadata, Failure> = done.await;
        match done {
            Ok(metadata) => {
                let entry = store
                    .entry_after_write(key, &metadata, Some(size), timeouts)
                    .await;
                self.completion = Completion::Done(metadata);
                entry
            }
            // The upload does not exist any more: the lost response may have been a success.
            Err(failure) if was_requested && failure.code == Code::NotFound => {
                let message = format!("whether it was written is not known: {}", failure.message);
                Err(Failure::new(Code::Unavailable, message))
            }
            Err(failure) => Err(condition.explain(failure)),
        }
    }

    async fn abort(&mut self, store: &Store, timeouts: Timeouts) -> Result<(), Failure> {
        match (self.staged.clone(), &mut self.bytes) {
            (None, Bytes::Service(writer)) => {
                writer.abort_dyn().await.map_err(|error| explain(&error))
            }
            (Some(staged), Bytes::Service(_)) => {
                within(timeouts.first_byte, store.operator.load().delete(&staged)).await
            }
            (Some(staged), Bytes::Hdfs(hdfs, file)) => {
                *file = None;
                bounded(timeouts.first_byte, hdfs.remove(&staged)).await
            }
            (None, Bytes::Hdfs(..)) => Ok(()),
        }
    }
}

async fn append_to(
    hdfs: &HdfsClient,
    file: &mut Option<FileWriter>,
    staged: &str,
    part: Buffer,
) -> Result<(), Failure> {
    let file = match file {
        Some(file) => file,
        None => file.insert(hdfs.create(staged).await?),
    };
    for bytes in part {
        file.write_bytes(bytes).await.map_err(explain_hdfs)?;
    }
    Ok(())
}

/// Beside the key: a rename may not cross file systems.
fn staged_key(key: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanos = since.map_or(0, |since| since.as_nanos() as u64);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let (directory, _) = key.rsplit_once('/').unwrap_or_default();
    let slash = if directory.is_empty() { "" } else { "/" };
    format!(
        "{directory}{slash}.leat-{nanos:x}-{:x}-{count:x}",
        std::process::id()
    )
}

pub async fn clean_up(store: Arc<Store>, mut upload: Upload) {
    let timeouts = Timeouts::both(CLEAN_UP);
    let mut trace = Trace::default();
    let upload = Mutex::new(&mut upload);
    let attempt = || async { upload.lock().await.abort(&store, timeouts).await };
    // No caller is left that could get the error or retry.
    for attempts_before in 0..CLEAN_UP_ATTEMPTS {
        let attempted = store.attempt(&mut trace, || Purpose::Other, timeouts, attempt);
        match attempted.await {
            Err(failure) if matches!(failure.code, Code::Unavailable | Code::Throttled) => {
                tokio::time::sleep(CLEAN_UP_PAUSE * (1 << attempts_before)).await;
            }
            _ => return,
        }
    }
}

/// One object that is written in parts.
pub struct Writer {
    store: Arc<Store>,
    key: String,
    condition: Condition,
    state: Mutex<State>,
}

struct State {
    /// None: finished or abandoned.
    upload: Option<Upload>,
    size: u64,
}

impl Writer {
    pub fn open(
        store: Arc<Store>,
        key: String,
        condition: Condition,
        metadata: &UserMetadata,
    ) -> Result<Self, Failure> {
        store.check_change(&key)?;
        store.check_condition(&condition)?;
        if key.ends_with('/') {
            let message = "a directory holds no bytes";
            return Err(Failure::new(Code::InvalidArgument, message));
        }
        let upload = Some(store.open_upload(&key, &condition, metadata)?);
        Ok(Self {
            store,
            key,
            condition,
            state: Mutex::new(State { upload, size: 0 }),
        })
    }

    pub async fn append(
        &self,
        part: Buffer,
        timeouts: Timeouts,
        trace: &mut Trace,
    ) -> Result<(), Failure> {
        let attempt = || async {
            let mut state = self.state.lock().await;
            let size = part.len() as u64;
            let upload = state.upload.as_mut().ok_or_else(ended)?;
            upload.append(&self.store, part.clone(), timeouts).await?;
            state.size += size;
            Ok(())
        };
        let attempted = self.store.attempt_once_only(trace, timeouts, attempt);
        attempted
            .await
            .map_err(|failure| self.condition.explain(failure))
    }

    pub async fn copy(
        &self,
        from: CopiedRange,
        timeouts: Timeouts,
        trace: &mut Trace,
    ) -> Result<(), Failure> {
        self.store.check_change(&from.key)?;
        let attempt = || async {
            let mut state = self.state.lock().await;
            let upload = state.upload.as_mut().ok_or_else(ended)?;
            upload.copy(&self.store, &from).await?;
            state.size += from.end - from.start;
            Ok(())
        };
        self.store.attempt_once_only(trace, timeouts, attempt).await
    }

    pub async fn complete(&self, timeouts: Timeouts, trace: &mut Trace) -> Result<Entry, Failure> {
        let attempt = || async {
            let mut state = self.state.lock().await;
            let size = state.size;
            let upload = state.upload.as_mut().ok_or_else(ended)?;
            let entry = upload
                .complete(&self.store, &self.key, &self.condition, size, timeouts)
                .await?;
            state.upload = None;
            Ok(entry)
        };
        self.store.attempt_once_only(trace, timeouts, attempt).await
    }

    pub async fn abort(&self, timeouts: Timeouts, trace: &mut Trace) -> Result<(), Failure> {
        let attempt = || async {
            let mut state = self.state.lock().await;
            let upload = state.upload.as_mut().ok_or_else(ended)?;
            upload.abort(&self.store, timeouts).await?;
            state.upload = None;
            Ok(())
        };
        self.store
            .attempt(trace, || Purpose::Other, timeouts, attempt)
            .await
    }

    /// Abandons an unfinished object in the background.
    pub async fn close(self: Arc<Self>) {
        let upload = self.state.lock().await.upload.take();
        if let Some(upload) = upload {
            clean_up(self.store.clone(), upload).await;
        }
    }
}

fn ended() -> Failure {
    Failure::new(
        Code::InvalidArgument,
        "the object is finished or abandoned already",
    )
}
