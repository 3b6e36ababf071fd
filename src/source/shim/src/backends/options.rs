// SPDX-License-Identifier: Apache-2.0
//! Options of a store, as leat_store.h lists them.
use std::collections::HashMap;

use opendal::{Builder, Operator};

use crate::auth::env_file::EnvFile;

/// The options of a store.
pub struct Options<'a>(pub &'a HashMap<String, String>);

impl Options<'_> {
    pub fn text(&self, name: &str) -> &str {
        self.0.get(name).map(String::as_str).unwrap_or_default()
    }

    pub fn is_on(&self, name: &str) -> bool {
        self.text(name) == "true"
    }

    /// The file of `credentials`, if it holds variables.
    pub fn env_file(&self) -> Result<Option<EnvFile>, String> {
        match self.text("credentials") {
            "" => Ok(None),
            file => EnvFile::read(file).map(Some),
        }
    }

    /// Calls `set` if the option is given: for some builders an empty text differs from none.
    pub fn set<B>(&self, builder: B, name: &str, set: impl FnOnce(B, &str) -> B) -> B {
        match self.text(name) {
            "" => builder,
            value => set(builder, value),
        }
    }
}

pub fn operator(builder: impl Builder) -> Result<Operator, String> {
    Operator::new(builder).map_err(|error| error.message().to_string())
}

/// Returns a variable of the environment; empty if it is not set.
pub fn environment(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}
