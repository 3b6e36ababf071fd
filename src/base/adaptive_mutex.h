// SPDX-License-Identifier: Apache-2.0
// AdaptiveMutex: a mutex for critical sections of about ten nanoseconds that all threads enter
// constantly. A thread that finds it locked spins briefly before it sleeps: a sleep and a wake-up
// cost a hundred times what the section does.
#pragma once

#include <pthread.h>

#include "base/check.h"

namespace leat {

class AdaptiveMutex {
 public:
  AdaptiveMutex() {
    pthread_mutexattr_t attributes;
    LEAT_CHECK(pthread_mutexattr_init(&attributes) == 0);
    LEAT_CHECK(pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ADAPTIVE_NP) == 0);
    LEAT_CHECK(pthread_mutex_init(&mutex_, &attributes) == 0);
    pthread_mutexattr_destroy(&attributes);
  }
  ~AdaptiveMutex() { pthread_mutex_destroy(&mutex_); }
  AdaptiveMutex(const AdaptiveMutex&) = delete;
  AdaptiveMutex& operator=(const AdaptiveMutex&) = delete;

  void lock() { pthread_mutex_lock(&mutex_); }
  void unlock() { pthread_mutex_unlock(&mutex_); }
  bool try_lock() { return pthread_mutex_trylock(&mutex_) == 0; }

 private:
  pthread_mutex_t mutex_;
};

}  // namespace leat
