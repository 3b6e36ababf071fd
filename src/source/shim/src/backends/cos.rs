// SPDX-License-Identifier: Apache-2.0
//! Tencent Cloud COS.
use opendal::services;

use crate::backends::options::{Options, operator};
use crate::backends::parts::StoreParts;
use crate::core::kinds::{ListStyle, VersionKind};

pub fn build(options: &Options<'_>) -> Result<StoreParts, String> {
    let operator = operator(builder(options)?)?;
    Ok(StoreParts::new(
        operator,
        ListStyle::Continued,
        VersionKind::Etag,
    ))
}

fn builder(options: &Options<'_>) -> Result<services::Cos, String> {
    let builder = services::Cos::default()
        .bucket(options.text("bucket"))
        .endpoint(options.text("endpoint"));
    let Some(file) = options.env_file()? else {
        return Ok(builder);
    };
    let builder = builder
        .secret_id(file.demand("TENCENTCLOUD_SECRET_ID")?)
        .secret_key(file.demand("TENCENTCLOUD_SECRET_KEY")?);
    Ok(match file.find("TENCENTCLOUD_SECURITY_TOKEN") {
        Some(token) => builder.security_token(token),
        None => builder,
    })
}
