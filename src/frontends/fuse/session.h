// SPDX-License-Identifier: Apache-2.0
// Session: libfuse's session of one mount: its options, the INIT handshake with the kernel, and the
// request threads.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "frontends/fuse/fuse_server_state.h"

namespace leat {

class Session {
 public:
  // Mounts, or takes over the options' connection, and starts the threads. Returns after INIT.
  static Result<std::unique_ptr<Session>> start(FuseServerState& server,
                                                const std::string& mountpoint);
  // Ends the connection unless it has ended or another process keeps it.
  ~Session();

  // Waits until no thread takes requests any more, which means that the connection has ended.
  void wait();
  // The same for at most `timeout`; returns true if it has ended.
  bool wait_for(std::chrono::milliseconds timeout);
  bool running() const { return !ended_.load(); }
  // Stops the threads while the connection lives.
  void exit();
  // Makes the kernel resend all unanswered requests.
  void request_resend();
  // Discards all answers from now on. The threads must have stopped.
  void discard_replies();

  fuse_session* get() { return session_.get(); }
  int fd() const { return fuse_session_fd(session_.get()); }

 private:
  struct Destroy {
    void operator()(fuse_session* session) const { fuse_session_destroy(session); }
  };

  Session(FuseServerState& server, fuse_session* session) : server_(server), session_(session) {}
  Result<> connect(const std::string& mountpoint);
  Result<> negotiate(const std::string& mountpoint);
  // Both end with the connection, or with exit().
  void serve_device();
  void serve_ring();
  void answer_requests();
  void dispatch(std::span<std::byte> request);
  void reply_done();
  void on_ended();

  FuseServerState& server_;
  std::unique_ptr<fuse_session, Destroy> session_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> ended_ = false;  // written under mutex_
  std::atomic<bool> exiting_ = false;
  std::atomic<unsigned> serving_ = 0;  // threads that take requests from the device
  std::vector<std::thread> threads_;
};

}  // namespace leat
