// SPDX-License-Identifier: Apache-2.0
//! RepoPath: a key of a hub, parsed, and its URLs.
use percent_encoding::{percent_decode_str, utf8_percent_encode};

use crate::backends::http_requests::PATH;
use crate::core::failure::{Code, Failure};

/// A parsed key.
pub struct RepoPath {
    /// "datasets", "models", "spaces"
    pub kind: &'static str,
    /// "OWNER/NAME"
    pub repo: String,
    pub revision: String,
    pub path: String,
}

impl RepoPath {
    /// Returns None for keys above the repositories.
    pub fn parse(bucket: &str, key: &str) -> Result<Option<Self>, Failure> {
        let (kind, key) = match bucket {
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
        Ok(Some(Self {
            kind,
            repo: format!("{owner}/{name}"),
            revision,
            path: path.to_string(),
        }))
    }

    /// The URL from which the hub serves the bytes, or redirects to them.
    pub fn resolve(&self, commit: &str) -> String {
        let kind = match self.kind {
            "models" => String::new(),
            kind => format!("/{kind}"),
        };
        let path = utf8_percent_encode(&self.path, &PATH);
        format!("{kind}/{}/resolve/{}/{path}", self.repo, commit)
    }

    /// The URL of the listing of a directory.
    pub fn tree(&self, commit: &str) -> String {
        let path = self.path.trim_end_matches('/');
        let slash = if path.is_empty() { "" } else { "/" };
        let path = utf8_percent_encode(path, &PATH);
        format!(
            "/api/{}/{}/tree/{}{slash}{path}",
            self.kind, self.repo, commit
        )
    }
}
