// SPDX-License-Identifier: Apache-2.0
//! Operations that change a store.
use std::ffi::{c_int, c_void};
use std::sync::Arc;

use opendal::Buffer;

use crate::abi::request::{Callback, not_utf8, one_entry, start};
use crate::abi::types::{
    CCondition, CRange, Done, RequestHandle, StoreHandle, Terms, Text, WriterHandle,
};
use crate::attempt::trace::Trace;
use crate::core::page::Page;
use crate::net::lanes;
use crate::store::upload::Writer;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn leat_store_write(
    store: *const StoreHandle,
    key: Text,
    content: Text,
    condition: CCondition,
    terms: Terms,
    done: Done,
    user: *mut c_void,
) -> *mut RequestHandle {
    let store = unsafe { &*store }.0.clone();
    let texts = unsafe { key.string().zip(condition.condition()) };
    let texts = texts.zip(unsafe { condition.user_metadata() });
    let content = Buffer::from(unsafe { content.bytes() }.to_vec());
    let weight = content.len();
    start(Callback { done, user }, weight, async move {
        let mut trace = Trace::default();
        let written = match texts {
            Some(((key, condition), metadata)) => {
                store
                    .write(
                        key,
                        condition,
                        metadata,
                        content,
                        terms.timeouts(),
                        &mut trace,
                    )
                    .await
            }
            None => not_utf8(),
        };
        (written.map(one_entry), trace)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn leat_store_copy(
    store: *const StoreHandle,
    from: Text,
    to: Text,
    if_absent: c_int,
    terms: Terms,
    done: Done,
    user: *mut c_void,
) -> *mut RequestHandle {
    let store = unsafe { &*store }.0.clone();
    let keys = unsafe { from.string().zip(to.string()) };
    start(Callback { done, user }, 0, async move {
        let mut trace = Trace::default();
        let copied = match keys {
            Some((from, to)) => {
                store
                    .copy(from, to, if_absent != 0, terms.timeouts(), &mut trace)
                    .await
            }
            None => not_utf8(),
        };
        (copied.map(one_entry), trace)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn leat_store_rename(
    store: *const StoreHandle,
    from: Text,
    to: Text,
    terms: Terms,
    done: Done,
    user: *mut c_void,
) -> *mut RequestHandle {
    let store = unsafe { &*store }.0.clone();
    let keys = unsafe { from.string().zip(to.string()) };
    start(Callback { done, user }, 0, async move {
        let mut trace = Trace::default();
        let renamed = match keys {
            Some((from, to)) => store.rename(from, to, terms.timeouts(), &mut trace).await,
            None => not_utf8(),
        };
        (renamed.map(|()| Page::default()), trace)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn leat_store_remove(
    store: *const StoreHandle,
    keys: *const Text,
    key_count: usize,
    terms: Terms,
    done: Done,
    user: *mut c_void,
) -> *mut RequestHandle {
    let store = unsafe { &*store }.0.clone();
    // SAFETY: the caller vouches for key_count keys.
    let keys: Option<Vec<String>> = (0..key_count)
        .map(|index| unsafe { (*keys.add(index)).string() })
        .collect();
    start(Callback { done, user }, 0, async move {
        let mut trace = Trace::default();
        let removed = match keys {
            Some(keys) => store.remove(keys, terms.timeouts(), &mut trace).await,
            None => not_utf8(),
        };
        (removed.map(|()| Page::default()), trace)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn leat_writer_open(
    store: *const StoreHandle,
    key: Text,
    condition: CCondition,
) -> *mut WriterHandle {
    let store = unsafe { &*store }.0.clone();
    let texts = unsafe { key.string().zip(condition.condition()) };
    let opened = match texts.zip(unsafe { condition.user_metadata() }) {
        Some(((key, condition), metadata)) => Writer::open(store, key, condition, &metadata),
        None => not_utf8(),
    };
    Box::into_raw(Box::new(WriterHandle(opened.map(Arc::new))))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn leat_writer_append(
    writer: *const WriterHandle,
    part: Text,
    terms: Terms,
    done: Done,
    user: *mut c_void,
) -> *mut RequestHandle {
    let writer = unsafe { &*writer }.0.clone();
    let part = Buffer::from(unsafe { part.bytes() }.to_vec());
    let weight = part.len();
    start(Callback { done, user }, weight, async move {
        let mut trace = Trace::default();
        let appended = match writer {
            Ok(writer) => writer.append(part, terms.timeouts(), &mut trace).await,
            Err(failure) => Err(failure),
        };
        (appended.map(|()| Page::default()), trace)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn leat_writer_copy(
    writer: *const WriterHandle,
    from: CRange,
    terms: Terms,
    done: Done,
    user: *mut c_void,
) -> *mut RequestHandle {
    let writer = unsafe { &*writer }.0.clone();
    let from = unsafe { from.range() };
    start(Callback { done, user }, 0, async move {
        let mut trace = Trace::default();
        let copied = match (writer, from) {
            (Ok(writer), Some(from)) => writer.copy(from, terms.timeouts(), &mut trace).await,
            (Ok(_), None) => not_utf8(),
            (Err(failure), _) => Err(failure),
        };
        (copied.map(|()| Page::default()), trace)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn leat_writer_finish(
    writer: *const WriterHandle,
    terms: Terms,
    done: Done,
    user: *mut c_void,
) -> *mut RequestHandle {
    let writer = unsafe { &*writer }.0.clone();
    start(Callback { done, user }, 0, async move {
        let mut trace = Trace::default();
        let completed = match writer {
            Ok(writer) => writer.complete(terms.timeouts(), &mut trace).await,
            Err(failure) => Err(failure),
        };
        (completed.map(one_entry), trace)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn leat_writer_abandon(
    writer: *const WriterHandle,
    terms: Terms,
    done: Done,
    user: *mut c_void,
) -> *mut RequestHandle {
    let writer = unsafe { &*writer }.0.clone();
    start(Callback { done, user }, 0, async move {
        let mut trace = Trace::default();
        let aborted = match writer {
            Ok(writer) => writer.abort(terms.timeouts(), &mut trace).await,
            Err(failure) => Err(failure),
        };
        (aborted.map(|()| Page::default()), trace)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn leat_writer_close(writer: *mut WriterHandle) {
    // SAFETY: the handle came from leat_writer_open and is not used again.
    let handle = unsafe { Box::from_raw(writer) };
    if let Ok(writer) = handle.0 {
        lanes::any().spawn(writer.close());
    }
}
