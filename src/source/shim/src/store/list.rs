// SPDX-License-Identifier: Apache-2.0
//! Listings: pages in the byte order of the keys, each of which can be requested at any time.
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use futures::StreamExt;
use opendal::options::ListOptions;
use opendal::{Lister, Metadata, Operator};

use crate::attempt::exchange::EXCHANGE;
use crate::attempt::explain::{explain, timed_out};
use crate::attempt::time_limit::{bounded, within};
use crate::backends::namespace::Namespace;
use crate::core::entry::{Entry, is_addressable};
use crate::core::failure::{Code, Failure};
use crate::core::kinds::{Dialect, ListStyle};
use crate::core::page::Page;
use crate::core::swap_cell::SwapCell;
use crate::core::timeouts::Timeouts;

/// Listings that a caller may continue. Unused ones are dropped, oldest first.
const PARKED_MAX: usize = 16;

/// A listing between two of its pages.
struct Parked {
    prefix: String,
    recursive: bool,
    token: String,
    lister: Lister,
}

pub struct Listings {
    operator: SwapCell<Operator>,
    style: ListStyle,
    dialect: Dialect,
    page_entries: usize,
    parked: Mutex<Vec<Parked>>,
    namespace: Option<Arc<dyn Namespace>>,
}

impl Listings {
    pub fn new(
        operator: SwapCell<Operator>,
        style: ListStyle,
        dialect: Dialect,
        page_entries: usize,
        namespace: Option<Arc<dyn Namespace>>,
    ) -> Self {
        Self {
            namespace,
            operator,
            style,
            dialect,
            page_entries,
            parked: Mutex::default(),
        }
    }

    pub async fn page(
        &self,
        prefix: &str,
        recursive: bool,
        token: &str,
        timeouts: Timeouts,
    ) -> Result<Page, Failure> {
        match self.style {
            ListStyle::StartAfter => self.page_after(prefix, recursive, token, timeouts).await,
            ListStyle::Continued => {
                self.page_continued(prefix, recursive, token, timeouts)
                    .await
            }
            ListStyle::Directories | ListStyle::Index if recursive => {
                self.walk(prefix, token, timeouts).await
            }
            ListStyle::Directories | ListStyle::Index => {
                let mut page = self.directory(prefix, timeouts).await?;
                page.entries.retain(|entry| *entry.key > *token);
                Ok(page)
            }
        }
    }

    async fn page_after(
        &self,
        prefix: &str,
        recursive: bool,
        token: &str,
        timeouts: Timeouts,
    ) -> Result<Page, Failure> {
        let options = ListOptions {
            limit: Some(self.page_entries),
            start_after: (!token.is_empty()).then(|| token.to_string()),
            recursive,
            ..Default::default()
        };
        let mut lister = self.open(prefix, options, timeouts).await?;
        let (found, more) = next_page(&mut lister, timeouts).await?;
        check_prefix(&found, prefix)?;
        let altered = EXCHANGE.get().take_altered_names();
        let (mut page, last) = self.build(found, altered, prefix, token);
        if more {
            if *last <= *token {
                let message = format!("the listing does not go on after '{token}'");
                return Err(Failure::new(Code::Internal, message));
            }
            page.next_token = last;
        }
        Ok(page)
    }

    async fn page_continued(
        &self,
        prefix: &str,
        recursive: bool,
        token: &str,
        timeouts: Timeouts,
    ) -> Result<Page, Failure> {
        let mut lister = match self.take(prefix, recursive, token) {
            Some(lister) => lister,
            None => {
                let options = ListOptions {
                    recursive,
                    ..Default::default()
                };
                self.open(prefix, options, timeouts).await?
            }
        };
        // Skips pages before the token if the parked listing was dropped.
        loop {
            let exchange = EXCHANGE.get();
            exchange.begin_page();
            let (found, more) = next_page(&mut lister, timeouts).await?;
            check_prefix(&found, prefix)?;
            let altered = exchange.take_altered_names();
            let (mut page, last) = self.build(found, altered, prefix, token);
            if !more {
                return Ok(page);
            }
            if *last > *token {
                page.next_token = last;
                self.park(prefix, recursive, &page.next_token, lister);
                return Ok(page);
            }
        }
    }

    /// Lists a directory, which has to exist.
    async fn directory(&self, prefix: &str, timeouts: Timeouts) -> Result<Page, Failure> {
        if let Some(namespace) = &self.namespace {
            return namespace.list_directory(prefix).await;
        }
        let mut lister = self.open(prefix, ListOptions::default(), timeouts).await?;
        let mut found = Vec::new();
        while let Some(next) = tokio::time::timeout(timeouts.idle, lister.next())
            .await
            .map_err(|_| timed_out(timeouts.idle))?
        {
            let entry = next.map_err(|error| explain(&error))?;
            if entry.path().starts_with(prefix) {
                found.push(entry.into_parts());
            }
        }
        let has_itself = found.iter().any(|(key, _)| is_same(key, prefix));
        let (page, _) = self.build(found, Vec::new(), prefix, "");
        if page.entries.is_empty() && !prefix.is_empty() && !(has_itself && page.skipped > 0) {
            let checking = self.check_directory(prefix);
            bounded(timeouts.first_byte, checking).await?;
        }
        Ok(page)
    }

    async fn check_directory(&self, prefix: &str) -> Result<(), Failure> {
        let path = prefix.trim_end_matches('/');
        let there = self.operator.load().stat(path).await;
        match there {
            Ok(metadata) if metadata.is_dir() => Ok(()),
            Ok(_) => Err(Failure::new(
                Code::NotDirectory,
                format!("'{path}' is a file"),
            )),
            // Some stores know a directory only with its slash.
            Err(error) if error.kind() == opendal::ErrorKind::NotFound => {
                let again = self.operator.load().stat(prefix).await;
                again.map(|_| ()).map_err(|error| explain(&error))
            }
            Err(error) => Err(explain(&error)),
        }
    }

    /// Returns a page of everything below, walking the directories in the order of the keys.
    async fn walk(&self, prefix: &str, token: &str, timeouts: Timeouts) -> Result<Page, Failure> {
        let mut page = Page::default();
        let mut directories = vec![
            self.directory_below(prefix, token, timeouts, &mut page)
                .await?,
        ];
        while let Some(directory) = directories.last_mut() {
            let Some(entry) = directory.next() else {
                directories.pop();
                continue;
            };
            let below = entry.is_directory.then(|| entry.key.clone());
            if *entry.key > *token {
                if page.entries.len() == self.page_entries {
                    let last = page.entries.last().expect("pages are not empty");
                    page.next_token = last.key.clone();
                    return Ok(page);
                }
                page.entries.push(entry);
            } else if !below.as_deref().is_some_and(|key| token.starts_with(key)) {
                continue;
            }
            if let Some(key) = below {
                match self.directory_below(&key, token, timeouts, &mut page).await {
                    Ok(directory) => directories.push(directory),
                    // Removed after its name was read.
                    Err(failure) if failure.code == Code::NotFound => {}
                    Err(failure) => return Err(failure),
                }
            }
        }
        Ok(page)
    }

    /// Lists a level; names that it skips are counted on the page on which it begins.
    async fn directory_below(
        &self,
        prefix: &str,
        token: &str,
        timeouts: Timeouts,
        page: &mut Page,
    ) -> Result<std::vec::IntoIter<Entry>, Failure> {
        let directory = self.directory(prefix, timeouts).await?;
        if token.is_empty() || *prefix > *token {
            if page.skipped == 0 {
                page.skipped_example = directory.skipped_example;
            }
            page.skipped += directory.skipped;
        }
        Ok(directory.entries.into_iter())
    }

    async fn open(
        &self,
        prefix: &str,
        options: ListOptions,
        timeouts: Timeouts,
    ) -> Result<Lister, Failure> {
        let path = if prefix.is_empty() { "/" } else { prefix };
        let operator = self.operator.load();
        let opening = operator.lister_options(path, options);
        within(timeouts.first_byte, opening).await
    }

    /// Returns the page, and the last key of the store. `altered` is parallel to `found`, or empty.
    fn build(
        &self,
        found: Vec<(String, Metadata)>,
        altered: Vec<bool>,
        prefix: &str,
        token: &str,
    ) -> (Page, String) {
        let mut page = Page::default();
        let know_altered = altered.len() == found.len();
        let mut last = String::new();
        for (index, (key, metadata)) in found.into_iter().enumerate() {
            if key > last {
                last.clone_from(&key);
            }
            let is_altered = know_altered && altered[index];
            if is_same(&key, prefix) && !is_altered || (!token.is_empty() && *key <= *token) {
                continue;
            }
            if is_altered || !is_addressable(&key, self.dialect) {
                page.skip(key);
                continue;
            }
            page.entries.push(Entry::new(key, &metadata, self.dialect));
        }
        page.entries.sort_by(|a, b| a.key.cmp(&b.key));
        page.entries.dedup_by(|a, b| a.key == b.key);
        (page, last)
    }

    fn take(&self, prefix: &str, recursive: bool, token: &str) -> Option<Lister> {
        if token.is_empty() {
            return None;
        }
        let mut parked = self.parked.lock().unwrap();
        let at = parked.iter().position(|one| {
            one.prefix == prefix && one.recursive == recursive && one.token == token
        })?;
        Some(parked.remove(at).lister)
    }

    fn park(&self, prefix: &str, recursive: bool, token: &str, lister: Lister) {
        let mut parked = self.parked.lock().unwrap();
        if parked.len() == PARKED_MAX {
            parked.remove(0);
        }
        parked.push(Parked {
            prefix: prefix.to_string(),
            recursive,
            token: token.to_string(),
            lister,
        });
    }
}

/// Whether `key` is the listed directory itself.
fn is_same(key: &str, prefix: &str) -> bool {
    (key == prefix && key.ends_with('/')) || (prefix.is_empty() && key == "/")
}

/// A key that is not below the prefix belongs to a response for another request.
fn check_prefix(found: &[(String, Metadata)], prefix: &str) -> Result<(), Failure> {
    match found.iter().find(|(key, _)| !key.starts_with(prefix)) {
        None => Ok(()),
        Some((key, _)) => {
            let message = format!("the store answered with another listing, in which is '{key}'");
            Err(Failure::new(Code::Unavailable, message))
        }
    }
}

/// Returns the entries of one response of the store, and whether there are more. The lister
/// requests its next page by itself when one is used up, and hides page borders. The transport
/// blocks that request until a caller continues the lister.
async fn next_page(
    lister: &mut Lister,
    timeouts: Timeouts,
) -> Result<(Vec<(String, Metadata)>, bool), Failure> {
    let exchange = EXCHANGE.get();
    let mut found = Vec::new();
    loop {
        let next = poll_fn(|context| match lister.poll_next_unpin(context) {
            Poll::Pending if exchange.page_is_over() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
            Poll::Ready(next) => Poll::Ready(Some(next)),
        });
        let next = tokio::time::timeout(timeouts.first_byte + timeouts.idle, next)
            .await
            .map_err(|_| timed_out(timeouts.idle))?;
        match next {
            None => return Ok((found, true)),
            Some(None) => return Ok((found, false)),
            Some(Some(Ok(entry))) => found.push(entry.into_parts()),
            Some(Some(Err(error))) => return Err(explain(&error)),
        }
        exchange.complete_page();
    }
}
