// SPDX-License-Identifier: Apache-2.0
//! Failure: a code of leat_store.h and the store's response, without secrets.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum Code {
    Ok = 0,
    Internal = 1,
    InvalidArgument = 2,
    NotFound = 3,
    PermissionDenied = 4,
    Changed = 5,
    OutOfRange = 6,
    Unavailable = 7,
    Throttled = 8,
    Cancelled = 9,
    Unsupported = 10,
    NotDirectory = 11,
    Exists = 12,
    Unverified = 13,
}

#[derive(Clone, Debug)]
pub struct Failure {
    pub code: Code,
    pub message: String,
    /// The store's own error code; empty if it gave none.
    pub store_code: String,
}

impl Failure {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            store_code: String::new(),
        }
    }
}
