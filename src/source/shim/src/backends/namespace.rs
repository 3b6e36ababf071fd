// SPDX-License-Identifier: Apache-2.0
//! Namespace: our own stat and listing for stores where OpenDAL lacks them or is not used.
use futures::future::BoxFuture;

use crate::core::entry::Entry;
use crate::core::failure::Failure;
use crate::core::page::Page;
use crate::core::target::Target;

/// All calls are made within an attempt.
pub trait Namespace: Send + Sync {
    fn stat<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Entry, Failure>>;

    /// Lists a directory, in the order of its keys.
    fn list_directory<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Page, Failure>>;

    /// Returns the reader of objects if the store's operator does not read them.
    fn object_reader(&self) -> Option<&dyn ReadObject> {
        None
    }
}

pub trait ReadObject: Send + Sync {
    /// Fills the target, in an attempt with the purpose of a read. `version`: the demanded one.
    fn read<'a>(
        &'a self,
        key: &'a str,
        offset: u64,
        target: &'a Target,
        version: Option<&'a str>,
    ) -> BoxFuture<'a, Result<(), Failure>>;
}
