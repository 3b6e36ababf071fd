// SPDX-License-Identifier: Apache-2.0
//! Azure: Blob Storage, and Data Lake Storage with its real directories.
use opendal::{Operator, services};
use reqsign_azure_storage::DefaultCredentialProvider;
use reqsign_core::ProvideCredentialChain;

use crate::auth::env_file::InsteadOfEnvironment;
use crate::backends::options::{Options, operator};
use crate::backends::parts::{StoreParts, WriteMode};
use crate::core::kinds::{Dialect, ListStyle, VersionKind};

pub fn build_blob(options: &Options<'_>) -> Result<StoreParts, String> {
    let operator = operator(azblob(options)?)?;
    Ok(with_dialect(operator, ListStyle::Continued))
}

pub fn build_data_lake(options: &Options<'_>) -> Result<StoreParts, String> {
    let operator = operator(azdls(options)?)?;
    Ok(StoreParts {
        writes: WriteMode::StagedRename,
        ..with_dialect(operator, ListStyle::Directories)
    })
}

fn with_dialect(operator: Operator, style: ListStyle) -> StoreParts {
    let parts = StoreParts::new(operator, style, VersionKind::Etag);
    StoreParts {
        dialect: Dialect {
            turns_backslash: true,
            ..parts.dialect
        },
        ..parts
    }
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
