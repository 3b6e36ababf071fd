// SPDX-License-Identifier: Apache-2.0
//! Stat, list and read of a store. Adds two promises to OpenDAL's: exact lengths, and errors for
//! keys that cannot be addressed.
use std::sync::Arc;

use futures::StreamExt;
use opendal::options::ReaderOptions;

use crate::attempt::exchange::{EXCHANGE, Purpose, Read};
use crate::attempt::explain::explain;
use crate::attempt::response_check::UNVERIFIED;
use crate::attempt::sign_read::SignRead;
use crate::attempt::time_limit::within;
use crate::attempt::trace::Trace;
use crate::attempt::transport::read_directly;
use crate::backends::namespace::Namespace;
use crate::core::entry::{Entry, check_addressable, check_kind};
use crate::core::failure::{Code, Failure};
use crate::core::kinds::VersionKind;
use crate::core::page::Page;
use crate::core::target::Target;
use crate::core::timeouts::Timeouts;
use crate::net::get::{Fetched, Getter};
use crate::store::body_stream::take_stream;
use crate::store::open::Store;

/// The requested part of an object.
pub struct Part {
    pub key: String,
    pub offset: u64,
    /// Size of the whole object, as the caller knows it. 0: unknown.
    pub object_size: u64,
    /// The demanded version; empty: any.
    pub version: String,
    /// The time of the last change that the response must show, in seconds since 1970.
    pub mtime_s: Option<i64>,
}

impl Store {
    pub async fn stat(
        &self,
        key: String,
        timeouts: Timeouts,
        trace: &mut Trace,
    ) -> Result<Entry, Failure> {
        if key.is_empty() {
            return Ok(Entry::directory(key));
        }
        check_addressable(&key, self.dialect)?;
        self.connect_ahead();
        if let Some(namespace) = &self.namespace {
            return self
                .attempt(trace, || Purpose::Other, timeouts, || namespace.stat(&key))
                .await;
        }
        let metadata = self
            .attempt(
                trace,
                || Purpose::Other,
                timeouts,
                || async { within(timeouts.first_byte, self.operator.load().stat(&key)).await },
            )
            .await?;
        check_kind(&key, metadata.is_dir())?;
        Ok(Entry::new(key, &metadata, self.dialect))
    }

    pub async fn list(
        &self,
        prefix: String,
        recursive: bool,
        token: String,
        timeouts: Timeouts,
        trace: &mut Trace,
    ) -> Result<Page, Failure> {
        if !prefix.is_empty() {
            check_addressable(&prefix, self.dialect)?;
        }
        self.connect_ahead();
        let purpose = || match self.real_directories {
            true => Purpose::Other,
            false => Purpose::Page,
        };
        self.attempt(trace, purpose, timeouts, || {
            self.listings.page(&prefix, recursive, &token, timeouts)
        })
        .await
    }

    pub async fn read(
        &self,
        part: Part,
        target: Target,
        timeouts: Timeouts,
        trace: &mut Trace,
    ) -> Result<(), Failure> {
        let Part {
            key,
            offset,
            object_size,
            version,
            mtime_s,
        } = part;
        check_addressable(&key, self.dialect)?;
        let size = target.size() as u64;
        if size == 0 || offset.checked_add(size).is_none() {
            let message = format!("there is no range of {size} bytes at {offset}");
            return Err(Failure::new(Code::InvalidArgument, message));
        }
        let target = Arc::new(target);
        let version = (!version.is_empty()).then_some(version);
        let namespace = self.namespace.as_deref();
        let object_reader = namespace.and_then(Namespace::object_reader);
        // Such a reader checks versions by itself: storage hosts of a hub have others.
        let demanded = version.clone().filter(|_| object_reader.is_none());
        // Only responses over HTTP have headers that show them.
        if mtime_s.is_some() && (!self.over_http || object_reader.is_some()) {
            return Err(Failure::new(Code::Unverified, UNVERIFIED));
        }
        let purpose = || {
            Purpose::Read(Read {
                target: target.clone(),
                signer: self.signer.load().map(|signer| signer as Arc<dyn SignRead>),
                version: demanded.clone().map(|text| (self.dialect.version, text)),
                object_size,
                mtime_s,
                has_etags: self.dialect.version == VersionKind::Etag,
                whole_max: self.dialect.whole_max,
            })
        };
        let done = self
            .attempt(trace, purpose, timeouts, || async {
                match object_reader {
                    Some(reader) => reader.read(&key, offset, &target, version.as_deref()).await,
                    None => match self.read_directly(&key, offset).await {
                        Some(done) => done,
                        None => {
                            let version = version.clone();
                            // Rare, and large.
                            Box::pin(self.read_once(&key, offset, &target, version, timeouts)).await
                        }
                    },
                }
            })
            .await;
        match done {
            Err(failure) if self.has_sizes_only => {
                let end = offset + target.size() as u64;
                Err(Box::pin(self.explain_end(&key, end, failure, timeouts)).await)
            }
            done => done,
        }
    }

    /// Missing bytes have no status of their own; the size explains them.
    async fn explain_end(
        &self,
        key: &str,
        end: u64,
        failure: Failure,
        timeouts: Timeouts,
    ) -> Failure {
        if matches!(failure.code, Code::NotFound | Code::Throttled) {
            return failure;
        }
        match tokio::time::timeout(timeouts.first_byte, self.operator.load().stat(key)).await {
            Ok(Ok(now)) if now.is_file() && now.content_length() < end => Failure::new(
                Code::OutOfRange,
                format!("the object has only {} bytes", now.content_length()),
            ),
            _ => failure,
        }
    }

    /// Names are requested before bytes. Only a template shows where the bytes are.
    fn connect_ahead(&self) {
        if let Some(template) = self.template.load() {
            Getter::shared().warm(&template.route);
        }
    }

    /// Reads without the service, if there is a template. Returns None if the service is needed,
    /// which then explains an error response.
    async fn read_directly(&self, key: &str, offset: u64) -> Option<Result<(), Failure>> {
        let template = self.template.load()?;
        let exchange = EXCHANGE.get();
        let Purpose::Read(read) = &exchange.purpose else {
            return None;
        };
        let version = read.version.as_ref().map(|(_, version)| version.as_str());
        let parts = template.request(key, offset, read.target.size() as u64, version)?;
        match read_directly(&exchange, read, parts, &template.route).await {
            Ok(Fetched::Filled) => Some(Ok(())),
            Ok(Fetched::Redirect) => None,
            Ok(Fetched::Response(error)) => {
                exchange.hold_error(error);
                None
            }
            Err(error) => Some(Err(explain(&error))),
        }
    }

    async fn read_once(
        &self,
        key: &str,
        offset: u64,
        target: &Target,
        version: Option<String>,
        timeouts: Timeouts,
    ) -> Result<(), Failure> {
        let mut options = ReaderOptions {
            concurrent: 1,
            ..Default::default()
        };
        match self.dialect.version {
            VersionKind::Generation => options.if_version_match = version,
            _ => options.if_match = version,
        }
        let failed = |error| explain(&error);
        let reader = self
            .reader
            .load()
            .reader_options(key, options)
            .await
            .map_err(failed)?;
        // One GET, no stat; dropped at once when the request is cancelled.
        let range = offset..offset + target.size() as u64;
        let mut stream = reader.into_stream(range).await.map_err(failed)?;
        if self.over_http {
            // Ends with an error, whether or not the target is filled.
            return match stream.next().await {
                Some(Err(_)) if EXCHANGE.get().is_delivered() => Ok(()),
                Some(Err(error)) => Err(failed(error)),
                _ => Err(Failure::new(Code::Internal, "the read was not sent")),
            };
        }
        take_stream(&mut stream, target, timeouts).await
    }
}
