// SPDX-License-Identifier: Apache-2.0
//! Roles of AWS: the credentials of a role that STS assumes, and the endpoint of STS.
use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response, Uri};
use opendal::HttpTransporter;
use reqsign_aws_v4::{AssumeRoleCredentialProvider, Credential, RequestSigner};
use reqsign_core::{Context, Error, HttpSend, ProvideCredential, Result, SignRequest, Signer};

use crate::auth::credentials::{Credentials, SharedCredentials};

/// AWS grants 15 minutes at least and the role's maximum at most; every role allows an hour.
const LASTS_S: u32 = 60 * 60;

/// Endpoint of STS, instead of the region's own.
#[derive(Clone, Debug)]
pub struct StsEndpoint(Option<Uri>);

impl StsEndpoint {
    pub fn new(endpoint: &str) -> std::result::Result<Self, String> {
        if endpoint.is_empty() {
            return Ok(Self(None));
        }
        match endpoint.parse::<Uri>() {
            Ok(uri) if uri.scheme().is_some() && uri.authority().is_some() => Ok(Self(Some(uri))),
            _ => Err(format!("the endpoint of STS, '{endpoint}', is no URL")),
        }
    }

    /// Returns the same request for this endpoint.
    fn redirect(&self, uri: &Uri) -> Result<Uri> {
        let (Some(to), Some(what)) = (&self.0, uri.path_and_query()) else {
            return Ok(uri.clone());
        };
        let path = to.path().trim_end_matches('/');
        let mut parts = to.clone().into_parts();
        parts.path_and_query = format!("{path}{what}").parse().ok();
        Uri::from_parts(parts).map_err(|error| Error::request_invalid(error.to_string()))
    }
}

/// Sends the requests of credential providers, and those for STS to its endpoint.
#[derive(Debug)]
pub struct ProviderTransport {
    pub transport: HttpTransporter,
    pub sts: StsEndpoint,
}

impl HttpSend for ProviderTransport {
    async fn http_send(&self, mut request: Request<Bytes>) -> Result<Response<Bytes>> {
        // Providers know only Amazon's own names. Requests that this library signed already have
        // their final host.
        let host = request.uri().host().unwrap_or_default();
        if host.starts_with("sts.") && host.contains(".amazonaws.") {
            *request.uri_mut() = self.sts.redirect(request.uri())?;
        }
        self.transport.http_send(request).await
    }
}

/// Signs requests to STS, for their actual endpoint.
#[derive(Debug)]
struct StsSigner {
    signer: RequestSigner,
    sts: StsEndpoint,
}

impl SignRequest for StsSigner {
    type Credential = Credential;

    async fn sign_request(
        &self,
        context: &Context,
        request: &mut Parts,
        credential: Option<&Credential>,
        expires_in: Option<std::time::Duration>,
    ) -> Result<()> {
        request.uri = self.sts.redirect(&request.uri)?;
        self.signer
            .sign_request(context, request, credential, expires_in)
            .await
    }
}

/// A role to be assumed, and the credentials that assume it.
pub struct Role {
    pub arn: String,
    pub session: String,
    pub external_id: String,
    pub region: String,
    pub sts: StsEndpoint,
    pub base: Arc<Credentials>,
}

impl std::fmt::Debug for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Role")
    }
}

impl Role {
    async fn assume(&self, context: &Context) -> Result<Option<Credential>> {
        let signer = StsSigner {
            signer: RequestSigner::new("sts", &self.region),
            sts: self.sts.clone(),
        };
        // Recreated each time, since a signer caches the credential that it signed with.
        let signer = Signer::new(
            context.clone(),
            SharedCredentials(self.base.clone()),
            signer,
        );
        let mut provider = AssumeRoleCredentialProvider::new(self.arn.clone(), signer)
            .with_region(self.region.clone())
            .with_regional_sts_endpoint()
            .with_duration_seconds(LASTS_S);
        if !self.session.is_empty() {
            provider = provider.with_role_session_name(self.session.clone());
        }
        if !self.external_id.is_empty() {
            provider = provider.with_external_id(self.external_id.clone());
        }
        provider.provide_credential(context).await
    }
}

impl ProvideCredential for Role {
    type Credential = Credential;

    fn provide_credential(
        &self,
        context: &Context,
    ) -> impl Future<Output = Result<Option<Credential>>> + Send {
        async move {
            // No base credentials: reported as for every store without credentials.
            let Some(used) = self.base.get().await? else {
                return Ok(None);
            };
            match self.assume(context).await {
                // A file that was replaced since it was read.
                Err(error) if !error.is_retryable() && self.base.renew(&used).await => {
                    self.assume(context).await
                }
                done => done,
            }
        }
    }
}
