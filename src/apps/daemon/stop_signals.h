// SPDX-License-Identifier: Apache-2.0
// StopSignals: SIGTERM, SIGINT and SIGHUP as something to wait for. A second one ends the process
// at once: who sends it does not want to wait for a clean end. What comes right behind the first is
// the same wish: the kernel tells of a parent's death (PR_SET_PDEATHSIG) by one signal for each
// thread that the parent had, and a terminal and whoever passes its Ctrl-C on send one each.
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
  // Before any other thread starts: they inherit that the signals are blocked.
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;

  // As if a signal had come. From any thread, any number of times.
  void request(std::string reason);
  // Returns the reason of the first.
  std::string wait();
  // Whether a signal has come.
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
