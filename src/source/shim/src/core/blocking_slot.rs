// SPDX-License-Identifier: Apache-2.0
//! Look: reads files on file systems that may hang. At most one call runs at a time, so that such a
//! file system blocks one thread and not all of them.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const LOOK_MAX: Duration = Duration::from_secs(1);

#[derive(Default)]
pub struct Look {
    is_out: Arc<AtomicBool>,
}

impl Look {
    /// Returns the result of `work`, which runs on a thread of its own; None if it takes too long,
    /// or if an earlier call has not returned yet.
    pub async fn take<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        if self.is_out.swap(true, Ordering::AcqRel) {
            return None;
        }
        let is_out = self.is_out.clone();
        let looking = tokio::task::spawn_blocking(move || {
            let found = work();
            is_out.store(false, Ordering::Release);
            found
        });
        tokio::time::timeout(LOOK_MAX, looking).await.ok()?.ok()
    }
}
