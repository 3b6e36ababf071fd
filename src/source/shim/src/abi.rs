// SPDX-License-Identifier: Apache-2.0
//! The C ABI. The only place that handles foreign pointers; leat_store.h states their rules.
use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_void};
use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::{AbortHandle, Abortable};
use tokio::runtime::Runtime;

use crate::entry::{Entry, VersionKind};
use crate::failure::{Code, Failure};
use crate::get;
use crate::listing::Page;
use crate::store::{Store, Trace};
use crate::target::Target;

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
}

type Done = unsafe extern "C" fn(*mut c_void, *const Outcome);

pub struct StoreHandle(Arc<Store>);
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

    /// Nothing when it is not UTF-8.
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

/// One for the process. Two workers: one moves about 3 GiB/s, the second keeps short requests from
/// waiting behind it.
fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("leat-store")
            .enable_all()
            .build()
            .expect("the runtime of the stores cannot start its threads")
    })
}

/// Runs `work` on the runtime and reports its result and what it took.
fn start(
    callback: Callback,
    work: impl Future<Output = (Result<Page, Failure>, Trace)> + Send + 'static,
) -> *mut RequestHandle {
    let (handle, registration) = AbortHandle::new_pair();
    runtime().spawn(async move {
        // The work is dropped, and with it every use of the caller's memory, before the report.
        let ended = Abortable::new(work, registration).await;
        let (result, trace) = ended.unwrap_or_else(|_| {
            let failure = Failure::new(Code::Cancelled, "the request was cancelled");
            (Err(failure), Trace::default())
        });
        callback.call(result, trace);
    });
    Box::into_raw(Box::new(RequestHandle(handle)))
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

#[unsafe(no_mangle)]
pub unsafe extern "C" fn leat_store_open(
    options: *const COption,
    option_count: usize,
    error: *mut c_char,
    error_size: usize,
) -> *mut StoreHandle {
    let mut named = HashMap::new();
    for index in 0..option_count {
        // SAFETY: the caller vouches for option_count options.
        let option = unsafe { &*options.add(index) };
        match unsafe { (option.name.string(), option.value.string()) } {
            (Some(name), Some(value)) => named.insert(name, value),
            _ => {
                copy_error("an option is not valid UTF-8", error, error_size);
                return std::ptr::null_mut();
            }
        };
    }
    runtime();
    match Store::open(&named) {
        Ok(store) => Box::into_raw(Box::new(StoreHandle(Arc::new(store)))),
        Err(message) => {
            copy_error(&message, error, error_size);
            std::ptr::null_mut()
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn leat_store_close(store: *mut StoreHandle) {
    // SAFETY: the handle came from leat_store_open and is not used again.
    drop(unsafe { Box::from_raw(store) });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn leat_store_abilities(store: *const StoreHandle) -> Abilities {
    // SAFETY: an open handle; so below.
    let store = &unsafe { &*store }.0;
    Abilities {
        version: store.version_kind(),
        conditional_read: (store.conditional_read() != VersionKind::None) as u8,
        real_directories: store.has_real_directories() as u8,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn leat_store_stat(
    store: *const StoreHandle,
    key: Text,
    terms: Terms,
    done: Done,
    user: *mut c_void,
) -> *mut RequestHandle {
    let store = unsafe { &*store }.0.clone();
    let key = unsafe { key.string() };
    start(Callback { done, user }, async move {
        let mut trace = Trace::default();
        let found = match key {
            Some(key) => store.stat(key, terms.limits(), &mut trace).await,
            None => not_utf8(),
        };
        let page = found.map(|entry| Page {
            entries: vec![entry],
            ..Default::default()
        });
        (page, trace)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn leat_store_list(
    store: *const StoreHandle,
    prefix: Text,
    recursive: c_int,
    token: Text,
    terms: Terms,
    done: Done,
    user: *mut c_void,
) -> *mut RequestHandle {
    let store = unsafe { &*store }.0.clone();
    let texts = unsafe { prefix.string().zip(token.string()) };
    start(Callback { done, user }, async move {
        let mut trace = Trace::default();
        let page = match texts {
            Some((prefix, token)) => {
                store
                    .list(prefix, recursive != 0, token, terms.limits(), &mut trace)
                    .await
            }
            None => not_utf8(),
        };
        (page, trace)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn leat_store_read(
    store: *const StoreHandle,
    key: Text,
    offset: u64,
    into: *const Memory,
    into_count: usize,
    if_version: Text,
    terms: Terms,
    done: Done,
    user: *mut c_void,
) -> *mut RequestHandle {
    let store = unsafe { &*store }.0.clone();
    let texts = unsafe { key.string().zip(if_version.string()) };
    // SAFETY: the caller vouches for into_count pieces of memory.
    let pieces = (0..into_count).map(|index| unsafe { *into.add(index) });
    let target = Target::new(pieces.map(|piece| (piece.start.cast(), piece.size)));
    start(Callback { done, user }, async move {
        let mut trace = Trace::default();
        let filled = match texts {
            Some((key, version)) => {
                store
                    .read(key, offset, target, version, terms.limits(), &mut trace)
                    .await
            }
            None => not_utf8(),
        };
        (filled.map(|()| Page::default()), trace)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn leat_store_put(
    store: *const StoreHandle,
    key: Text,
    content: Text,
    done: Done,
    user: *mut c_void,
) -> *mut RequestHandle {
    let store = unsafe { &*store }.0.clone();
    let key = unsafe { key.string() };
    let content = unsafe { content.bytes() }.to_vec();
    start(Callback { done, user }, async move {
        let stored = match key {
            Some(key) => store.put(key, content).await,
            None => not_utf8(),
        };
        (stored.map(|()| Page::default()), Trace::default())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn leat_request_cancel(request: *const RequestHandle) {
    unsafe { &*request }.0.abort();
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn leat_request_free(request: *mut RequestHandle) {
    // SAFETY: the handle came from one of the functions above and is not used again.
    drop(unsafe { Box::from_raw(request) });
}
