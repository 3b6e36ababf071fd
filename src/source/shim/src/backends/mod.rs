// SPDX-License-Identifier: Apache-2.0
//! Layer 5, the kinds of stores: from options to the parts of a store. Uses `auth` and below.
pub mod build;
pub mod hdfs;
pub mod huggingface;
pub mod namespace;
pub mod s3;
pub mod web;
