// SPDX-License-Identifier: Apache-2.0
//! Attempts of a store's operations, with a second one after a rejected credential has changed.
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::attempt::exchange::{EXCHANGE, Exchange, Purpose};
use crate::attempt::trace::Trace;
use crate::core::failure::{Code, Failure};
use crate::core::timeouts::Timeouts;
use crate::store::open::Store;

/// How long OpenDAL's signer caches the result of `SharedCredentials`.
const SERVICE_CREDENTIAL_TTL: Duration = Duration::from_secs(1);

/// An attempt that the store rejected.
struct Rejected {
    exchange: Arc<Exchange>,
    openings: u64,
}

impl Store {
    /// Makes one attempt, and a second at once if the store rejected a credential that has changed
    /// since. All other retries are the caller's.
    pub async fn attempt<T, F: Future<Output = Result<T, Failure>>>(
        &self,
        trace: &mut Trace,
        purpose: impl Fn() -> Purpose,
        timeouts: Timeouts,
        mut work: impl FnMut() -> F,
    ) -> Result<T, Failure> {
        let mut renewed = false;
        loop {
            let (result, renewal) = self
                .attempt_once(trace, &purpose, timeouts, &mut work)
                .await;
            match renewal {
                Some(renewal) if !renewed && Box::pin(self.renew(&renewal)).await => renewed = true,
                _ => return result,
            }
        }
    }

    /// Makes one attempt of an operation that cannot be repeated: it started with the rejected
    /// credential. Later operations find a new one.
    pub async fn attempt_once_only<T, F: Future<Output = Result<T, Failure>>>(
        &self,
        trace: &mut Trace,
        timeouts: Timeouts,
        mut work: impl FnMut() -> F,
    ) -> Result<T, Failure> {
        let purpose = || Purpose::Other;
        let (result, renewal) = self.attempt_once(trace, purpose, timeouts, &mut work).await;
        if let Some(renewal) = renewal {
            Box::pin(self.renew(&renewal)).await;
        }
        result
    }

    /// The second value: a rejection that a new credential may fix.
    async fn attempt_once<T, F: Future<Output = Result<T, Failure>>>(
        &self,
        trace: &mut Trace,
        purpose: impl Fn() -> Purpose,
        timeouts: Timeouts,
        work: &mut impl FnMut() -> F,
    ) -> (Result<T, Failure>, Option<Rejected>) {
        if self.reload.is_due()
            && let Some(parts) = Box::pin(self.reload.if_changed()).await
        {
            self.reopen(parts);
        }
        let openings = self.reload.openings();
        trace.requests += 1;
        let exchange = Exchange::accepting(self.dialect.accepts, purpose(), timeouts);
        let result = EXCHANGE.scope(exchange.clone(), work()).await;
        trace.first_byte = exchange.first_byte();
        trace.retry_after = exchange.retry_after();
        trace.response = exchange.last_response();
        let is_rejected = matches!(&result, Err(failure) if failure.code == Code::PermissionDenied);
        (
            result,
            is_rejected.then_some(Rejected { exchange, openings }),
        )
    }

    /// Whether a retry may succeed now.
    async fn renew(&self, rejected: &Rejected) -> bool {
        self.renew_credential(&rejected.exchange).await || self.renew_store(rejected.openings).await
    }

    /// Whether there is another credential than the rejected one.
    async fn renew_credential(&self, exchange: &Exchange) -> bool {
        match (self.signer.load(), exchange.credential()) {
            (Some(signer), Some(used)) => signer.renew(&used).await,
            // The service signed with a credential that is up to a second old.
            (Some(signer), None) => {
                let renewed = signer.renew_cached().await;
                if renewed {
                    tokio::time::sleep(SERVICE_CREDENTIAL_TTL).await;
                }
                renewed
            }
            _ => false,
        }
    }

    /// Whether the store was reopened since it had `openings`.
    async fn renew_store(&self, openings: u64) -> bool {
        if self.reload.openings() == openings {
            match self.reload.after_rejection().await {
                Some(parts) => self.reopen(parts),
                None => return false,
            }
        }
        true
    }
}
