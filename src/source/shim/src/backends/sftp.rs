// SPDX-License-Identifier: Apache-2.0
//! SFTP, by OpenSSH's own client.
use opendal::services;

use crate::backends::options::{Options, operator};
use crate::backends::parts::{StoreParts, WriteMode};
use crate::core::kinds::{ListStyle, VersionKind};

pub fn build(options: &Options<'_>) -> Result<StoreParts, String> {
    let builder = services::Sftp::default()
        .endpoint(options.text("endpoint"))
        .root("/");
    let builder = options.set(builder, "user", services::Sftp::user);
    let builder = options.set(builder, "key", services::Sftp::key);
    let builder = options.set(builder, "known_hosts", services::Sftp::known_hosts_strategy);
    let operator = operator(builder)?;
    Ok(StoreParts {
        over_http: false,
        writes: WriteMode::StagedRename,
        ..StoreParts::new(operator, ListStyle::Directories, VersionKind::None)
    })
}
