// SPDX-License-Identifier: Apache-2.0
//! Credentials of an S3 store: reqsign's providers find them, this remembers them, and for how long.
use std::future::Future;
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use opendal::HttpTransporter;
use reqsign_aws_v4::Credential;
use reqsign_core::time::Timestamp;
use reqsign_core::{
    Context, OsEnv, ProvideCredential, ProvideCredentialChain, Result, SigningCredential,
};
use reqsign_file_read_tokio::TokioFileRead;

/// Of those that name no end: files and the environment, which people change.
const READ_AGAIN_AFTER: Duration = Duration::from_secs(30);
/// A store that refuses everything must not make us read files for each request.
const DOUBT_AGAIN_AFTER: Duration = Duration::from_secs(1);

struct Known {
    credential: Arc<Credential>,
    since: Instant,
}

/// Shared by everything that signs for one store.
pub struct Credentials {
    chain: ProvideCredentialChain<Credential>,
    context: Context,
    known: RwLock<Option<Known>>,
    /// Held while the chain is asked, so that it is asked once for all who wait.
    asking: tokio::sync::Mutex<()>,
}

impl Credentials {
    pub fn new(chain: ProvideCredentialChain<Credential>, transport: HttpTransporter) -> Arc<Self> {
        Arc::new(Self {
            chain,
            context: Context::new()
                .with_file_read(TokioFileRead)
                .with_http_send(transport)
                .with_env(OsEnv),
            known: RwLock::default(),
            asking: tokio::sync::Mutex::default(),
        })
    }

    /// Nothing when no provider has any.
    pub async fn get(&self) -> Result<Option<Arc<Credential>>> {
        if let Some(known) = self.fresh() {
            return Ok(Some(known));
        }
        let _asking = self.asking.lock().await;
        if let Some(known) = self.fresh() {
            return Ok(Some(known));
        }
        match self.chain.provide_credential(&self.context).await {
            Ok(Some(credential)) => Ok(Some(self.remember(credential))),
            // A file that is just being replaced is not the end of a credential that works.
            Ok(None) => Ok(self.still_valid()),
            Err(error) => self.still_valid().map(Some).ok_or(error),
        }
    }

    /// The store refused `used`: whether there is another one now.
    pub async fn renew(&self, used: &Arc<Credential>) -> bool {
        if let Some(known) = self.known.write().unwrap().as_mut() {
            let told = Arc::ptr_eq(&known.credential, used) || same(&known.credential, used);
            if told && known.since.elapsed() >= DOUBT_AGAIN_AFTER {
                known.since = known
                    .since
                    .checked_sub(READ_AGAIN_AFTER)
                    .unwrap_or(known.since);
            }
        }
        match self.get().await {
            Ok(Some(now)) => !same(&now, used),
            _ => false,
        }
    }

    fn fresh(&self) -> Option<Arc<Credential>> {
        let known = self.known.read().unwrap();
        let known = known.as_ref()?;
        let good = known.credential.is_valid()
            && (known.credential.expires_in.is_some() || known.since.elapsed() < READ_AGAIN_AFTER);
        good.then(|| known.credential.clone())
    }

    fn still_valid(&self) -> Option<Arc<Credential>> {
        let known = self.known.read().unwrap();
        let known = known.as_ref()?;
        known
            .credential
            .is_valid_at(Timestamp::now())
            .then(|| known.credential.clone())
    }

    /// The same one keeps its place in memory, so that what was derived from it stays good.
    fn remember(&self, found: Credential) -> Arc<Credential> {
        let mut known = self.known.write().unwrap();
        let credential = match known.take() {
            Some(before) if same(&before.credential, &found) => before.credential,
            _ => Arc::new(found),
        };
        *known = Some(Known {
            credential: credential.clone(),
            since: Instant::now(),
        });
        credential
    }
}

fn same(a: &Credential, b: &Credential) -> bool {
    a.access_key_id == b.access_key_id
        && a.secret_access_key == b.secret_access_key
        && a.session_token == b.session_token
        && a.expires_in == b.expires_in
}

/// The same credentials for OpenDAL's signer, which keeps what it gets until shortly before its end.
pub struct SharedCredentials(pub Arc<Credentials>);

impl std::fmt::Debug for SharedCredentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SharedCredentials")
    }
}

impl ProvideCredential for SharedCredentials {
    type Credential = Credential;

    fn provide_credential(
        &self,
        _: &Context,
    ) -> impl Future<Output = Result<Option<Credential>>> + Send {
        let credentials = self.0.clone();
        async move {
            let found = credentials.get().await?;
            Ok(found.map(|credential| {
                let mut short = Credential::clone(&credential);
                // Its signer renews two minutes before the end, so this one lasts for a second.
                let soon = Timestamp::now() + Duration::from_secs(121);
                short.expires_in = Some(short.expires_in.map_or(soon, |end| end.min(soon)));
                short
            }))
        }
    }
}
