// SPDX-License-Identifier: Apache-2.0
//! Hugging Face Hubs: repositories as directories, read at one commit.
pub mod client;
pub mod hub;
pub mod path;
pub mod token;
