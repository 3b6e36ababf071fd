// SPDX-License-Identifier: Apache-2.0
//! HDFS: from options to the parts of a store, over its own protocol and over WebHDFS.
use opendal::{Operator, services};

use crate::backends::hdfs::client::HdfsClient;
use crate::backends::hdfs::name_nodes;
use crate::backends::options::{Options, environment, operator};
use crate::backends::parts::{StoreParts, WriteMode};
use crate::core::kinds::{Dialect, ListStyle, VersionKind};

pub fn build_native(options: &Options<'_>) -> Result<StoreParts, String> {
    let nodes = name_nodes::of(options.text("endpoint"))?;
    let name_node = format!("hdfs://{}", nodes.join(","));
    let builder = services::HdfsNative::default().name_node(&name_node);
    Ok(StoreParts {
        over_http: false,
        writes: WriteMode::HdfsRename(HdfsClient::open(&nodes)?),
        ..with_exact_times(operator(builder)?)
    })
}

pub fn build_web(options: &Options<'_>) -> Result<StoreParts, String> {
    Ok(StoreParts {
        writes: WriteMode::ReadOnly,
        ..with_exact_times(operator(webhdfs(options)?)?)
    })
}

/// Stat and listing have equal times, to the last digit.
fn with_exact_times(operator: Operator) -> StoreParts {
    let parts = StoreParts::new(operator, ListStyle::Directories, VersionKind::None);
    StoreParts {
        dialect: Dialect {
            exact_times: true,
            ..parts.dialect
        },
        ..parts
    }
}

fn webhdfs(options: &Options<'_>) -> Result<services::Webhdfs, String> {
    let builder = services::Webhdfs::default()
        .endpoint(options.text("endpoint"))
        .disable_list_batch();
    let builder = options.set(builder, "user", services::Webhdfs::user_name);
    Ok(match options.env_file()? {
        Some(file) => builder.delegation(file.demand("WEBHDFS_DELEGATION_TOKEN")?),
        None => builder.delegation(&environment("WEBHDFS_DELEGATION_TOKEN")),
    })
}
