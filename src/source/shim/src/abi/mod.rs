// SPDX-License-Identifier: Apache-2.0
//! Layer 7, the C ABI. The only place that handles foreign pointers; leat_store.h states their
//! rules. Uses all layers.
mod changes;
mod reads;
mod request;
mod types;
