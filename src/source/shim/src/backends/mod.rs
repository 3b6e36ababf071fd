// SPDX-License-Identifier: Apache-2.0
//! Layer 5, the kinds of stores: from options to the parts of a store, and our own namespaces. Uses
//! `auth` and below.
pub mod azure;
pub mod b2;
pub mod build;
pub mod cos;
pub mod credential_files;
pub mod gcs;
pub mod hdfs;
pub mod http_requests;
pub mod huggingface;
pub mod namespace;
pub mod obs;
pub mod options;
pub mod oss;
pub mod parts;
pub mod s3;
pub mod sftp;
pub mod web;
