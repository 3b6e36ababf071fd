// SPDX-License-Identifier: Apache-2.0
//! S3 and what speaks its language: options → service and signer.
use std::sync::Arc;

use opendal::{Operator, services};
use reqsign_aws_v4::{Credential, DefaultCredentialProvider};
use reqsign_core::ProvideCredentialChain;

use crate::credentials::{Credentials, SharedCredentials};
use crate::entry::VersionKind;
use crate::listing::Style;
use crate::services::{Options, operator};
use crate::sign::Signer;
use crate::store::Built;
use crate::transport::http_transport;

pub fn build(options: &Options<'_>) -> Result<Built, String> {
    if options.is_on("anonymous") {
        return Ok(alone(operator(builder(options).skip_signature())?));
    }
    let credentials = Credentials::new(chain(options.text("profile")), http_transport());
    let shared = ProvideCredentialChain::new().push(SharedCredentials(credentials.clone()));
    let signing = operator(builder(options).credential_provider_chain(shared))?;
    // Directory buckets are signed with a session of their own.
    if options.text("bucket").ends_with("--x-s3") {
        return Ok(alone(signing));
    }
    let signer = Signer::new(options.text("region").to_string(), credentials);
    Ok(Built {
        reader: operator(builder(options).skip_signature())?,
        signer: Some(Arc::new(signer)),
        ..alone(signing)
    })
}

fn alone(operator: Operator) -> Built {
    Built::alone(operator, Style::StartAfter, VersionKind::Etag)
}

fn builder(options: &Options<'_>) -> services::S3 {
    let builder = services::S3::default()
        .bucket(options.text("bucket"))
        .region(options.text("region"))
        .endpoint(options.text("endpoint"));
    if options.is_on("virtual_host") {
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
