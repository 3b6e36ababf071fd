// SPDX-License-Identifier: Apache-2.0
//! Time limits of operations within an attempt.
use std::future::Future;
use std::time::Duration;

use crate::attempt::explain::{explain, timed_out};
use crate::core::failure::Failure;

/// Runs an operation of OpenDAL for at most `limit`.
pub async fn within<T>(
    limit: Duration,
    work: impl Future<Output = opendal::Result<T>>,
) -> Result<T, Failure> {
    bounded(limit, async { work.await.map_err(|error| explain(&error)) }).await
}

/// Runs `work` for at most `limit`.
pub async fn bounded<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    tokio::time::timeout(limit, work)
        .await
        .unwrap_or_else(|_| Err(timed_out(limit)))
}
