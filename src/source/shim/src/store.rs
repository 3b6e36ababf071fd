// SPDX-License-Identifier: Apache-2.0
//! Store: one opened under-store. Everything that OpenDAL does not promise is done here: exact
//! lengths, pages that one can go on from, names that cannot be addressed, timeouts and retries.
use std::collections::HashMap;
use std::future::Future;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use futures::StreamExt;
use opendal::options::{ListOptions, ReaderOptions};
use opendal::{Builder, Metadata, OperationContext, Operator, services};

use crate::failure::{Code, Failure};
use crate::get::Terms;
use crate::s3;
use crate::sign::Signer;
use crate::target::Target;
use crate::transport::{EXCHANGE, Exchange, Purpose, http_transport};

const PUT_TIMEOUT: Duration = Duration::from_secs(60);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(5);

pub struct Store {
    operator: Operator,
    /// For reads; leaves signing to `signer` where there is one.
    reader: Operator,
    signer: Option<Arc<Signer>>,
    /// The transport fills the targets of reads.
    over_http: bool,
    retry_max: u32,
    retry_delay: Duration,
    page_entries: usize,
}

pub struct Entry {
    pub key: String,
    pub size: u64,
    pub etag: String,
    pub mtime_ns: Option<i64>,
    pub is_directory: bool,
}

#[derive(Default)]
pub struct Page {
    pub entries: Vec<Entry>,
    pub next_token: String,
    pub left_out: usize,
    pub left_out_example: String,
}

/// A service, opened.
pub struct Built {
    pub operator: Operator,
    pub reader: Operator,
    pub signer: Option<Arc<Signer>>,
}

impl Built {
    /// One that signs for itself, or needs nothing signed.
    pub fn alone(builder: impl Builder) -> Result<Self, String> {
        let operator = Operator::new(builder).map_err(|error| error.message().to_string())?;
        Ok(Self {
            reader: operator.clone(),
            operator,
            signer: None,
        })
    }
}

/// What came of a request, besides its result.
#[derive(Default)]
pub struct Trace {
    pub attempts: u32,
    /// Of the last attempt; nothing when no answer came.
    pub first_byte: Option<Duration>,
    pub retry_after: Option<Duration>,
}

impl Store {
    pub fn open(options: &HashMap<String, String>) -> Result<Self, String> {
        let text = |name: &str| options.get(name).map(String::as_str).unwrap_or_default();
        let built = match text("scheme") {
            "memory" => Built::alone(services::Memory::default())?,
            "s3" => s3::build(options)?,
            other => return Err(format!("scheme '{other}' is not built in")),
        };
        let context = OperationContext::new().with_http_transport(http_transport());
        let number = |name: &str, default: u64| match options.get(name) {
            None => Ok(default),
            Some(value) => value
                .parse()
                .map_err(|_| format!("{name}={value} is not a number")),
        };
        Ok(Self {
            operator: built.operator.with_context(context.clone()),
            reader: built.reader.with_context(context),
            signer: built.signer,
            over_http: text("scheme") != "memory",
            retry_max: number("retry_max", 3)? as u32,
            retry_delay: Duration::from_millis(number("retry_delay_ms", 100)?),
            page_entries: number("page_entries", 1000)? as usize,
        })
    }

    pub fn has_conditional_read(&self) -> bool {
        self.operator.info().capability().read_with_if_match
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
        check_addressable(&key)?;
        let exchange = || Exchange::new(Purpose::Other, terms);
        let metadata = self
            .try_often(trace, exchange, || async {
                within(terms.first_byte, self.operator.stat(&key)).await
            })
            .await?;
        Ok(Entry::new(key, &metadata))
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
            check_addressable(&prefix)?;
        }
        let exchange = || Exchange::new(Purpose::List, terms);
        self.try_often(trace, exchange, || {
            self.list_once(&prefix, recursive, &token, terms)
        })
        .await
    }

    async fn list_once(
        &self,
        prefix: &str,
        recursive: bool,
        token: &str,
        terms: Terms,
    ) -> Result<Page, Failure> {
        let paged = self.operator.info().capability().list_with_start_after;
        let options = ListOptions {
            limit: paged.then_some(self.page_entries),
            start_after: (paged && !token.is_empty()).then(|| token.to_string()),
            recursive,
            ..Default::default()
        };
        let path = if prefix.is_empty() { "/" } else { prefix };
        let lister = self.operator.lister_options(path, options);
        let mut lister = within(terms.first_byte, lister).await?;
        let exchange = EXCHANGE.get();
        let mut found = Vec::new();
        let more = loop {
            let next = match tokio::time::timeout(terms.first_byte, lister.next()).await {
                Ok(next) => next,
                Err(_) => return Err(timed_out(terms.first_byte)),
            };
            match next {
                None => break false,
                Some(Ok(entry)) => found.push(entry),
                Some(Err(_)) if exchange.page_is_over() => break true,
                Some(Err(error)) => return Err(Failure::from_opendal(&error, &exchange.answer())),
            }
            exchange.complete_page();
        };
        let altered = exchange.take_altered_names();
        let found = found.into_iter().map(|entry| entry.into_parts()).collect();
        let mut page = build_page(found, altered, prefix, token, more)?;
        if !paged {
            cut_page(&mut page, self.page_entries);
        }
        Ok(page)
    }

    pub async fn read(
        &self,
        key: String,
        offset: u64,
        target: Target,
        if_match: String,
        terms: Terms,
        trace: &mut Trace,
    ) -> Result<(), Failure> {
        check_addressable(&key)?;
        let target = Arc::new(target);
        let if_match = (!if_match.is_empty()).then_some(if_match);
        let exchange = || {
            let purpose = Purpose::Read {
                target: target.clone(),
                signer: self.signer.clone(),
            };
            Exchange::new(purpose, terms)
        };
        self.try_often(trace, exchange, || async {
            self.read_once(&key, offset, &target, if_match.clone(), terms)
                .await
        })
        .await
    }

    async fn read_once(
        &self,
        key: &str,
        offset: u64,
        target: &Target,
        if_match: Option<String>,
        terms: Terms,
    ) -> Result<(), Failure> {
        let options = ReaderOptions {
            if_match,
            concurrent: 1,
            ..Default::default()
        };
        let failed = |error| Failure::from_opendal(&error, &EXCHANGE.get().answer());
        let reader = self
            .reader
            .reader_options(key, options)
            .await
            .map_err(failed)?;
        // One GET, no stat; dropped at once when the request is cancelled.
        let range = offset..offset + target.size() as u64;
        let mut stream = reader.into_stream(range).await.map_err(failed)?;
        if self.over_http {
            // Ends with an error, by which the target is filled or not.
            return match stream.next().await {
                Some(Err(_)) if EXCHANGE.get().is_delivered() => Ok(()),
                Some(Err(error)) => Err(failed(error)),
                _ => Err(Failure::new(Code::Internal, "the read was not sent")),
            };
        }
        let mut filled = 0;
        let mut patience = terms.first_byte;
        while let Some(piece) = tokio::time::timeout(patience, stream.next())
            .await
            .map_err(|_| timed_out(patience))?
        {
            for bytes in piece.map_err(failed)? {
                if !target.write(filled, &bytes) {
                    let message =
                        format!("the body is longer than the {} bytes asked", target.size());
                    return Err(Failure::new(Code::Unavailable, message));
                }
                filled += bytes.len();
            }
            patience = terms.silence;
        }
        if filled < target.size() {
            let message = format!("the body ended after {filled} of {} bytes", target.size());
            return Err(Failure::new(Code::Unavailable, message));
        }
        Ok(())
    }

    pub async fn put(&self, key: String, content: Vec<u8>) -> Result<(), Failure> {
        check_addressable(&key)?;
        let terms = Terms {
            first_byte: PUT_TIMEOUT,
            silence: PUT_TIMEOUT,
        };
        let exchange = Exchange::new(Purpose::Other, terms);
        let written = EXCHANGE
            .scope(exchange.clone(), self.operator.write(&key, content))
            .await;
        written
            .map(|_| ())
            .map_err(|error| Failure::from_opendal(&error, &exchange.answer()))
    }

    /// Attempts, each with an exchange of its own, until one succeeds, fails for good, or enough
    /// have been made. Delays double and vary between half and one and a half, so that readers that
    /// were turned away together do not come back together. A refused credential that has changed
    /// since gets one more attempt.
    async fn try_often<T, F: Future<Output = Result<T, Failure>>>(
        &self,
        trace: &mut Trace,
        exchange: impl Fn() -> Arc<Exchange>,
        mut attempt: impl FnMut() -> F,
    ) -> Result<T, Failure> {
        let mut delay = self.retry_delay;
        let mut renewed = false;
        loop {
            trace.attempts += 1;
            let exchange = exchange();
            let result = EXCHANGE.scope(exchange.clone(), attempt()).await;
            trace.first_byte = exchange.first_byte();
            trace.retry_after = exchange.retry_after();
            match result {
                Err(failure) if failure.temporary && trace.attempts <= self.retry_max => {
                    tokio::time::sleep(delay.mul_f64(0.5 + random_unit())).await;
                    delay = (delay * 2).min(RETRY_DELAY_MAX);
                }
                Err(failure)
                    if failure.code == Code::PermissionDenied
                        && !renewed
                        && self.renew_credential(&exchange).await =>
                {
                    renewed = true;
                }
                Err(mut failure) if trace.attempts > 1 => {
                    failure
                        .message
                        .push_str(&format!(" ({} attempts)", trace.attempts));
                    return Err(failure);
                }
                done => return done,
            }
        }
    }

    /// Whether there is another credential than the one that was refused.
    async fn renew_credential(&self, exchange: &Exchange) -> bool {
        match (&self.signer, exchange.credential()) {
            (Some(signer), Some(used)) => signer.renew(&used).await,
            _ => false,
        }
    }
}

async fn within<T>(
    limit: Duration,
    work: impl Future<Output = opendal::Result<T>>,
) -> Result<T, Failure> {
    match tokio::time::timeout(limit, work).await {
        Err(_) => Err(timed_out(limit)),
        Ok(done) => done.map_err(|error| Failure::from_opendal(&error, &EXCHANGE.get().answer())),
    }
}

fn timed_out(limit: Duration) -> Failure {
    let message = format!("no bytes from the store for {} ms", limit.as_millis());
    Failure::new(Code::Unavailable, message)
}

impl Entry {
    fn directory(key: String) -> Self {
        Self {
            key,
            size: 0,
            etag: String::new(),
            mtime_ns: None,
            is_directory: true,
        }
    }

    fn new(key: String, metadata: &Metadata) -> Self {
        if metadata.is_dir() {
            return Self::directory(key);
        }
        let mtime = metadata.last_modified().and_then(|time| {
            // Whole seconds: a HEAD has no finer ones, and the two must not differ.
            std::time::SystemTime::from(time)
                .duration_since(UNIX_EPOCH)
                .ok()
        });
        Self {
            key,
            size: metadata.content_length(),
            etag: usable_etag(metadata.etag().unwrap_or_default()),
            mtime_ns: mtime.map(|since| since.as_secs() as i64 * 1_000_000_000),
            is_directory: false,
        }
    }
}

/// As If-Match takes it. Some servers list it without its quotes, and say `""` for objects that
/// have none.
fn usable_etag(etag: &str) -> String {
    match etag.trim_matches('"') {
        "" => String::new(),
        _ if etag.ends_with('"') => etag.to_string(),
        bare => format!("\"{bare}\""),
    }
}

/// OpenDAL trims white space at the ends and drops empty components, and URLs cannot hold "." and
/// ".."; such a key would silently become another one.
fn is_addressable(key: &str) -> bool {
    let body = key.strip_suffix('/').unwrap_or(key);
    key.trim() == key && body.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

fn check_addressable(key: &str) -> Result<(), Failure> {
    if is_addressable(key) {
        return Ok(());
    }
    Err(Failure::new(
        Code::Unsupported,
        "the key cannot be addressed: it begins or ends with white space, or has an empty, '.' or \
         '..' component",
    ))
}

/// `more`: the store has another page. `altered` is parallel to `found`, or says nothing.
fn build_page(
    found: Vec<(String, Metadata)>,
    altered: Vec<bool>,
    prefix: &str,
    token: &str,
    more: bool,
) -> Result<Page, Failure> {
    let mut page = Page::default();
    let know_altered = altered.len() == found.len();
    let mut last = String::new();
    for (index, (key, metadata)) in found.into_iter().enumerate() {
        if key > last {
            last = key.clone();
        }
        let is_altered = know_altered && altered[index];
        let is_prefix_itself = key == prefix || (prefix.is_empty() && key == "/");
        if is_prefix_itself && !is_altered || (!token.is_empty() && *key <= *token) {
            continue;
        }
        if is_altered || !is_addressable(&key) {
            if page.left_out == 0 {
                page.left_out_example = key;
            }
            page.left_out += 1;
            continue;
        }
        page.entries.push(Entry::new(key, &metadata));
    }
    page.entries.sort_by(|a, b| a.key.cmp(&b.key));
    page.entries.dedup_by(|a, b| a.key == b.key);
    if more {
        if last.as_str() <= token {
            let message = format!("the listing does not go on after '{token}'");
            return Err(Failure::new(Code::Internal, message));
        }
        page.next_token = last;
    }
    Ok(page)
}

/// For stores that give everything at once.
fn cut_page(page: &mut Page, limit: usize) {
    if page.entries.len() > limit {
        page.entries.truncate(limit);
        page.next_token = page.entries[limit - 1].key.clone();
    }
}

/// In [0, 1). The standard library's hash keys are random and differ for each call.
fn random_unit() -> f64 {
    RandomState::new().build_hasher().finish() as f64 / u64::MAX as f64
}
