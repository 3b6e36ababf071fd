// SPDX-License-Identifier: Apache-2.0
//! Layer 3, one attempt: its exchange and trace, the transport that checks responses, and the
//! explanation of errors. Uses `net` and below.
pub mod exchange;
pub mod executor;
pub mod explain;
pub mod hdfs_errors;
pub mod listing_document;
pub mod response_check;
pub mod sign_read;
pub mod time_limit;
pub mod trace;
pub mod transport;
