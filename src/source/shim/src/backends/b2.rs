// SPDX-License-Identifier: Apache-2.0
//! Backblaze B2.
use opendal::services;

use crate::backends::options::{Options, environment, operator};
use crate::backends::parts::StoreParts;
use crate::core::kinds::{ListStyle, VersionKind};

pub fn build(options: &Options<'_>) -> Result<StoreParts, String> {
    let operator = operator(builder(options)?)?;
    Ok(StoreParts::new(
        operator,
        ListStyle::StartAfter,
        VersionKind::None,
    ))
}

fn builder(options: &Options<'_>) -> Result<services::B2, String> {
    let file = options.env_file()?;
    let given = |name: &str| match &file {
        Some(file) => file.demand(name).map(str::to_string),
        None => Ok(environment(name)),
    };
    Ok(services::B2::default()
        .bucket(options.text("bucket"))
        .bucket_id(options.text("bucket_id"))
        .application_key_id(&given("B2_APPLICATION_KEY_ID")?)
        .application_key(&given("B2_APPLICATION_KEY")?))
}
