// SPDX-License-Identifier: Apache-2.0
//! From options to services: the schemes and their dialects. leat_store.h has the options.
use std::collections::HashMap;
use std::ffi::OsString;
use std::time::Duration;

use opendal::{Builder, Operator, services};
use reqsign_azure_storage::DefaultCredentialProvider;
use reqsign_core::ProvideCredentialChain;

use crate::auth::env_file::{EnvFile, InsteadOfEnvironment};
use crate::backends::hdfs::client::Hdfs;
use crate::backends::hdfs::name_nodes;
use crate::backends::huggingface::hub::Hub;
use crate::backends::huggingface::token::HubToken;
use crate::backends::s3;
use crate::core::entry::{Dialect, VersionKind};
use crate::store::list::Style;
use crate::store::open::Built;
use crate::store::write::Writes;

/// Limit for a web server that ignores ranges: each read gets the object from its beginning.
const WHOLE_MAX: u64 = 64 << 20;
/// How long the commit of a hub's branch is cached.
const COMMIT_LASTS: Duration = Duration::from_secs(5);

/// The options of a store.
pub struct Options<'a>(pub &'a HashMap<String, String>);

impl Options<'_> {
    pub fn text(&self, name: &str) -> &str {
        self.0.get(name).map(String::as_str).unwrap_or_default()
    }

    pub fn is_on(&self, name: &str) -> bool {
        self.text(name) == "true"
    }

    /// The file of `credentials`, if it holds variables.
    fn env_file(&self) -> Result<Option<EnvFile>, String> {
        match self.text("credentials") {
            "" => Ok(None),
            file => EnvFile::read(file).map(Some),
        }
    }

    /// Calls `set` if the option is given: for some builders an empty text differs from none.
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
    check_environment(options.text("scheme"))?;
    let built = build_service(options)?;
    Ok(match is_google(options) {
        true => accepting_gzip(built),
        false => built,
    })
}

/// Google unpacks objects of `Content-Encoding: gzip` for clients that do not accept it, and then
/// ignores the range (decompressive transcoding), also through its S3 interface.
fn is_google(options: &Options<'_>) -> bool {
    let host = options.text("endpoint").rsplit('/').next();
    options.text("scheme") == "gs" || host == Some("storage.googleapis.com")
}

fn accepting_gzip(built: Built) -> Built {
    Built {
        dialect: Dialect {
            accepts: "gzip",
            ..built.dialect
        },
        ..built
    }
}

fn build_service(options: &Options<'_>) -> Result<Built, String> {
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
        "az" => azure(Built::alone(operator(azblob(options)?)?, Continued, Etag)),
        "abfs" => azure(Built {
            writes: Writes::Renamed,
            ..Built::alone(operator(azdls(options)?)?, Levels, Etag)
        }),
        "oss" => Built::alone(operator(oss(options)?)?, StartAfter, Etag),
        "cos" => Built::alone(operator(cos(options)?)?, Continued, Etag),
        "obs" => Built::alone(operator(obs(options)?)?, Continued, Etag),
        "b2" => Built::alone(operator(b2(options)?)?, StartAfter, None),
        "webhdfs" => exact(Built {
            writes: Writes::Never,
            ..Built::alone(operator(webhdfs(options)?)?, Levels, None)
        }),
        "hdfs" => {
            let nodes = name_nodes::of(endpoint)?;
            let builder =
                services::HdfsNative::default().name_node(&format!("hdfs://{}", nodes.join(",")));
            exact(Built {
                over_http: false,
                writes: Writes::Hdfs(Hdfs::open(&nodes)?),
                ..Built::alone(operator(builder)?, Levels, None)
            })
        }
        "http" => {
            let builder = services::Http::default().endpoint(endpoint);
            let built = Built::alone(operator(builder)?, Index, Etag);
            Built {
                writes: Writes::Never,
                dialect: Dialect {
                    whole_max: WHOLE_MAX,
                    ..built.dialect
                },
                ..built
            }
        }
        "hf" => hub(options)?,
        "sftp" => {
            let builder = services::Sftp::default().endpoint(endpoint).root("/");
            let builder = options.set(builder, "user", services::Sftp::user);
            let builder = options.set(builder, "key", services::Sftp::key);
            let builder = options.set(builder, "known_hosts", services::Sftp::known_hosts_strategy);
            Built {
                over_http: false,
                writes: Writes::Renamed,
                ..Built::alone(operator(builder)?, Levels, None)
            }
        }
        other => return Err(format!("scheme '{other}' is not built in")),
    };
    Ok(built)
}

/// A store with equal times in stat and listing, to the last digit.
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

/// A named file is the only place: a requester must not change identity when the file is gone.
fn gcs(options: &Options<'_>) -> services::Gcs {
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

fn azblob(options: &Options<'_>) -> Result<services::Azblob, String> {
    let builder = services::Azblob::default()
        .container(options.text("bucket"))
        .endpoint(options.text("endpoint"));
    let builder = options.set(builder, "account", services::Azblob::account_name);
    if options.is_on("anonymous") {
        return Ok(builder.skip_signature());
    }
    Ok(match azure_chain(options)? {
        Some(chain) => builder.credential_provider_chain(chain),
        None => builder,
    })
}

fn azdls(options: &Options<'_>) -> Result<services::Azdls, String> {
    let builder = services::Azdls::default()
        .filesystem(options.text("bucket"))
        .endpoint(options.text("endpoint"));
    let builder = options.set(builder, "account", services::Azdls::account_name);
    Ok(match azure_chain(options)? {
        Some(chain) => builder.credential_provider_chain(chain),
        None => builder,
    })
}

/// Credentials of the named file, with any of Azure's variables.
fn azure_chain(
    options: &Options<'_>,
) -> Result<Option<ProvideCredentialChain<reqsign_azure_storage::Credential>>, String> {
    let Some(mut file) = options.env_file()? else {
        return Ok(None);
    };
    file.set_default("AZURE_STORAGE_ACCOUNT_NAME", options.text("account"));
    let provider = DefaultCredentialProvider::builder()
        .no_azure_cli()
        .no_azure_pipelines()
        .no_imds()
        .build();
    let provider = InsteadOfEnvironment { file, provider };
    Ok(Some(ProvideCredentialChain::new().push(provider)))
}

fn oss(options: &Options<'_>) -> Result<services::Oss, String> {
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

fn cos(options: &Options<'_>) -> Result<services::Cos, String> {
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

fn obs(options: &Options<'_>) -> Result<services::Obs, String> {
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

fn b2(options: &Options<'_>) -> Result<services::B2, String> {
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

/// The hub reads by itself; the service only declares the capabilities.
fn hub(options: &Options<'_>) -> Result<Built, String> {
    let endpoint = options.text("endpoint");
    let service = services::Http::default().endpoint(endpoint);
    let built = Built::alone(operator(service)?, Style::Index, VersionKind::Etag);
    let token = HubToken::find(options.text("credentials"), options.is_on("anonymous"));
    let lasts = match options.text("commit_lasts_ms") {
        "" => COMMIT_LASTS,
        text => Duration::from_millis(
            text.parse()
                .map_err(|_| format!("commit_lasts_ms={text} is not a number"))?,
        ),
    };
    let hub = Hub::new(
        endpoint,
        options.text("bucket"),
        token,
        built.dialect,
        lasts,
    );
    Ok(Built {
        hub: Some(hub),
        writes: Writes::Never,
        ..built
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

fn environment(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}
