// SPDX-License-Identifier: Apache-2.0
//! Google Cloud Storage.
use opendal::services;

use crate::backends::options::{Options, operator};
use crate::backends::parts::StoreParts;
use crate::core::kinds::{ListStyle, VersionKind};

pub fn build(options: &Options<'_>) -> Result<StoreParts, String> {
    let operator = operator(builder(options))?;
    Ok(StoreParts::new(
        operator,
        ListStyle::StartAfter,
        VersionKind::Generation,
    ))
}

/// A named file is the only source: a requester must not change identity when the file is removed.
fn builder(options: &Options<'_>) -> services::Gcs {
    let builder = services::Gcs::default().bucket(options.text("bucket"));
    let builder = options.set(builder, "endpoint", services::Gcs::endpoint);
    let builder = options.set(builder, "credentials", |builder, file| {
        let builder = builder.credential_path(file);
        builder.disable_config_load().disable_vm_metadata()
    });
    if options.is_on("anonymous") {
        return builder.skip_signature();
    }
    builder
}
