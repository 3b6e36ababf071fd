// SPDX-License-Identifier: Apache-2.0
//! Store: one opened store. It adds what OpenDAL does not promise: exact lengths, keys that cannot
//! be addressed, limits of silence.
use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use opendal::options::ReaderOptions;
use opendal::{Executor, OperationContext, Operator};

use crate::attempt::exchange::{Answer, EXCHANGE, Exchange, Purpose, Read};
use crate::attempt::explain::{Code, Failure};
use crate::attempt::transport::{http_transport, is_stock_only, read_straight};
use crate::auth::sign::Signer;
use crate::backends::build;
use crate::backends::huggingface::hub::Hub;
use crate::backends::namespace::Folders;
use crate::backends::web::server::Web;
use crate::core::entry::{Dialect, Entry, IDENTITY, VersionKind, check_addressable, check_kind};
use crate::core::swap_cell::Live;
use crate::core::target::Target;
use crate::net::get::{Got, Terms};
use crate::store::body_stream::take_stream;
use crate::store::list::{Listings, Page, Style};
use crate::store::reload::Reload;
use crate::store::template::Template;
use crate::store::write::{InExchange, Writes};

/// How long OpenDAL's signer caches the result of `SharedCredentials`.
const SERVICE_KEEPS_CREDENTIAL: Duration = Duration::from_secs(1);

pub struct Store {
    pub operator: Live<Operator>,
    /// For reads; leaves signing to `signer` where there is one.
    reader: Live<Operator>,
    signer: Live<Option<Arc<Signer>>>,
    template: Live<Option<Arc<Template>>>,
    reload: Reload,
    /// The transport fills the targets of reads.
    pub over_http: bool,
    pub dialect: Dialect,
    pub writes: Writes,
    real_directories: bool,
    /// Reads beyond the end fail with an unspecific error.
    has_sizes_only: bool,
    listings: Listings,
    /// For stores that OpenDAL only reads, or does not support.
    folders: Option<Arc<Folders>>,
}

/// A service, opened.
pub struct Built {
    pub operator: Operator,
    pub reader: Operator,
    pub signer: Option<Arc<Signer>>,
    /// `reader` sends the same request for all objects, without authentication.
    pub reads_alike: bool,
    pub over_http: bool,
    pub style: Style,
    pub dialect: Dialect,
    pub hub: Option<Hub>,
    pub writes: Writes,
}

impl Built {
    /// A store that signs by itself, or needs no signature.
    pub fn alone(operator: Operator, style: Style, version: VersionKind) -> Self {
        Self {
            reader: operator.clone(),
            operator,
            signer: None,
            reads_alike: false,
            over_http: true,
            style,
            hub: None,
            dialect: Dialect {
                version,
                exact_times: false,
                turns_backslash: false,
                accepts: IDENTITY,
                whole_max: 0,
            },
            writes: Writes::Whole,
        }
    }
}

/// The requested part of an object.
pub struct Part {
    pub key: String,
    pub offset: u64,
    /// Size of the whole object, as the caller knows it. 0: unknown.
    pub object_size: u64,
    /// The demanded version; empty: any.
    pub version: String,
}

/// Details of a request, besides its result.
#[derive(Default)]
pub struct Trace {
    /// Requests sent: more than one if a credential was renewed.
    pub requests: u32,
    /// Latency of the last attempt; None if no response arrived.
    pub first_byte: Option<Duration>,
    pub retry_after: Option<Duration>,
    pub answer: Answer,
}

/// An attempt that the store rejected.
struct Refused {
    exchange: Arc<Exchange>,
    openings: u64,
}

impl Store {
    pub fn open(options: &HashMap<String, String>) -> Result<Self, String> {
        let built = build::build(options)?;
        let named = |name: &str| options.get(name).map(String::as_str).unwrap_or_default();
        let number = |name: &str, default: u64| match options.get(name) {
            None => Ok(default),
            Some(value) => value
                .parse()
                .map_err(|_| format!("{name}={value} is not a number")),
        };
        let template = template_of(&built);
        let operator = Live::new(carried(built.operator));
        let page_entries = number("page_entries", 1000)? as usize;
        let folders = match (built.hub, built.style) {
            (Some(hub), _) => Some(Folders::Hub(hub)),
            (None, Style::Index) => Some(Folders::Web(Web::new(named("endpoint"), built.dialect))),
            _ => None,
        }
        .map(Arc::new);
        let style = built.style;
        Ok(Self {
            listings: Listings::new(
                operator.clone(),
                style,
                built.dialect,
                page_entries,
                folders.clone(),
            ),
            folders,
            operator,
            reader: Live::new(carried(built.reader)),
            template: Live::new(template),
            signer: Live::new(built.signer),
            reload: Reload::new(options),
            over_http: built.over_http,
            dialect: built.dialect,
            writes: built.writes,
            has_sizes_only: style == Style::Levels,
            real_directories: matches!(style, Style::Levels | Style::Index),
        })
    }

    /// The kind of version that reads can demand.
    pub fn conditional_read(&self) -> VersionKind {
        let capability = self.operator.now().info().capability();
        match self.dialect.version {
            VersionKind::Etag if capability.read_with_if_match => VersionKind::Etag,
            VersionKind::Generation if capability.read_with_if_version_match => {
                VersionKind::Generation
            }
            _ => VersionKind::None,
        }
    }

    pub fn version_kind(&self) -> VersionKind {
        self.dialect.version
    }

    pub fn has_real_directories(&self) -> bool {
        self.real_directories
    }

    pub async fn stat(
        &self,
        key: String,
        terms: Terms,
        trace: &mut Trace,
    ) -> Result<Entry, Failure> {
        if key.is_empty() {
            return Ok(Entry::directory(key));
        }
        check_addressable(&key, self.dialect)?;
        if let Some(folders) = &self.folders {
            return self
                .attempt(trace, || Purpose::Other, terms, || folders.stat(&key))
                .await;
        }
        let metadata = self
            .attempt(
                trace,
                || Purpose::Other,
                terms,
                || async { within(terms.first_byte, self.operator.now().stat(&key)).await },
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
        terms: Terms,
        trace: &mut Trace,
    ) -> Result<Page, Failure> {
        if !prefix.is_empty() {
            check_addressable(&prefix, self.dialect)?;
        }
        let purpose = || match self.real_directories {
            true => Purpose::Other,
            false => Purpose::Page,
        };
        self.attempt(trace, purpose, terms, || {
            self.listings.page(&prefix, recursive, &token, terms)
        })
        .await
    }

    pub async fn read(
        &self,
        part: Part,
        target: Target,
        terms: Terms,
        trace: &mut Trace,
    ) -> Result<(), Failure> {
        let Part {
            key,
            offset,
            object_size,
            version,
        } = part;
        check_addressable(&key, self.dialect)?;
        let size = target.size() as u64;
        if size == 0 || offset.checked_add(size).is_none() {
            let message = format!("there is no range of {size} bytes at {offset}");
            return Err(Failure::new(Code::InvalidArgument, message));
        }
        let target = Arc::new(target);
        let version = (!version.is_empty()).then_some(version);
        let hub = self.folders.as_deref().and_then(Folders::hub);
        // A hub's storage hosts have versions of their own.
        let told = version.clone().filter(|_| hub.is_none());
        let purpose = || {
            Purpose::Read(Read {
                target: target.clone(),
                signer: self.signer.now(),
                version: told.clone().map(|text| (self.dialect.version, text)),
                object_size,
                whole_max: self.dialect.whole_max,
            })
        };
        let done = self
            .attempt(trace, purpose, terms, || async {
                match hub {
                    Some(hub) => {
                        Box::pin(hub.read(&key, offset, &target, version.as_deref())).await
                    }
                    None => match self.read_straight(&key, offset).await {
                        Some(done) => done,
                        None => {
                            let version = version.clone();
                            // Rare, and large.
                            Box::pin(self.read_once(&key, offset, &target, version, terms)).await
                        }
                    },
                }
            })
            .await;
        match done {
            Err(failure) if self.has_sizes_only => {
                let end = offset + target.size() as u64;
                Err(Box::pin(self.explain_end(&key, end, failure, terms)).await)
            }
            done => done,
        }
    }

    /// Missing bytes have no status of their own; the size explains them.
    async fn explain_end(&self, key: &str, end: u64, failure: Failure, terms: Terms) -> Failure {
        if matches!(failure.code, Code::NotFound | Code::Throttled) {
            return failure;
        }
        match tokio::time::timeout(terms.first_byte, self.operator.now().stat(key)).await {
            Ok(Ok(now)) if now.is_file() && now.content_length() < end => Failure::new(
                Code::OutOfRange,
                format!("the object has only {} bytes", now.content_length()),
            ),
            _ => failure,
        }
    }

    /// Reads without the service, if there is a template. Returns None if the service is needed,
    /// which then explains an error response.
    async fn read_straight(&self, key: &str, offset: u64) -> Option<Result<(), Failure>> {
        let template = self.template.now()?;
        let exchange = EXCHANGE.get();
        let Purpose::Read(read) = &exchange.purpose else {
            return None;
        };
        let version = read.version.as_ref().map(|(_, version)| version.as_str());
        let parts = template.request(key, offset, read.target.size() as u64, version)?;
        match read_straight(&exchange, read, parts, &template.way).await {
            Ok(Got::Bytes) => Some(Ok(())),
            Ok(Got::Elsewhere) => None,
            Ok(Got::Refusal(refusal)) => {
                exchange.hold_refusal(refusal);
                None
            }
            Err(error) => Some(Err(Failure::seen(&error))),
        }
    }

    async fn read_once(
        &self,
        key: &str,
        offset: u64,
        target: &Target,
        version: Option<String>,
        terms: Terms,
    ) -> Result<(), Failure> {
        let mut options = ReaderOptions {
            concurrent: 1,
            ..Default::default()
        };
        match self.dialect.version {
            VersionKind::Generation => options.if_version_match = version,
            _ => options.if_match = version,
        }
        let failed = |error| Failure::seen(&error);
        let reader = self
            .reader
            .now()
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
        take_stream(&mut stream, target, terms).await
    }

    /// Makes one attempt, and a second at once if the store rejected a credential that has changed
    /// since. All other retries are the caller's.
    pub async fn attempt<T, F: Future<Output = Result<T, Failure>>>(
        &self,
        trace: &mut Trace,
        purpose: impl Fn() -> Purpose,
        terms: Terms,
        mut work: impl FnMut() -> F,
    ) -> Result<T, Failure> {
        let mut renewed = false;
        loop {
            let (result, renewal) = self.attempt_once(trace, &purpose, terms, &mut work).await;
            match renewal {
                Some(renewal) if !renewed && Box::pin(self.renew(&renewal)).await => renewed = true,
                _ => return result,
            }
        }
    }

    /// Makes one attempt of an operation that cannot be repeated: it started with the rejected
    /// credential. Later operations find a new one.
    pub async fn attempt_as_begun<T, F: Future<Output = Result<T, Failure>>>(
        &self,
        trace: &mut Trace,
        terms: Terms,
        mut work: impl FnMut() -> F,
    ) -> Result<T, Failure> {
        let purpose = || Purpose::Other;
        let (result, renewal) = self.attempt_once(trace, purpose, terms, &mut work).await;
        if let Some(renewal) = renewal {
            Box::pin(self.renew(&renewal)).await;
        }
        result
    }

    /// The second value: a rejection that a new credential may fix.
    async fn attempt_once<T, F: Future<Output = Result<T, Failure>>>(
        &self,
        trace: &mut Trace,
        purpose: impl Fn() -> Purpose,
        terms: Terms,
        work: &mut impl FnMut() -> F,
    ) -> (Result<T, Failure>, Option<Refused>) {
        if self.reload.is_due()
            && let Some(built) = Box::pin(self.reload.if_changed()).await
        {
            self.reopen(built);
        }
        let openings = self.reload.openings();
        trace.requests += 1;
        let exchange = Exchange::accepting(self.dialect.accepts, purpose(), terms);
        let result = EXCHANGE.scope(exchange.clone(), work()).await;
        trace.first_byte = exchange.first_byte();
        trace.retry_after = exchange.retry_after();
        trace.answer = exchange.answer();
        let refused = matches!(&result, Err(failure) if failure.code == Code::PermissionDenied);
        (result, refused.then_some(Refused { exchange, openings }))
    }

    /// Whether a retry may succeed now.
    async fn renew(&self, refused: &Refused) -> bool {
        self.renew_credential(&refused.exchange).await || self.renew_store(refused.openings).await
    }

    /// Whether there is another credential than the rejected one.
    async fn renew_credential(&self, exchange: &Exchange) -> bool {
        match (self.signer.now(), exchange.credential()) {
            (Some(signer), Some(used)) => signer.renew(&used).await,
            // The service signed with a credential that is up to a second old.
            (Some(signer), None) => {
                let renewed = signer.renew_known().await;
                if renewed {
                    tokio::time::sleep(SERVICE_KEEPS_CREDENTIAL).await;
                }
                renewed
            }
            _ => false,
        }
    }

    /// Whether the store was reopened since it had `openings`.
    async fn renew_store(&self, openings: u64) -> bool {
        if self.reload.openings() == openings {
            match self.reload.after_refusal().await {
                Some(built) => self.reopen(built),
                None => return false,
            }
        }
        true
    }

    fn reopen(&self, built: Built) {
        self.template.replace(template_of(&built));
        self.operator.replace(carried(built.operator));
        self.reader.replace(carried(built.reader));
        self.signer.replace(built.signer);
        self.reload.opened();
    }
}

fn template_of(built: &Built) -> Option<Arc<Template>> {
    let straight = built.reads_alike && !is_stock_only();
    straight
        .then(|| Template::of(&built.reader))
        .flatten()
        .map(Arc::new)
}

/// Returns the operator with our transport.
fn carried(operator: Operator) -> Operator {
    let context = OperationContext::new()
        .with_http_transport(http_transport())
        .with_executor(Executor::with(InExchange));
    operator.with_context(context)
}

pub async fn within<T>(
    limit: Duration,
    work: impl Future<Output = opendal::Result<T>>,
) -> Result<T, Failure> {
    bounded(limit, async {
        work.await.map_err(|error| Failure::seen(&error))
    })
    .await
}

pub async fn bounded<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    tokio::time::timeout(limit, work)
        .await
        .unwrap_or_else(|_| Err(Failure::silence(limit)))
}
