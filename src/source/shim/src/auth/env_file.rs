// SPDX-License-Identifier: Apache-2.0
//! EnvFile: credentials of one mount in the form of the environment: `NAME=VALUE`, one per line, as
//! systemd and docker read it. Messages never contain its values.
use std::collections::HashMap;
use std::fmt;

use reqsign_core::{Context, ProvideCredential, Result, StaticEnv};

#[derive(Clone, Default)]
pub struct EnvFile {
    path: String,
    variables: HashMap<String, String>,
}

impl fmt::Debug for EnvFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EnvFile")
    }
}

impl EnvFile {
    pub fn read(path: &str) -> std::result::Result<Self, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("cannot read credentials {path}: {error}"))?;
        let mut variables = HashMap::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let line = line.strip_prefix("export ").unwrap_or(line);
            let Some((name, value)) = line.split_once('=') else {
                let line = number + 1;
                return Err(format!(
                    "line {line} of credentials {path} is not NAME=VALUE"
                ));
            };
            variables.insert(name.trim().to_string(), unquoted(value.trim()).to_string());
        }
        Ok(Self {
            path: path.to_string(),
            variables,
        })
    }

    /// Returns a variable that must be present.
    pub fn demand(&self, name: &str) -> std::result::Result<&str, String> {
        match self.find(name) {
            Some(value) => Ok(value),
            None => Err(format!("credentials {} have no {name}", self.path)),
        }
    }

    pub fn find(&self, name: &str) -> Option<&str> {
        let value = self.variables.get(name).map(String::as_str);
        value.filter(|value| !value.is_empty())
    }

    pub fn set_default(&mut self, name: &str, value: &str) {
        if self.find(name).is_none() && !value.is_empty() {
            self.variables.insert(name.to_string(), value.to_string());
        }
    }
}

fn unquoted(value: &str) -> &str {
    for quote in ['"', '\''] {
        let inner = value.strip_prefix(quote);
        if let Some(inner) = inner.and_then(|value| value.strip_suffix(quote)) {
            return inner;
        }
    }
    value
}

/// A provider that sees the file instead of the environment.
pub struct InsteadOfEnvironment<P> {
    pub file: EnvFile,
    pub provider: P,
}

impl<P> fmt::Debug for InsteadOfEnvironment<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InsteadOfEnvironment")
    }
}

impl<P: ProvideCredential> ProvideCredential for InsteadOfEnvironment<P> {
    type Credential = P::Credential;

    async fn provide_credential(&self, context: &Context) -> Result<Option<P::Credential>> {
        let context = context.clone().with_env(StaticEnv {
            home_dir: None,
            envs: self.file.variables.clone(),
        });
        self.provider.provide_credential(&context).await
    }
}
