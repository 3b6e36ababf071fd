// SPDX-License-Identifier: Apache-2.0
//! From options to services: which schemes there are and how each speaks. leat_store.h has the
//! options.
use std::collections::HashMap;

use opendal::{Builder, Operator, services};

use crate::entry::{Dialect, VersionKind};
use crate::listing::Style;
use crate::s3;
use crate::store::Built;

/// The options of a store.
pub struct Options<'a>(pub &'a HashMap<String, String>);

impl Options<'_> {
    pub fn text(&self, name: &str) -> &str {
        self.0.get(name).map(String::as_str).unwrap_or_default()
    }

    pub fn is_on(&self, name: &str) -> bool {
        self.text(name) == "true"
    }

    /// Where it is given: an empty text is not the same as none for some builders.
    pub fn set<B>(&self, builder: B, name: &str, set: impl FnOnce(B, &str) -> B) -> B {
        match self.text(name) {
            "" => builder,
            value => set(builder, value),
        }
    }
}

pub fn operator(builder: impl Builder) -> Result<Operator, String> {
    Operator::new(builder).map_err(|error| error.message().to_string())
}

pub fn build(options: &HashMap<String, String>) -> Result<Built, String> {
    let options = &Options(options);
    let bucket = options.text("bucket");
    let endpoint = options.text("endpoint");
    use Style::{Continued, Index, Levels, StartAfter};
    use VersionKind::{Etag, Generation, None};
    let built = match options.text("scheme") {
        "s3" => return s3::build(options),
        "memory" => Built {
            over_http: false,
            ..Built::alone(operator(services::Memory::default())?, Continued, Etag)
        },
        "gs" => Built::alone(operator(gcs(options))?, StartAfter, Generation),
        "az" => azure(Built::alone(operator(azblob(options))?, Continued, Etag)),
        "abfs" => azure(Built::alone(operator(azdls(options))?, Levels, Etag)),
        "oss" => {
            let builder = services::Oss::default().bucket(bucket).endpoint(endpoint);
            let builder = match options.is_on("anonymous") {
                true => builder.skip_signature(),
                false => builder,
            };
            Built::alone(operator(builder)?, StartAfter, Etag)
        }
        "cos" => {
            let builder = services::Cos::default().bucket(bucket).endpoint(endpoint);
            Built::alone(operator(builder)?, Continued, Etag)
        }
        "obs" => {
            let builder = services::Obs::default().bucket(bucket).endpoint(endpoint);
            Built::alone(operator(builder)?, Continued, Etag)
        }
        "b2" => {
            let builder = services::B2::default()
                .bucket(bucket)
                .bucket_id(options.text("bucket_id"))
                .application_key_id(&environment("B2_APPLICATION_KEY_ID"))
                .application_key(&environment("B2_APPLICATION_KEY"));
            Built::alone(operator(builder)?, StartAfter, None)
        }
        "webhdfs" => {
            let builder = services::Webhdfs::default()
                .endpoint(endpoint)
                .disable_list_batch();
            let builder = options.set(builder, "user", services::Webhdfs::user_name);
            exact(Built::alone(operator(builder)?, Levels, None))
        }
        "hdfs" => {
            let builder = services::HdfsNative::default().name_node(endpoint);
            exact(Built {
                over_http: false,
                ..Built::alone(operator(builder)?, Levels, None)
            })
        }
        "http" => {
            let builder = services::Http::default().endpoint(endpoint);
            Built::alone(operator(builder)?, Index, Etag)
        }
        "sftp" => {
            let builder = services::Sftp::default().endpoint(endpoint).root("/");
            let builder = options.set(builder, "user", services::Sftp::user);
            let builder = options.set(builder, "key", services::Sftp::key);
            let builder = options.set(builder, "known_hosts", services::Sftp::known_hosts_strategy);
            Built {
                over_http: false,
                ..Built::alone(operator(builder)?, Levels, None)
            }
        }
        other => return Err(format!("scheme '{other}' is not built in")),
    };
    Ok(built)
}

/// One whose times are the same everywhere, to the last digit.
fn exact(built: Built) -> Built {
    Built {
        dialect: Dialect {
            exact_times: true,
            ..built.dialect
        },
        ..built
    }
}

fn azure(built: Built) -> Built {
    Built {
        dialect: Dialect {
            turns_backslash: true,
            ..built.dialect
        },
        ..built
    }
}

fn gcs(options: &Options<'_>) -> services::Gcs {
    let builder = services::Gcs::default().bucket(options.text("bucket"));
    let builder = options.set(builder, "endpoint", services::Gcs::endpoint);
    let builder = options.set(builder, "credentials", services::Gcs::credential_path);
    if options.is_on("anonymous") {
        return builder.skip_signature();
    }
    builder
}

fn azblob(options: &Options<'_>) -> services::Azblob {
    let builder = services::Azblob::default()
        .container(options.text("bucket"))
        .endpoint(options.text("endpoint"));
    let builder = options.set(builder, "account", services::Azblob::account_name);
    if options.is_on("anonymous") {
        return builder.skip_signature();
    }
    builder
}

fn azdls(options: &Options<'_>) -> services::Azdls {
    let builder = services::Azdls::default()
        .filesystem(options.text("bucket"))
        .endpoint(options.text("endpoint"));
    options.set(builder, "account", services::Azdls::account_name)
}

fn environment(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}
