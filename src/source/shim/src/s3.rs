// SPDX-License-Identifier: Apache-2.0
//! S3 and what speaks its language: options → service and signer.
use std::collections::HashMap;
use std::sync::Arc;

use opendal::{Operator, services};
use reqsign_aws_v4::{Credential, DefaultCredentialProvider};
use reqsign_core::ProvideCredentialChain;

use crate::credentials::{Credentials, SharedCredentials};
use crate::sign::Signer;
use crate::store::Built;
use crate::transport::http_transport;

pub fn build(options: &HashMap<String, String>) -> Result<Built, String> {
    let text = |name: &str| options.get(name).map(String::as_str).unwrap_or_default();
    if text("anonymous") == "true" {
        return Built::alone(builder(options).skip_signature());
    }
    let credentials = Credentials::new(chain(text("profile")), http_transport());
    let shared = ProvideCredentialChain::new().push(SharedCredentials(credentials.clone()));
    let operator = operator(builder(options).credential_provider_chain(shared))?;
    // Directory buckets are signed with a session of their own.
    if text("bucket").ends_with("--x-s3") {
        return Ok(Built {
            reader: operator.clone(),
            operator,
            signer: None,
        });
    }
    Ok(Built {
        reader: self::operator(builder(options).skip_signature())?,
        operator,
        signer: Some(Arc::new(Signer::new(
            text("region").to_string(),
            credentials,
        ))),
    })
}

fn operator(builder: services::S3) -> Result<Operator, String> {
    Operator::new(builder).map_err(|error| error.message().to_string())
}

fn builder(options: &HashMap<String, String>) -> services::S3 {
    let text = |name: &str| options.get(name).map(String::as_str).unwrap_or_default();
    let builder = services::S3::default()
        .bucket(text("bucket"))
        .region(text("region"))
        .endpoint(text("endpoint"));
    if text("virtual_host") == "true" {
        return builder.enable_virtual_host_style();
    }
    builder
}

fn chain(profile: &str) -> ProvideCredentialChain<Credential> {
    let mut found = DefaultCredentialProvider::builder();
    if !profile.is_empty() {
        found = found.with_profile(profile);
    }
    ProvideCredentialChain::new().push(found.build())
}
