// SPDX-License-Identifier: Apache-2.0
//! Roles of AWS: the credentials of one that is assumed by STS, and where STS is.
use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response, Uri};
use opendal::HttpTransporter;
use reqsign_aws_v4::{AssumeRoleCredentialProvider, Credential, RequestSigner};
use reqsign_core::{Context, Error, HttpSend, ProvideCredential, Result, SignRequest, Signer};

use crate::credentials::{Credentials, SharedCredentials};

/// What AWS grants at least and at most are 15 minutes and what the role allows; an hour is what
/// every role allows.
const LASTS_S: u32 = 60 * 60;

/// Where STS is asked, instead of the region's own endpoint.
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

    /// The same request, of this endpoint.
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

/// Carries what credential providers ask, and what they ask of STS to its endpoint.
#[derive(Debug)]
pub struct ProviderTransport {
    pub transport: HttpTransporter,
    pub sts: StsEndpoint,
}

impl HttpSend for ProviderTransport {
    async fn http_send(&self, mut request: Request<Bytes>) -> Result<Response<Bytes>> {
        // Providers know only Amazon's own names. What was signed has been sent on already.
        let host = request.uri().host().unwrap_or_default();
        if host.starts_with("sts.") && host.contains(".amazonaws.") {
            *request.uri_mut() = self.sts.redirect(request.uri())?;
        }
        self.transport.http_send(request).await
    }
}

/// Signs what is asked of STS, for the endpoint that it goes to.
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

/// A role to be assumed, and by whom.
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
        // Made anew each time, since a signer remembers the credential that it signed with.
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
            // Nobody to assume it: said as of every store without credentials.
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
