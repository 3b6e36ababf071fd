// SPDX-License-Identifier: Apache-2.0
//! HubToken: the token for a hub, found as its own tools do, and read again a second after the file
//! changed.
use std::sync::Mutex;
use std::time::{Duration, Instant};

use http::HeaderValue;

use crate::core::blocking_slot::BlockingSlot;

const REFRESH_INTERVAL: Duration = Duration::from_secs(1);

pub enum HubToken {
    Anonymous,
    Fixed(String),
    File {
        path: String,
        /// Without the file no request is sent; the tools' own file is optional.
        demanded: bool,
        cached: Mutex<Option<(Instant, Option<String>)>>,
        slot: BlockingSlot,
    },
}

impl HubToken {
    /// Uses the named file, else HF_TOKEN, else the file of HF_TOKEN_PATH or of the tools' folder.
    pub fn find(file: &str, anonymous: bool) -> Self {
        if anonymous {
            return Self::Anonymous;
        }
        if !file.is_empty() {
            return Self::file(file.to_string(), true);
        }
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        if let Some(token) = variable("HF_TOKEN") {
            return Self::Fixed(token.trim().to_string());
        }
        let path = variable("HF_TOKEN_PATH")
            .or_else(|| variable("HF_HOME").map(|home| format!("{home}/token")))
            .or_else(|| variable("XDG_CACHE_HOME").map(|at| format!("{at}/huggingface/token")))
            .or_else(|| variable("HOME").map(|at| format!("{at}/.cache/huggingface/token")));
        path.map_or(Self::Anonymous, |path| Self::file(path, false))
    }

    fn file(path: String, demanded: bool) -> Self {
        Self::File {
            path,
            demanded,
            cached: Mutex::default(),
            slot: BlockingSlot::default(),
        }
    }

    /// Returns the header; None if requests are anonymous. An error has the reason why there is no
    /// token.
    pub async fn header(&self) -> Result<Option<HeaderValue>, String> {
        let Some(token) = self.token().await? else {
            return Ok(None);
        };
        let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
            .map_err(|_| "the hub's token has characters that no token has".to_string())?;
        value.set_sensitive(true);
        Ok(Some(value))
    }

    async fn token(&self) -> Result<Option<String>, String> {
        let (path, demanded, cached, slot) = match self {
            Self::Anonymous => return Ok(None),
            Self::Fixed(token) => return Ok(Some(token.clone())),
            Self::File {
                path,
                demanded,
                cached,
                slot,
            } => (path.clone(), *demanded, cached, slot),
        };
        let before = cached.lock().unwrap().clone();
        if let Some((since, token)) = &before
            && since.elapsed() < REFRESH_INTERVAL
        {
            return Ok(token.clone());
        }
        let file = path.clone();
        let token = match slot.run(move || std::fs::read_to_string(file)).await {
            Some(Ok(text)) => Some(text.trim().to_string()).filter(|token| !token.is_empty()),
            Some(Err(error)) if demanded => {
                return Err(format!("cannot read credentials {path}: {error}"));
            }
            Some(Err(_)) => None,
            // The file system hangs; the cached token stays in use.
            None => match before {
                Some((_, token)) => token,
                None if demanded => {
                    return Err(format!("cannot read credentials {path}: it takes too long"));
                }
                None => None,
            },
        };
        *cached.lock().unwrap() = Some((Instant::now(), token.clone()));
        Ok(token)
    }
}
