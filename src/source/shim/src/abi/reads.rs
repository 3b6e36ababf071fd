// SPDX-License-Identifier: Apache-2.0
//! Opening a store and reading from it.
use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use crate::abi::request::{Callback, not_utf8, one_entry, start};
use crate::abi::types::{
    Abilities, COption, Done, Expected, Memory, RequestHandle, StoreHandle, Terms, Text,
};
use crate::attempt::trace::Trace;
use crate::core::kinds::VersionKind;
use crate::core::page::Page;
use crate::core::target::{Arrived, Listener, Target};
use crate::net::lanes;
use crate::net::traffic::{self, Traffic};
use crate::store::open::Store;
use crate::store::read::Part;

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
    // A service without a runtime creates its own, which must not end on our threads.
    let _entered = lanes::any().enter();
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
    let changes = store.changes();
    Abilities {
        version: store.version_kind(),
        conditional_read: (store.conditional_read() != VersionKind::None) as u8,
        lists_from_any_key: store.lists_from_any_key() as u8,
        real_directories: store.has_real_directories() as u8,
        writes: changes.writes as u8,
        write_if_absent: changes.if_absent as u8,
        write_if_version: changes.if_version as u8,
        repeats_parts: changes.repeats_parts as u8,
        copies: changes.copies as u8,
        copies_parts: changes.copies_parts as u8,
        renames: changes.renames as u8,
        metadata: changes.metadata as u8,
        removes_max: changes.removes_max,
        part_min: changes.part_min,
        parts_max: changes.parts_max,
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
    start(Callback { done, user }, 0, async move {
        let mut trace = Trace::default();
        let found = match key {
            Some(key) => store.stat(key, terms.timeouts(), &mut trace).await,
            None => not_utf8(),
        };
        (found.map(one_entry), trace)
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
    start(Callback { done, user }, lanes::PAGE_WEIGHT, async move {
        let mut trace = Trace::default();
        let page = match texts {
            Some((prefix, token)) => {
                store
                    .list(prefix, recursive != 0, token, terms.timeouts(), &mut trace)
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
    expected: Expected,
    terms: Terms,
    arrived: Option<Arrived>,
    done: Done,
    user: *mut c_void,
) -> *mut RequestHandle {
    let store = unsafe { &*store }.0.clone();
    let texts = unsafe { key.string().zip(expected.version.string()) };
    // SAFETY: the caller vouches for into_count pieces of memory.
    let pieces = (0..into_count).map(|index| unsafe { *into.add(index) });
    let pieces = pieces.map(|piece| (piece.start.cast(), piece.size));
    let target = Target::new(pieces, arrived.map(|tell| Listener::new(tell, user)));
    let weight = target.size();
    start(Callback { done, user }, weight, async move {
        let mut trace = Trace::default();
        let filled = match texts {
            Some((key, version)) => {
                let part = Part {
                    key,
                    offset,
                    object_size: expected.size,
                    version,
                    mtime_s: (expected.has_mtime != 0).then_some(expected.mtime_s),
                };
                store.read(part, target, terms.timeouts(), &mut trace).await
            }
            None => not_utf8(),
        };
        (filled.map(|()| Page::default()), trace)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn leat_http_traffic_now() -> Traffic {
    traffic::now()
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
