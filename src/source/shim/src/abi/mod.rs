// SPDX-License-Identifier: Apache-2.0
//! The C ABI. The only place that handles foreign pointers; leat_store.h states their rules.
mod changes;
mod reads;

use std::ffi::{c_char, c_int, c_void};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{AbortHandle, Abortable};

use crate::attempt::explain::{Code, Failure};
use crate::core::entry::{Entry, VersionKind};
use crate::net::get;
use crate::net::lanes;
use crate::store::list::Page;
use crate::store::open::{Store, Trace};
use crate::store::upload::Writer;
use crate::store::write::Condition;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Text {
    data: *const c_char,
    size: usize,
}

#[repr(C)]
pub struct CEntry {
    key: Text,
    size: u64,
    version: Text,
    mtime_ns: i64,
    is_directory: u8,
    has_mtime: u8,
}

#[repr(C)]
pub struct COption {
    name: Text,
    value: Text,
}

#[repr(C)]
pub struct Abilities {
    version: VersionKind,
    conditional_read: u8,
    real_directories: u8,
    writes: u8,
    write_if_absent: u8,
    write_if_version: u8,
    repeats_parts: u8,
    copies: u8,
    renames: u8,
    removes_max: usize,
    part_min: usize,
    parts_max: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Memory {
    start: *mut c_void,
    size: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Terms {
    first_byte_max_ms: u32,
    silence_max_ms: u32,
}

impl Terms {
    fn limits(self) -> get::Terms {
        get::Terms {
            first_byte: Duration::from_millis(self.first_byte_max_ms.into()),
            silence: Duration::from_millis(self.silence_max_ms.into()),
        }
    }
}

#[repr(C)]
pub struct Outcome {
    code: Code,
    message: Text,
    entries: *const CEntry,
    entry_count: usize,
    next_token: Text,
    left_out: usize,
    left_out_example: Text,
    requests: u32,
    first_byte_us: u64,
    retry_after_ms: u64,
    store_code: Text,
    store_region: Text,
    proxy: Text,
    clock_ahead_s: i64,
    http_status: u32,
}

type Done = unsafe extern "C" fn(*mut c_void, *const Outcome);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct CCondition {
    if_absent: c_int,
    if_version: Text,
}

impl CCondition {
    /// Returns None if the version is not UTF-8.
    unsafe fn condition(self) -> Option<Condition> {
        if self.if_absent != 0 {
            return Some(Condition::Absent);
        }
        let version = unsafe { self.if_version.string() }?;
        Some(match version.is_empty() {
            true => Condition::None,
            false => Condition::Version(version),
        })
    }
}

pub struct StoreHandle(Arc<Store>);
pub struct WriterHandle(Result<Arc<Writer>, Failure>);
pub struct RequestHandle(AbortHandle);

impl Text {
    fn of(text: &str) -> Self {
        Self {
            data: text.as_ptr().cast(),
            size: text.len(),
        }
    }

    unsafe fn bytes<'a>(self) -> &'a [u8] {
        if self.size == 0 {
            return &[];
        }
        // SAFETY: the caller vouches for data and size.
        unsafe { std::slice::from_raw_parts(self.data.cast(), self.size) }
    }

    /// Returns None if the text is not UTF-8.
    unsafe fn string(self) -> Option<String> {
        let bytes = unsafe { self.bytes() };
        std::str::from_utf8(bytes).ok().map(str::to_string)
    }
}

/// Where a request reports; sent to the runtime's thread and used there once.
struct Callback {
    done: Done,
    user: *mut c_void,
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
            .map(|page| page.entries.iter().map(c_entry).collect())
            .unwrap_or_default();
        let outcome = Outcome {
            code,
            message: Text::of(message),
            entries: entries.as_ptr(),
            entry_count: entries.len(),
            next_token: Text::of(page.map_or(&empty, |page| &page.next_token)),
            left_out: page.map_or(0, |page| page.left_out),
            left_out_example: Text::of(page.map_or(&empty, |page| &page.left_out_example)),
            requests: trace.requests,
            first_byte_us: micros(trace.first_byte),
            retry_after_ms: micros(trace.retry_after) / 1000,
            store_code: Text::of(
                result
                    .as_ref()
                    .map_or_else(|failure| failure.store_code.as_str(), |_| ""),
            ),
            store_region: Text::of(trace.answer.region.as_deref().unwrap_or_default()),
            proxy: Text::of(trace.answer.proxy.as_deref().unwrap_or_default()),
            clock_ahead_s: trace.answer.clock_ahead_s.unwrap_or_default(),
            http_status: trace.answer.status.unwrap_or_default().into(),
        };
        // SAFETY: done and user came together; the outcome lives until the call returns.
        unsafe { (self.done)(self.user, &outcome) };
    }
}

fn micros(duration: Option<Duration>) -> u64 {
    duration.map_or(0, |duration| duration.as_micros() as u64)
}

fn c_entry(entry: &Entry) -> CEntry {
    CEntry {
        key: Text::of(&entry.key),
        size: entry.size,
        version: Text::of(&entry.version),
        mtime_ns: entry.mtime_ns.unwrap_or_default(),
        is_directory: entry.is_directory as u8,
        has_mtime: entry.mtime_ns.is_some() as u8,
    }
}

/// Runs `work`, which moves `weight` bytes, and reports its result and its trace.
fn start(
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

fn one_entry(entry: Entry) -> Page {
    Page {
        entries: vec![entry],
        ..Default::default()
    }
}

fn not_utf8<T>() -> Result<T, Failure> {
    Err(Failure::new(
        Code::Unsupported,
        "the key is not valid UTF-8",
    ))
}

fn copy_error(text: &str, error: *mut c_char, size: usize) {
    if size == 0 {
        return;
    }
    let kept = text.len().min(size - 1);
    // SAFETY: the caller vouches for `size` bytes at `error`.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), error, kept);
        *error.add(kept) = 0;
    }
}
