// SPDX-License-Identifier: Apache-2.0
//! Requests: run on a lane and report by their callback.
use std::ffi::c_void;
use std::future::Future;
use std::time::Duration;

use futures::future::{AbortHandle, Abortable};

use crate::abi::types::{CEntry, Done, Outcome, RequestHandle, Text};
use crate::attempt::trace::Trace;
use crate::core::entry::Entry;
use crate::core::failure::{Code, Failure};
use crate::core::page::Page;
use crate::net::lanes;

/// Where a request reports; sent to the runtime's thread and used there once.
pub struct Callback {
    pub done: Done,
    pub user: *mut c_void,
}

// SAFETY: leat_store.h demands that callbacks can be called from any thread.
unsafe impl Send for Callback {}

impl Callback {
    fn call(self, result: Result<Page, Failure>, trace: Trace) {
        let empty = String::new();
        let (code, message) = match &result {
            Ok(_) => (Code::Ok, &empty),
            Err(failure) => (failure.code, &failure.message),
        };
        let page = result.as_ref().ok();
        let entries: Vec<CEntry> = page
            .map(|page| page.entries.iter().map(CEntry::of).collect())
            .unwrap_or_default();
        let outcome = Outcome {
            code,
            message: Text::of(message),
            entries: entries.as_ptr(),
            entry_count: entries.len(),
            next_token: Text::of(page.map_or(&empty, |page| &page.next_token)),
            left_out: page.map_or(0, |page| page.skipped),
            left_out_example: Text::of(page.map_or(&empty, |page| &page.skipped_example)),
            requests: trace.requests,
            first_byte_us: micros(trace.first_byte),
            retry_after_ms: micros(trace.retry_after) / 1000,
            store_code: Text::of(
                result
                    .as_ref()
                    .map_or_else(|failure| failure.store_code.as_str(), |_| ""),
            ),
            store_region: Text::of(trace.response.region.as_deref().unwrap_or_default()),
            proxy: Text::of(trace.response.proxy.as_deref().unwrap_or_default()),
            clock_ahead_s: trace.response.clock_ahead_s.unwrap_or_default(),
            http_status: trace.response.status.unwrap_or_default().into(),
        };
        // SAFETY: done and user came together; the outcome lives until the call returns.
        unsafe { (self.done)(self.user, &outcome) };
    }
}

/// Runs `work`, which moves `weight` bytes, and reports its result and its trace.
pub fn start(
    callback: Callback,
    weight: usize,
    work: impl Future<Output = (Result<Page, Failure>, Trace)> + Send + 'static,
) -> *mut RequestHandle {
    let (handle, registration) = AbortHandle::new_pair();
    // The future has thousands of bytes, which would be moved from each future into the next one.
    let work = Box::pin(work);
    lanes::run(weight as u64, async move {
        // The work is dropped, and with it every use of the caller's memory, before the report.
        let ended = Abortable::new(work, registration).await;
        let (result, trace) = ended.unwrap_or_else(|_| {
            let failure = Failure::new(Code::Cancelled, "the request was cancelled");
            (Err(failure), Trace::default())
        });
        move || callback.call(result, trace)
    });
    Box::into_raw(Box::new(RequestHandle(handle)))
}

fn micros(duration: Option<Duration>) -> u64 {
    duration.map_or(0, |duration| duration.as_micros() as u64)
}

pub fn one_entry(entry: Entry) -> Page {
    Page {
        entries: vec![entry],
        ..Default::default()
    }
}

pub fn not_utf8<T>() -> Result<T, Failure> {
    Err(Failure::new(
        Code::Unsupported,
        "the key is not valid UTF-8",
    ))
}
