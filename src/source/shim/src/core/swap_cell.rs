// SPDX-License-Identifier: Apache-2.0
//! SwapCell: a value that is replaced as a whole while it is used. A user keeps the value that it
//! loaded, so requests in flight are not affected.
use std::sync::{Arc, RwLock};

pub struct SwapCell<T>(Arc<RwLock<T>>);

impl<T> Clone for SwapCell<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Clone> SwapCell<T> {
    pub fn new(value: T) -> Self {
        Self(Arc::new(RwLock::new(value)))
    }

    pub fn load(&self) -> T {
        self.0.read().unwrap().clone()
    }

    pub fn store(&self, value: T) {
        *self.0.write().unwrap() = value;
    }
}
