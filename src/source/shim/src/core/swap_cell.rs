// SPDX-License-Identifier: Apache-2.0
//! Live: a value that is replaced as a whole while it is used. A user keeps the value that it took,
//! so requests in flight are not affected.
use std::sync::{Arc, RwLock};

pub struct Live<T>(Arc<RwLock<T>>);

impl<T> Clone for Live<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Clone> Live<T> {
    pub fn new(value: T) -> Self {
        Self(Arc::new(RwLock::new(value)))
    }

    pub fn now(&self) -> T {
        self.0.read().unwrap().clone()
    }

    pub fn replace(&self, value: T) {
        *self.0.write().unwrap() = value;
    }
}
