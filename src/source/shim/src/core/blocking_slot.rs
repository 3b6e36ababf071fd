// SPDX-License-Identifier: Apache-2.0
//! BlockingSlot: runs calls that may hang, such as reads of files, for a limited time. At most one
//! runs at a time, so that a hung file system blocks one thread and not all of them.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const CALL_MAX: Duration = Duration::from_secs(1);

#[derive(Default)]
pub struct BlockingSlot {
    is_taken: Arc<AtomicBool>,
}

impl BlockingSlot {
    /// Returns the result of `work`, which runs on a thread of its own; None if it takes too long,
    /// or if an earlier call has not returned yet.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        if self.is_taken.swap(true, Ordering::AcqRel) {
            return None;
        }
        let is_taken = self.is_taken.clone();
        let call = tokio::task::spawn_blocking(move || {
            let found = work();
            is_taken.store(false, Ordering::Release);
            found
        });
        tokio::time::timeout(CALL_MAX, call).await.ok()?.ok()
    }
}
