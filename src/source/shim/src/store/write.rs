// SPDX-License-Identifier: Apache-2.0
//! Changes of a store. A written object appears as a whole or not at all, whatever the store does
//! by itself.
use std::sync::Arc;

use opendal::options::CopyOptions;
use opendal::raw::BoxedStaticFuture;
use opendal::{Buffer, Execute, Metadata};
use tokio::sync::Mutex;

use crate::attempt::exchange::{EXCHANGE, Purpose};
use crate::attempt::explain::{Code, Failure};
use crate::backends::hdfs::client::Hdfs;
use crate::core::entry::{Entry, VersionKind, check_addressable};
use crate::net::get::Terms;
use crate::store::open::{Store, Trace, bounded, within};
use crate::store::upload::clean_up;

/// Maximum parts of an object, if the store's kind has a limit.
const PARTS_MAX: u32 = 10_000;

/// A body of this size is sent before a server has decided.
const SMALL_BODY: u64 = 64 * 1024;

/// How a store accepts writes.
pub enum Writes {
    Never,
    /// An object appears with its last byte.
    Whole,
    /// A growing file is visible, so it is renamed to its key when it is complete.
    Renamed,
    /// The same, by HDFS's own client.
    Hdfs(Arc<Hdfs>),
}

/// The condition of a write.
#[derive(Clone)]
pub enum Condition {
    None,
    Absent,
    Version(String),
}

/// The changes that a store supports.
#[derive(Default)]
pub struct Changes {
    pub writes: bool,
    pub if_absent: bool,
    pub if_version: bool,
    /// A part that failed may be sent again.
    pub repeats_parts: bool,
    pub copies: bool,
    pub renames: bool,
    /// Keys that one request removes.
    pub removes_max: usize,
    pub part_min: usize,
    pub parts_max: u32,
}

impl Store {
    pub fn changes(&self) -> Changes {
        let capability = self.operator.now().info().capability();
        let kind = self.dialect.version;
        match &self.writes {
            Writes::Never => Changes::default(),
            Writes::Whole => Changes {
                writes: true,
                if_absent: capability.write_with_if_not_exists,
                if_version: match kind {
                    VersionKind::Etag => capability.write_with_if_match,
                    VersionKind::Generation => capability.write_with_if_version_match,
                    VersionKind::None => false,
                },
                repeats_parts: true,
                copies: capability.copy,
                renames: false,
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
                if_absent: matches!(renamed, Writes::Hdfs(_)),
                renames: true,
                removes_max: 1,
                part_min: 1,
                parts_max: u32::MAX,
                ..Default::default()
            },
        }
    }

    /// Writes a whole object in one request, or a directory if the key ends in a slash.
    pub async fn write(
        self: &Arc<Self>,
        key: String,
        condition: Condition,
        content: Buffer,
        terms: Terms,
        trace: &mut Trace,
    ) -> Result<Entry, Failure> {
        self.check_change(&key)?;
        if key.ends_with('/') {
            if !matches!(condition, Condition::None) {
                return Err(unsupported("makes no directories on conditions"));
            }
            return self.write_directory(key, &content, terms, trace).await;
        }
        self.check_condition(&condition)?;
        let attempt = || async {
            let mut body = self.open_body(&key, &condition)?;
            let size = content.len() as u64;
            let done = async {
                body.append(self, content.clone(), terms).await?;
                body.finish(self, &key, &condition, size, terms).await
            };
            let done = done.await;
            if done.is_err() && body.staged.is_some() {
                // Continues if the caller gives up.
                let cleaning = tokio::spawn(clean_up(self.clone(), body));
                let _ = tokio::time::timeout(terms.first_byte, cleaning).await;
            }
            done
        };
        self.attempt(trace, || Purpose::Other, terms, attempt).await
    }

    async fn write_directory(
        &self,
        key: String,
        content: &Buffer,
        terms: Terms,
        trace: &mut Trace,
    ) -> Result<Entry, Failure> {
        if !content.is_empty() {
            let message = "a directory holds no bytes";
            return Err(Failure::new(Code::InvalidArgument, message));
        }
        let attempt = || async {
            match &self.writes {
                Writes::Hdfs(hdfs) => bounded(terms.first_byte, hdfs.create_directory(&key)).await,
                _ => within(terms.first_byte, self.operator.now().create_dir(&key)).await,
            }
        };
        self.attempt(trace, || Purpose::Other, terms, attempt)
            .await?;
        Ok(Entry::directory(key))
    }

    pub async fn copy(
        &self,
        from: String,
        to: String,
        if_absent: bool,
        terms: Terms,
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
                return self.written(&to, metadata, None, terms).await;
            }
            let options = CopyOptions {
                if_not_exists: if_absent,
                ..Default::default()
            };
            let copied = self.operator.now().copy_options(&from, &to, options).await;
            let copied = copied.map_err(|error| condition.explain(Failure::seen(&error)))?;
            self.written(&to, done.insert(copied), None, terms).await
        };
        self.attempt(trace, || Purpose::Other, terms, attempt).await
    }

    pub async fn rename(
        &self,
        from: String,
        to: String,
        terms: Terms,
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
                Writes::Hdfs(hdfs) => {
                    bounded(terms.first_byte, hdfs.rename(from, to, !is_directory)).await
                }
                Writes::Renamed => {
                    within(terms.first_byte, self.operator.now().rename(from, to)).await
                }
                _ => Err(unsupported("cannot rename objects")),
            }
        };
        self.attempt(trace, || Purpose::Other, terms, attempt).await
    }

    /// Removes all keys; a missing one is no failure. After a failure any of them may be removed.
    pub async fn remove(
        &self,
        keys: Vec<String>,
        terms: Terms,
        trace: &mut Trace,
    ) -> Result<(), Failure> {
        for key in &keys {
            self.check_change(key)?;
        }
        let attempt = || async {
            match &self.writes {
                Writes::Hdfs(hdfs) => {
                    for key in &keys {
                        bounded(terms.first_byte, hdfs.remove(key)).await?;
                    }
                    Ok(())
                }
                _ if self.changes().removes_max == 1 => {
                    for key in &keys {
                        within(terms.first_byte, self.operator.now().delete(key)).await?;
                    }
                    Ok(())
                }
                _ => {
                    let removed = async {
                        let mut deleter = self.operator.now().deleter().await?;
                        deleter.delete_iter(keys.clone()).await?;
                        deleter.close().await
                    };
                    within(terms.first_byte, removed).await
                }
            }
        };
        self.attempt(trace, || Purpose::Other, terms, attempt).await
    }

    pub fn check_change(&self, key: &str) -> Result<(), Failure> {
        if matches!(self.writes, Writes::Never) {
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
    pub async fn look_first(
        &self,
        key: &str,
        condition: &Condition,
        size: u64,
        terms: Terms,
    ) -> Result<(), Failure> {
        if size <= SMALL_BODY || !self.over_http {
            return Ok(());
        }
        let now = match within(terms.first_byte, self.operator.now().stat(key)).await {
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
    pub async fn written(
        &self,
        key: &str,
        metadata: &Metadata,
        size: Option<u64>,
        terms: Terms,
    ) -> Result<Entry, Failure> {
        let told = match self.dialect.version {
            VersionKind::None => None,
            VersionKind::Etag => metadata.etag(),
            VersionKind::Generation => metadata.version(),
        };
        if let (Some(size), Some(_)) = (size, told) {
            let entry = Entry::new(key.to_string(), metadata, self.dialect);
            return Ok(Entry { size, ..entry });
        }
        let asked = within(terms.first_byte, self.operator.now().stat(key)).await;
        let now = match asked {
            Ok(now) => now,
            Err(failure) => {
                let message = format!("it is written, but not told of: {}", failure.message);
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

impl Condition {
    /// Some stores report both conditions as failed preconditions, some as an existing object.
    pub fn explain(&self, failure: Failure) -> Failure {
        let code = match (self, failure.code) {
            (Condition::Absent, Code::Changed) => Code::Exists,
            (Condition::Version(_), Code::Exists | Code::NotFound) => Code::Changed,
            _ => return failure,
        };
        Failure { code, ..failure }
    }
}

pub fn unsupported(why: &str) -> Failure {
    Failure::new(Code::Unsupported, format!("this store {why}"))
}

/// Parts that are sent in the background belong to the exchange of the request that started them.
pub struct InExchange;

impl Execute for InExchange {
    fn execute(&self, work: BoxedStaticFuture<()>) {
        match EXCHANGE.try_with(Arc::clone) {
            Ok(exchange) => tokio::spawn(EXCHANGE.scope(exchange, work)),
            Err(_) => tokio::spawn(work),
        };
    }
}
