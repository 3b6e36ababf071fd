// SPDX-License-Identifier: Apache-2.0
//! S3 and compatible stores: from options to service and signer.
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD as STANDARD;
use opendal::{Operator, services};
use reqsign_aws_v4::{Credential, DefaultCredentialProvider, ProfileCredentialProvider};
use reqsign_core::ProvideCredentialChain;

use crate::attempt::transport::http_transport;
use crate::auth::credentials::{Credentials, SharedCredentials};
use crate::auth::role::{ProviderTransport, Role, StsEndpoint};
use crate::auth::sign::Signer;
use crate::backends::options::{Options, operator};
use crate::backends::parts::StoreParts;
use crate::core::kinds::{ListStyle, VersionKind};

/// Key size of AES-256.
const CUSTOMER_KEY_BYTES: usize = 32;

pub fn build(options: &Options<'_>) -> Result<StoreParts, String> {
    if options.is_on("anonymous") {
        return Ok(StoreParts {
            uniform_reads: true,
            ..service_store(operator(builder(options)?.skip_signature())?)
        });
    }
    let credentials = credentials(options)?;
    let shared = ProvideCredentialChain::new().push(SharedCredentials(credentials.clone()));
    let signing = operator(builder(options)?.credential_provider_chain(shared))?;
    // Directory buckets need a session signature.
    if options.text("bucket").ends_with("--x-s3") {
        return Ok(service_store(signing));
    }
    let signer = Signer::new(options.text("region").to_string(), credentials);
    Ok(StoreParts {
        reader: operator(builder(options)?.skip_signature())?,
        signer: Some(Arc::new(signer)),
        uniform_reads: true,
        ..service_store(signing)
    })
}

/// A store that signs by its service, or needs no signature.
fn service_store(operator: Operator) -> StoreParts {
    StoreParts::new(operator, ListStyle::StartAfter, VersionKind::Etag)
}

fn builder(options: &Options<'_>) -> Result<services::S3, String> {
    use services::S3;
    let builder = S3::default()
        .bucket(options.text("bucket"))
        .region(options.text("region"))
        .endpoint(options.text("endpoint"));
    let builder = options.set(builder, "sse", S3::server_side_encryption);
    let builder = options.set(
        builder,
        "sse_kms_key",
        S3::server_side_encryption_aws_kms_key_id,
    );
    let builder = match options.text("sse_customer_key_file") {
        "" => builder,
        file => builder.server_side_encryption_with_customer_key("AES256", &customer_key(file)?),
    };
    let builder = match options.is_on("requester_pays") {
        true => builder.enable_request_payer(),
        false => builder,
    };
    Ok(match options.is_on("virtual_host") {
        true => builder.enable_virtual_host_style(),
        false => builder,
    })
}

/// The file holds the key's bytes, or their base64. Messages never contain them.
fn customer_key(file: &str) -> Result<Vec<u8>, String> {
    let held = std::fs::read(file)
        .map_err(|error| format!("cannot read sse_customer_key_file {file}: {error}"))?;
    if held.len() == CUSTOMER_KEY_BYTES {
        return Ok(held);
    }
    let text = held.trim_ascii();
    match STANDARD.decode(text) {
        Ok(key) if key.len() == CUSTOMER_KEY_BYTES => Ok(key),
        _ => Err(format!(
            "sse_customer_key_file {file} holds neither {CUSTOMER_KEY_BYTES} bytes nor the base64 \
             of as many"
        )),
    }
}

/// Credentials of the named role, assumed by those of the chain, or of the chain itself.
fn credentials(options: &Options<'_>) -> Result<Arc<Credentials>, String> {
    let sts = StsEndpoint::new(options.text("sts_endpoint"))?;
    let transport = || ProviderTransport {
        transport: http_transport(),
        sts: sts.clone(),
    };
    let base = chain(options.text("profile"), options.text("credentials"));
    let base = Credentials::new(base, transport());
    if options.text("role").is_empty() {
        return Ok(base);
    }
    let role = Role {
        arn: options.text("role").to_string(),
        session: options.text("role_session").to_string(),
        external_id: options.text("external_id").to_string(),
        region: options.text("region").to_string(),
        sts: sts.clone(),
        base,
    };
    Ok(Credentials::new(role, transport()))
}

/// A named profile has priority over the environment's keys, as with AWS's own tools; a named file
/// is the only source.
fn chain(profile: &str, file: &str) -> ProvideCredentialChain<Credential> {
    let chain = ProvideCredentialChain::new();
    if !file.is_empty() {
        let profile = if profile.is_empty() {
            "default"
        } else {
            profile
        };
        return chain.push(
            ProfileCredentialProvider::new()
                .with_credentials_file(file)
                .with_config_file(file)
                .with_profile(profile),
        );
    }
    let mut found = DefaultCredentialProvider::builder();
    if !profile.is_empty() {
        found = found.with_profile(profile).no_env();
    }
    chain.push(found.build())
}
