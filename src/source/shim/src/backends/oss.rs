// SPDX-License-Identifier: Apache-2.0
//! Alibaba Cloud OSS.
use opendal::services;

use crate::backends::options::{Options, operator};
use crate::backends::parts::StoreParts;
use crate::core::kinds::{ListStyle, VersionKind};

pub fn build(options: &Options<'_>) -> Result<StoreParts, String> {
    let operator = operator(builder(options)?)?;
    Ok(StoreParts::new(
        operator,
        ListStyle::StartAfter,
        VersionKind::Etag,
    ))
}

fn builder(options: &Options<'_>) -> Result<services::Oss, String> {
    let builder = services::Oss::default()
        .bucket(options.text("bucket"))
        .endpoint(options.text("endpoint"));
    if options.is_on("anonymous") {
        return Ok(builder.skip_signature());
    }
    let Some(file) = options.env_file()? else {
        return Ok(builder);
    };
    let builder = builder
        .access_key_id(file.demand("ALIBABA_CLOUD_ACCESS_KEY_ID")?)
        .access_key_secret(file.demand("ALIBABA_CLOUD_ACCESS_KEY_SECRET")?);
    Ok(match file.find("ALIBABA_CLOUD_SECURITY_TOKEN") {
        Some(token) => builder.security_token(token),
        None => builder,
    })
}
