// SPDX-License-Identifier: Apache-2.0
//! ExchangeExecutor: OpenDAL's background work, in the exchange of the attempt that started it.
use std::sync::Arc;

use opendal::Execute;
use opendal::raw::BoxedStaticFuture;

use crate::attempt::exchange::EXCHANGE;

/// Parts that are sent in the background belong to the exchange of the request that started them.
pub struct ExchangeExecutor;

impl Execute for ExchangeExecutor {
    fn execute(&self, work: BoxedStaticFuture<()>) {
        match EXCHANGE.try_with(Arc::clone) {
            Ok(exchange) => tokio::spawn(EXCHANGE.scope(exchange, work)),
            Err(_) => tokio::spawn(work),
        };
    }
}
