// SPDX-License-Identifier: Apache-2.0
//! Web servers: objects by HEAD and GET, directories from index pages.
pub mod index;
pub mod server;
