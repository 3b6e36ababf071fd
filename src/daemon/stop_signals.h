// SPDX-License-Identifier: Apache-2.0
// StopSignals: waits for SIGTERM, SIGINT and SIGHUP. A second signal ends the process at once,
// since its sender does not want a clean end. Signals directly after the first count as the same:
// PR_SET_PDEATHSIG sends one signal for each thread of the dead parent. A terminal and a program
// that forwards its Ctrl-C each send one.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "runtime/disk.h"

namespace leat {

class StopSignals {
 public:
  // Create it before any other thread: threads inherit the blocked signals.
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;

  // Acts like a signal. From any thread, any number of times.
  void request(std::string reason);
  // Returns the reason of the first request.
  std::string wait();
  // Returns whether a signal has arrived.
  bool signalled() const { return signalled_.load(); }

 private:
  void watch();

  File signals_;
  File quit_;
  std::mutex mutex_;  // leaf
  std::condition_variable changed_;
  std::string reason_;
  std::atomic<bool> signalled_ = false;
  std::thread thread_;
};

}  // namespace leat
