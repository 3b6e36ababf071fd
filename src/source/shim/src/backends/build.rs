// SPDX-License-Identifier: Apache-2.0
//! Builds the parts of a store from its options: chooses the backend by scheme.
use std::collections::HashMap;
use std::ffi::OsString;

use opendal::services;

use crate::backends::options::{Options, operator};
use crate::backends::parts::StoreParts;
use crate::backends::{azure, b2, cos, gcs, hdfs, huggingface, obs, oss, s3, sftp, web};
use crate::core::kinds::{Dialect, ListStyle, VersionKind};

pub fn build(options: &HashMap<String, String>) -> Result<StoreParts, String> {
    let options = &Options(options);
    check_environment(options.text("scheme"))?;
    let parts = build_service(options)?;
    Ok(match is_google(options) {
        true => accepting_gzip(parts),
        false => parts,
    })
}

/// Google unpacks objects of `Content-Encoding: gzip` for clients that do not accept it, and then
/// ignores the range (decompressive transcoding), also through its S3 interface.
fn is_google(options: &Options<'_>) -> bool {
    let host = options.text("endpoint").rsplit('/').next();
    options.text("scheme") == "gs" || host == Some("storage.googleapis.com")
}

fn accepting_gzip(parts: StoreParts) -> StoreParts {
    StoreParts {
        dialect: Dialect {
            accepts: "gzip",
            ..parts.dialect
        },
        ..parts
    }
}

fn build_service(options: &Options<'_>) -> Result<StoreParts, String> {
    match options.text("scheme") {
        "s3" => s3::build(options),
        "gs" => gcs::build(options),
        "az" => azure::build_blob(options),
        "abfs" => azure::build_data_lake(options),
        "oss" => oss::build(options),
        "cos" => cos::build(options),
        "obs" => obs::build(options),
        "b2" => b2::build(options),
        "hdfs" => hdfs::service::build_native(options),
        "webhdfs" => hdfs::service::build_web(options),
        "http" => web::server::build(options),
        "hf" => huggingface::hub::build(options),
        "sftp" => sftp::build(options),
        "memory" => memory(),
        other => Err(format!("scheme '{other}' is not built in")),
    }
}

fn memory() -> Result<StoreParts, String> {
    let operator = operator(services::Memory::default())?;
    Ok(StoreParts {
        over_http: false,
        ..StoreParts::new(operator, ListStyle::Continued, VersionKind::Etag)
    })
}

/// The providers of these stores copy the whole environment, and would abort the process at a
/// variable that is not UTF-8.
fn check_environment(scheme: &str) -> Result<(), String> {
    if !matches!(scheme, "gs" | "az" | "abfs" | "oss" | "cos" | "obs") {
        return Ok(());
    }
    let is_text = |one: &OsString| one.to_str().is_some();
    match std::env::vars_os().find(|(name, value)| !is_text(name) || !is_text(value)) {
        None => Ok(()),
        Some((name, _)) => Err(format!(
            "the environment's variable {} is not UTF-8, which {scheme}:// cannot take",
            name.to_string_lossy()
        )),
    }
}
