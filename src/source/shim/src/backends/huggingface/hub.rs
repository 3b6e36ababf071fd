// SPDX-License-Identifier: Apache-2.0
//! Read-only repositories of a Hugging Face Hub. The first component of a key is the owner, the
//! second is the name with an optional revision behind an '@'; the rest is the path. A branch is
//! resolved to its commit. All requests use that commit until the branch is checked again, so the
//! view is consistent. https://huggingface.co/docs/hub/api
use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, Method, Response, StatusCode, Uri, header};
use opendal::Buffer;
use opendal::raw::Timestamp;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde::Deserialize;

use crate::attempt::explain::{Code, Failure};
use crate::backends::huggingface::client::{Ask, HubClient};
use crate::backends::huggingface::token::HubToken;
use crate::backends::web::server::PATH;
use crate::core::entry::{Dialect, Entry, check_kind, is_addressable, usable_etag};
use crate::store::list::Page;

/// Entries of one response of the tree.
const TREE_ENTRIES: usize = 1000;
/// Maximum pages of one directory.
const PAGES_MAX: usize = 10_000;
/// Maximum repositories with a cached commit.
const COMMITS_MAX: usize = 256;

pub struct Hub {
    pub client: HubClient,
    /// "datasets", "spaces", or the owner of models.
    bucket: String,
    dialect: Dialect,
    /// How long the commit of a branch is cached.
    commit_lasts: Duration,
    commits: Mutex<HashMap<String, (Commit, Instant)>>,
}

#[derive(Clone)]
pub struct Commit {
    pub sha: String,
    mtime_ns: Option<i64>,
}

/// A parsed key.
pub struct Place {
    /// "datasets", "models", "spaces"
    kind: &'static str,
    /// "OWNER/NAME"
    repo: String,
    revision: String,
    pub path: String,
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

impl Hub {
    pub fn new(
        endpoint: &str,
        bucket: &str,
        token: HubToken,
        dialect: Dialect,
        commit_lasts: Duration,
    ) -> Self {
        Self {
            client: HubClient::new(endpoint, token),
            bucket: bucket.to_string(),
            dialect,
            commit_lasts,
            commits: Mutex::default(),
        }
    }

    pub async fn stat(&self, key: &str) -> Result<Entry, Failure> {
        let Some(place) = self.place(key)? else {
            // An owner, or the root: names below it are looked up one by one.
            check_kind(key, true)?;
            return Ok(Entry::directory(key.to_string()));
        };
        let commit = self.commit(&place).await?;
        if place.path.is_empty() {
            check_kind(key, true)?;
            return Ok(Entry::directory(key.to_string()));
        }
        let Some(info) = self.info(&place, &commit).await? else {
            return Err(Failure::new(Code::NotFound, "there is no such path"));
        };
        check_kind(key, info.r#type == "directory")?;
        Ok(entry(key.to_string(), info, &commit))
    }

    /// A directory, in the order of its keys.
    pub async fn level(&self, prefix: &str) -> Result<Page, Failure> {
        let Some(place) = self.place(prefix)? else {
            return Err(Failure::new(
                Code::Unsupported,
                "a hub is not listed: name a repository, hf://datasets/OWNER/NAME",
            ));
        };
        let commit = self.commit(&place).await?;
        let mut page = Page::default();
        let folder = &prefix[..prefix.len() - place.path.len()];
        let mut next = Some(format!("{}?limit={TREE_ENTRIES}", tree_of(&place, &commit)));
        let mut asked = HashSet::new();
        while let Some(url) = next {
            if !asked.insert(url.clone()) || asked.len() > PAGES_MAX {
                let message = "the hub's listing goes on without an end";
                return Err(Failure::new(Code::Unavailable, message));
            }
            let response = match self.client.ask(Ask::get(url)).await {
                Err(failure) if failure.code == Code::NotFound => {
                    self.check_directory(&place, &commit).await?;
                    return Err(failure);
                }
                answered => answered?,
            };
            next = next_page(response.headers());
            for info in parse::<Vec<Info>>(response)? {
                let slash = if info.r#type == "directory" { "/" } else { "" };
                let key = format!("{folder}{}{slash}", info.path);
                // A file is listed as itself.
                if !key.starts_with(prefix) {
                    self.check_directory(&place, &commit).await?;
                } else if is_addressable(&key, self.dialect) {
                    page.entries.push(entry(key, info, &commit));
                } else {
                    page.leave_out(key);
                }
            }
        }
        page.entries.sort_by(|a, b| a.key.cmp(&b.key));
        page.entries.dedup_by(|a, b| a.key == b.key);
        Ok(page)
    }

    async fn check_directory(&self, place: &Place, commit: &Commit) -> Result<(), Failure> {
        match self.info(place, commit).await? {
            Some(info) if info.r#type != "directory" => Err(Failure::new(
                Code::NotDirectory,
                format!("'{}' is a file", info.path),
            )),
            _ => Ok(()),
        }
    }

    async fn info(&self, place: &Place, commit: &Commit) -> Result<Option<Info>, Failure> {
        let path = place.path.trim_end_matches('/');
        let asked = Ask {
            method: Method::POST,
            url: format!(
                "/api/{}/{}/paths-info/{}",
                place.kind, place.repo, commit.sha
            ),
            form: format!("paths={}", utf8_percent_encode(path, NON_ALPHANUMERIC)),
        };
        let found: Vec<Info> = parse(self.client.ask(asked).await?)?;
        Ok(found.into_iter().find(|info| info.path == path))
    }

    /// The commit of the key's revision.
    pub async fn commit(&self, place: &Place) -> Result<Commit, Failure> {
        let name = format!("{}/{}@{}", place.kind, place.repo, place.revision);
        if let Some((commit, since)) = self.commits.lock().unwrap().get(&name) {
            if since.elapsed() < self.commit_lasts {
                return Ok(commit.clone());
            }
        }
        let revision = utf8_percent_encode(&place.revision, NON_ALPHANUMERIC);
        let url = format!("/api/{}/{}/revision/{revision}", place.kind, place.repo);
        let found: Revision = parse(self.client.ask(Ask::get(url)).await?)?;
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

    /// Returns None for keys above the repositories.
    pub fn place(&self, key: &str) -> Result<Option<Place>, Failure> {
        let (kind, key) = match self.bucket.as_str() {
            "datasets" => ("datasets", key.to_string()),
            "spaces" => ("spaces", key.to_string()),
            owner => ("models", format!("{owner}/{key}")),
        };
        let mut parts = key.splitn(3, '/');
        let owner = parts.next().unwrap_or_default();
        let name = parts.next().unwrap_or_default();
        let mut path = parts.next().unwrap_or_default();
        if owner.is_empty() || name.is_empty() {
            return Ok(None);
        }
        let (name, revision) = name.split_once('@').unwrap_or((name, "main"));
        // "refs%2Fpr%2F1", as the hub's own tools write it.
        let decoded = percent_decode_str(revision).decode_utf8_lossy();
        let mut revision = decoded.into_owned();
        // Users may write slashes: only these revisions have them.
        if revision == "refs" {
            for _ in 0..2 {
                let (part, rest) = path.split_once('/').unwrap_or((path, ""));
                revision = format!("{revision}/{part}");
                path = rest;
            }
        }
        let plain = |text: &str| {
            let kept = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
            !text.is_empty() && text.bytes().all(kept)
        };
        if !plain(owner) || !plain(name) || revision.is_empty() {
            return Err(Failure::new(
                Code::NotFound,
                format!("'{owner}/{name}' is no name of a repository"),
            ));
        }
        Ok(Some(Place {
            kind,
            repo: format!("{owner}/{name}"),
            revision,
            path: path.to_string(),
        }))
    }
}

impl Place {
    /// The URL from which the hub serves the bytes, or redirects to them.
    pub fn resolve(&self, commit: &Commit) -> String {
        let kind = match self.kind {
            "models" => String::new(),
            kind => format!("/{kind}"),
        };
        let path = utf8_percent_encode(&self.path, &PATH);
        format!("{kind}/{}/resolve/{}/{path}", self.repo, commit.sha)
    }
}

fn tree_of(place: &Place, commit: &Commit) -> String {
    let path = place.path.trim_end_matches('/');
    let slash = if path.is_empty() { "" } else { "/" };
    let path = utf8_percent_encode(path, &PATH);
    format!(
        "/api/{}/{}/tree/{}{slash}{path}",
        place.kind, place.repo, commit.sha
    )
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
    }
}

/// The version of an object id, which has quotes in a header and none in JSON.
pub fn version_of(oid: &str) -> String {
    let oid = oid.trim_start_matches("W/").trim_matches('"');
    usable_etag(oid.trim_start_matches("sha256:"))
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
