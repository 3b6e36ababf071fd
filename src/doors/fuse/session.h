// SPDX-License-Identifier: Apache-2.0
// Session: libfuse's session of one mount: its options, what is agreed with the kernel at INIT, and
// the threads that take requests.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "doors/fuse/door_state.h"

namespace leat {

class Session {
 public:
  // Mounts and starts the threads. Returns when the kernel and the door have agreed.
  static Result<std::unique_ptr<Session>> start(DoorState& door, const std::string& mountpoint);
  // The connection ends with it, if it has not yet.
  ~Session();

  // Until no thread takes requests any more, which is when the connection is gone.
  void wait();
  // The same for at most `patience`; whether it is gone.
  bool wait_for(std::chrono::milliseconds patience);
  bool running() const { return !ended_.load(); }
  // Makes the threads stop though the connection lives.
  void exit() { fuse_session_exit(session_.get()); }

  fuse_session* get() { return session_.get(); }

 private:
  struct Destroy {
    void operator()(fuse_session* session) const { fuse_session_destroy(session); }
  };

  Session(DoorState& door, fuse_session* session) : door_(door), session_(session) {}
  void take_requests();

  DoorState& door_;
  std::unique_ptr<fuse_session, Destroy> session_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> ended_ = false;  // written under mutex_
  std::thread thread_;
};

}  // namespace leat
