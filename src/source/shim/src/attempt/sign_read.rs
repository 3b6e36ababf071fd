// SPDX-License-Identifier: Apache-2.0
//! SignRead: signs the requests of reads. The exchange holds one if the service does not sign.
use std::sync::Arc;

use futures::future::BoxFuture;
use http::request::Parts;
use reqsign_aws_v4::Credential;

pub type Signed = reqsign_core::Result<Option<Arc<Credential>>>;

pub trait SignRead: Send + Sync {
    /// Adds the signature and returns its credential. Adds nothing if there is no credential.
    fn sign<'a>(&'a self, parts: &'a mut Parts) -> BoxFuture<'a, Signed>;
}
