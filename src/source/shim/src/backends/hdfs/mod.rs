// SPDX-License-Identifier: Apache-2.0
//! HDFS: its own client for changes, and the addresses of its name nodes.
pub mod client;
pub mod name_nodes;
pub mod service;
