// SPDX-License-Identifier: Apache-2.0
//! Layer 3, one attempt: its exchange and trace, the transport that checks responses, and the
//! explanation of errors. Uses `net` and below.
pub mod exchange;
pub mod explain;
pub mod listing_document;
pub mod response_check;
pub mod transport;
