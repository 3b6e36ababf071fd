// SPDX-License-Identifier: Apache-2.0
//! Credentials of an S3 store: reqsign's providers find them, this remembers them, and for how long.
use std::collections::HashMap;
use std::future::Future;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use reqsign_aws_v4::Credential;
use reqsign_core::time::Timestamp;
use reqsign_core::{
    Context, Env, Error, HttpSend, OsEnv, ProvideCredential, ProvideCredentialDyn, Result,
    SigningCredential,
};
use reqsign_file_read_tokio::TokioFileRead;

use crate::command::ThreadedCommand;
use crate::exchange::{EXCHANGE, Exchange, Purpose};
use crate::get::Terms;

/// Of those that name no end: files and the environment, which people change.
const READ_AGAIN_AFTER: Duration = Duration::from_secs(30);
/// A store that refuses everything must not make us read files for each request.
const DOUBT_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// For all providers together; the machine's role is asked over the network.
const ASK_MAX: Duration = Duration::from_secs(8);

struct Known {
    credential: Arc<Credential>,
    since: Instant,
    /// When the store last refused it.
    refused: Option<Instant>,
    /// To be read again at once.
    doubted: bool,
    /// The providers failed then: what is known is used for a while more.
    failed: Option<Instant>,
}

impl Known {
    fn is_fresh(&self) -> bool {
        let lasts = self.credential.expires_in.is_some();
        !self.doubted
            && self.credential.is_valid()
            && (lasts || self.since.elapsed() < READ_AGAIN_AFTER)
    }

    fn is_usable(&self) -> bool {
        self.credential.is_valid_at(Timestamp::now())
    }

    fn has_just_failed(&self) -> bool {
        self.failed
            .is_some_and(|when| when.elapsed() < DOUBT_AGAIN_AFTER)
    }
}

/// The process's environment. A variable that is empty is none, as in AWS's own tools, and one that
/// is not text is nobody's: OsEnv would end the process over it.
#[derive(Debug)]
struct Variables;

impl Env for Variables {
    fn var(&self, key: &str) -> Option<String> {
        OsEnv.var(key).filter(|value| !value.is_empty())
    }

    fn vars(&self) -> HashMap<String, String> {
        std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(_, value)| !value.is_empty())
            .collect()
    }

    fn home_dir(&self) -> Option<PathBuf> {
        OsEnv.home_dir()
    }
}

/// Shared by everything that signs for one store.
pub struct Credentials {
    provider: Arc<dyn ProvideCredentialDyn<Credential = Credential>>,
    context: Context,
    known: RwLock<Option<Known>>,
    /// Held while the provider is asked, so that it is asked once for all who wait.
    asking: tokio::sync::Mutex<()>,
    /// The provider is asked, and nobody waits for it.
    refreshing: AtomicBool,
}

impl Credentials {
    pub fn new(
        provider: impl ProvideCredential<Credential = Credential>,
        transport: impl HttpSend,
    ) -> Arc<Self> {
        Arc::new(Self {
            provider: Arc::new(provider),
            context: Context::new()
                .with_file_read(TokioFileRead)
                .with_http_send(transport)
                .with_command_execute(ThreadedCommand)
                .with_env(Variables),
            known: RwLock::default(),
            asking: tokio::sync::Mutex::default(),
            refreshing: AtomicBool::new(false),
        })
    }

    /// Nothing when no provider has any. Who has one that works does not wait for the next one, and
    /// who gives up waiting takes nothing from the others.
    pub async fn get(self: &Arc<Self>) -> Result<Option<Arc<Credential>>> {
        if let Some(known) = self.fresh() {
            return Ok(Some(known));
        }
        let asking = self.clone();
        if let Some(known) = self.working() {
            if !self.refreshing.swap(true, Ordering::AcqRel) {
                tokio::spawn(async move {
                    let _ = asking.ask_in_turn().await;
                    asking.refreshing.store(false, Ordering::Release);
                });
            }
            return Ok(Some(known));
        }
        let asked = tokio::spawn(async move { asking.ask_in_turn().await });
        asked
            .await
            .unwrap_or_else(|_| Err(Error::unexpected("nobody asked for credentials")))
    }

    async fn ask_in_turn(&self) -> Result<Option<Arc<Credential>>> {
        let _asking = self.asking.lock().await;
        if let Some(known) = self.fresh() {
            return Ok(Some(known));
        }
        match self.ask().await {
            Ok(Some(credential)) => Ok(Some(self.remember(credential))),
            // A file that is just being replaced is not the end of a credential that works.
            Ok(None) => Ok(self.still_usable()),
            Err(error) => self.still_usable().map(Some).ok_or(error),
        }
    }

    /// In an exchange of its own: what it sends is no part of the read that waits for it.
    async fn ask(&self) -> Result<Option<Credential>> {
        let terms = Terms {
            first_byte: ASK_MAX,
            silence: ASK_MAX,
        };
        let exchange = Exchange::new(Purpose::Other, terms);
        let asked = EXCHANGE.scope(
            exchange,
            self.provider.provide_credential_dyn(&self.context),
        );
        let asked = tokio::time::timeout(ASK_MAX, asked).await;
        asked.unwrap_or_else(|_| Err(Error::unexpected("no answer about credentials")))
    }

    /// The store refused `used`: whether there is another one now.
    pub async fn renew(self: &Arc<Self>, used: &Arc<Credential>) -> bool {
        self.doubt(used);
        match self.get().await {
            Ok(Some(now)) => !same(&now, used),
            _ => false,
        }
    }

    fn doubt(&self, used: &Credential) {
        let mut known = self.known.write().unwrap();
        let Some(known) = known.as_mut().filter(|one| same(&one.credential, used)) else {
            return;
        };
        let again = |when: Instant| when.elapsed() >= DOUBT_AGAIN_AFTER;
        if known.refused.is_none_or(again) {
            known.refused = Some(Instant::now());
            known.doubted = true;
        }
    }

    fn fresh(&self) -> Option<Arc<Credential>> {
        let known = self.known.read().unwrap();
        let known = known.as_ref()?;
        let good = known.is_fresh() || known.has_just_failed() && known.is_usable();
        good.then(|| known.credential.clone())
    }

    /// That may be used while another one is asked for: nobody refused it.
    fn working(&self) -> Option<Arc<Credential>> {
        let known = self.known.read().unwrap();
        let known = known.as_ref()?;
        (!known.doubted && known.is_usable()).then(|| known.credential.clone())
    }

    pub fn known(&self) -> Option<Arc<Credential>> {
        let known = self.known.read().unwrap();
        known.as_ref().map(|known| known.credential.clone())
    }

    /// What is known, when nobody can say anything better.
    fn still_usable(&self) -> Option<Arc<Credential>> {
        let mut known = self.known.write().unwrap();
        let known = known.as_mut().filter(|known| known.is_usable())?;
        known.failed = Some(Instant::now());
        Some(known.credential.clone())
    }

    /// The same one keeps its place in memory, so that what was derived from it stays good.
    fn remember(&self, found: Credential) -> Arc<Credential> {
        let mut known = self.known.write().unwrap();
        let (credential, refused) = match known.take() {
            Some(before) if same(&before.credential, &found) => (before.credential, before.refused),
            _ => (Arc::new(found), None),
        };
        *known = Some(Known {
            credential: credential.clone(),
            since: Instant::now(),
            refused,
            doubted: false,
            failed: None,
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
