// SPDX-License-Identifier: Apache-2.0
//! Huawei Cloud OBS.
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

fn builder(options: &Options<'_>) -> Result<services::Obs, String> {
    let builder = services::Obs::default()
        .bucket(options.text("bucket"))
        .endpoint(options.text("endpoint"));
    let Some(file) = options.env_file()? else {
        return Ok(builder);
    };
    Ok(builder
        .access_key_id(file.demand("HUAWEI_CLOUD_ACCESS_KEY_ID")?)
        .secret_access_key(file.demand("HUAWEI_CLOUD_SECRET_ACCESS_KEY")?))
}
