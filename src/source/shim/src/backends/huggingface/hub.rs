// SPDX-License-Identifier: Apache-2.0
//! Read-only repositories of a Hugging Face Hub. The first component of a key is the owner, the
//! second is the name with an optional revision behind an '@'; the rest is the path. A branch is
//! resolved to its commit. All requests use that commit until the branch is checked again, so the
//! view is consistent. https://huggingface.co/docs/hub/api
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures::future::BoxFuture;
use http::{HeaderMap, Method, Response, StatusCode, Uri, header};
use opendal::raw::Timestamp;
use opendal::{Buffer, services};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

use crate::backends::huggingface::client::{HubClient, HubRequest, explain_rejection, version_of};
use crate::backends::huggingface::path::RepoPath;
use crate::backends::huggingface::token::HubToken;
use crate::backends::namespace::{Namespace, ReadObject};
use crate::backends::options::{Options, operator};
use crate::backends::parts::{StoreParts, WriteMode};
use crate::core::entry::{Entry, check_kind, is_addressable};
use crate::core::failure::{Code, Failure};
use crate::core::kinds::{Dialect, ListStyle, VersionKind};
use crate::core::page::Page;
use crate::core::target::Target;

/// How long the commit of a branch is cached.
const COMMIT_TTL: Duration = Duration::from_secs(5);
/// Entries of one response of the tree.
const TREE_ENTRIES: usize = 1000;
/// Maximum pages of one directory.
const PAGES_MAX: usize = 10_000;
/// Maximum repositories with a cached commit.
const COMMITS_MAX: usize = 256;

pub struct Hub {
    client: HubClient,
    /// "datasets", "spaces", or the owner of models.
    bucket: String,
    dialect: Dialect,
    /// How long the commit of a branch is cached.
    commit_ttl: Duration,
    commits: Mutex<HashMap<String, (Commit, Instant)>>,
}

#[derive(Clone)]
struct Commit {
    sha: String,
    mtime_ns: Option<i64>,
}

/// The response of the tree and paths-info for a path.
#[derive(Deserialize)]
struct Info {
    r#type: String,
    path: String,
    #[serde(default)]
    oid: String,
    #[serde(default)]
    size: u64,
    lfs: Option<Lfs>,
}

#[derive(Deserialize)]
struct Lfs {
    oid: String,
}

#[derive(Deserialize)]
struct Revision {
    sha: String,
    #[serde(default, rename = "lastModified")]
    last_modified: String,
}

/// The hub reads by itself; the service only declares the capabilities.
pub fn build(options: &Options<'_>) -> Result<StoreParts, String> {
    let endpoint = options.text("endpoint");
    let service = services::Http::default().endpoint(endpoint);
    let parts = StoreParts::new(operator(service)?, ListStyle::Index, VersionKind::Etag);
    let token = HubToken::find(options.text("credentials"), options.is_on("anonymous"));
    let ttl = match options.text("commit_lasts_ms") {
        "" => COMMIT_TTL,
        text => Duration::from_millis(
            text.parse()
                .map_err(|_| format!("commit_lasts_ms={text} is not a number"))?,
        ),
    };
    let hub = Hub::new(endpoint, options.text("bucket"), token, parts.dialect, ttl);
    Ok(StoreParts {
        namespace: Some(Arc::new(hub)),
        writes: WriteMode::ReadOnly,
        ..parts
    })
}

impl Namespace for Hub {
    fn stat<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Entry, Failure>> {
        Box::pin(self.find(key))
    }

    fn list_directory<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Page, Failure>> {
        Box::pin(self.list_tree(prefix))
    }

    fn object_reader(&self) -> Option<&dyn ReadObject> {
        Some(self)
    }
}

impl ReadObject for Hub {
    fn read<'a>(
        &'a self,
        key: &'a str,
        offset: u64,
        target: &'a Target,
        version: Option<&'a str>,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(self.read_object(key, offset, target, version))
    }
}

impl Hub {
    fn new(
        endpoint: &str,
        bucket: &str,
        token: HubToken,
        dialect: Dialect,
        commit_ttl: Duration,
    ) -> Self {
        Self {
            client: HubClient::new(endpoint, token),
            bucket: bucket.to_string(),
            dialect,
            commit_ttl,
            commits: Mutex::default(),
        }
    }

    async fn find(&self, key: &str) -> Result<Entry, Failure> {
        let Some(at) = self.parse(key)? else {
            // An owner, or the root: names below it are looked up one by one.
            check_kind(key, true)?;
            return Ok(Entry::directory(key.to_string()));
        };
        let commit = self.commit(&at).await?;
        if at.path.is_empty() {
            check_kind(key, true)?;
            return Ok(Entry::directory(key.to_string()));
        }
        let Some(info) = self.info(&at, &commit).await? else {
            return Err(Failure::new(Code::NotFound, "there is no such path"));
        };
        check_kind(key, info.r#type == "directory")?;
        Ok(entry(key.to_string(), info, &commit))
    }

    async fn list_tree(&self, prefix: &str) -> Result<Page, Failure> {
        let Some(at) = self.parse(prefix)? else {
            return Err(Failure::new(
                Code::Unsupported,
                "a hub is not listed: name a repository, hf://datasets/OWNER/NAME",
            ));
        };
        let commit = self.commit(&at).await?;
        let mut page = Page::default();
        let folder = &prefix[..prefix.len() - at.path.len()];
        let mut next = Some(format!("{}?limit={TREE_ENTRIES}", at.tree(&commit.sha)));
        let mut requested = HashSet::new();
        while let Some(url) = next {
            if !requested.insert(url.clone()) || requested.len() > PAGES_MAX {
                let message = "the hub's listing goes on without an end";
                return Err(Failure::new(Code::Unavailable, message));
            }
            let response = match self.client.send(HubRequest::get(url)).await {
                Err(failure) if failure.code == Code::NotFound => {
                    self.check_directory(&at, &commit).await?;
                    return Err(failure);
                }
                response => response?,
            };
            next = next_page(response.headers());
            for info in parse::<Vec<Info>>(response)? {
                let slash = if info.r#type == "directory" { "/" } else { "" };
                let key = format!("{folder}{}{slash}", info.path);
                // A file is listed as itself.
                if !key.starts_with(prefix) {
                    self.check_directory(&at, &commit).await?;
                } else if is_addressable(&key, self.dialect) {
                    page.entries.push(entry(key, info, &commit));
                } else {
                    page.skip(key);
                }
            }
        }
        page.entries.sort_by(|a, b| a.key.cmp(&b.key));
        page.entries.dedup_by(|a, b| a.key == b.key);
        Ok(page)
    }

    async fn check_directory(&self, at: &RepoPath, commit: &Commit) -> Result<(), Failure> {
        match self.info(at, commit).await? {
            Some(info) if info.r#type != "directory" => Err(Failure::new(
                Code::NotDirectory,
                format!("'{}' is a file", info.path),
            )),
            _ => Ok(()),
        }
    }

    async fn info(&self, at: &RepoPath, commit: &Commit) -> Result<Option<Info>, Failure> {
        let path = at.path.trim_end_matches('/');
        let request = HubRequest {
            method: Method::POST,
            url: format!("/api/{}/{}/paths-info/{}", at.kind, at.repo, commit.sha),
            form: format!("paths={}", utf8_percent_encode(path, NON_ALPHANUMERIC)),
        };
        let found: Vec<Info> = parse(self.client.send(request).await?)?;
        Ok(found.into_iter().find(|info| info.path == path))
    }

    fn parse(&self, key: &str) -> Result<Option<RepoPath>, Failure> {
        RepoPath::parse(&self.bucket, key)
    }

    async fn read_object(
        &self,
        key: &str,
        offset: u64,
        target: &Target,
        version: Option<&str>,
    ) -> Result<(), Failure> {
        let Some(at) = self.parse(key)?.filter(|at| !at.path.is_empty()) else {
            return Err(Failure::new(Code::NotFound, "it is not a file"));
        };
        let resolve = at.resolve(&self.commit(&at).await?.sha);
        for again in [true, false] {
            let location = self.client.locate(&resolve).await?;
            if version.is_some_and(|version| version != location.version) {
                let message = format!("the hub has version {} of it now", location.version);
                return Err(Failure::new(Code::Changed, message));
            }
            let Some(rejection) = self.client.get(&location, offset, target).await? else {
                return Ok(());
            };
            // A URL may expire early.
            self.client.evict(&resolve);
            if location.is_hub || !again || !matches!(rejection.status().as_u16(), 401 | 403 | 404)
            {
                return Err(explain_rejection(&rejection));
            }
        }
        Err(Failure::new(Code::Internal, "the read was not sent"))
    }

    /// The commit of the key's revision.
    async fn commit(&self, at: &RepoPath) -> Result<Commit, Failure> {
        let name = format!("{}/{}@{}", at.kind, at.repo, at.revision);
        if let Some((commit, since)) = self.commits.lock().unwrap().get(&name) {
            if since.elapsed() < self.commit_ttl {
                return Ok(commit.clone());
            }
        }
        let revision = utf8_percent_encode(&at.revision, NON_ALPHANUMERIC);
        let url = format!("/api/{}/{}/revision/{revision}", at.kind, at.repo);
        let found: Revision = parse(self.client.send(HubRequest::get(url)).await?)?;
        if found.sha.is_empty() || !found.sha.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(Failure::new(Code::Internal, "the hub names no commit"));
        }
        let commit = Commit {
            sha: found.sha,
            mtime_ns: mtime_of(&found.last_modified),
        };
        let mut commits = self.commits.lock().unwrap();
        if commits.len() >= COMMITS_MAX {
            commits.clear();
        }
        commits.insert(name, (commit.clone(), Instant::now()));
        Ok(commit)
    }
}

fn entry(key: String, info: Info, commit: &Commit) -> Entry {
    if info.r#type == "directory" {
        return Entry::directory(key);
    }
    let oid = info.lfs.map_or(info.oid, |lfs| lfs.oid);
    Entry {
        key,
        size: info.size,
        version: version_of(&oid),
        // A date per file would make the hub walk its history.
        mtime_ns: commit.mtime_ns,
        is_directory: false,
        metadata: String::new(),
    }
}

fn mtime_of(text: &str) -> Option<i64> {
    let time = SystemTime::from(text.parse::<Timestamp>().ok()?);
    let since = time.duration_since(UNIX_EPOCH).ok()?;
    Some(since.as_secs() as i64 * 1_000_000_000)
}

/// RFC 8288: `<URL>; rel="next"`. Sent to our endpoint, whatever name the hub gives itself.
fn next_page(headers: &HeaderMap) -> Option<String> {
    let links = headers.get(header::LINK)?.to_str().ok()?;
    let next = links
        .split(',')
        .find(|link| link.contains("rel=\"next\""))?;
    let (_, rest) = next.split_once('<')?;
    let (url, _) = rest.split_once('>')?;
    let path = url.parse::<Uri>().ok()?.path_and_query()?.to_string();
    Some(path)
}

fn parse<T: serde::de::DeserializeOwned>(response: Response<Buffer>) -> Result<T, Failure> {
    if response.status() != StatusCode::OK {
        let message = format!("the store answered {}", response.status().as_u16());
        return Err(Failure::new(Code::Internal, message));
    }
    serde_json::from_slice(&response.into_body().to_bytes()).map_err(|error| {
        Failure::new(
            Code::Unavailable,
            format!("the hub's answer is not as expected: {error}"),
        )
    })
}
