// SPDX-License-Identifier: Apache-2.0
// PeerWatch: tells a worker that is slow from one that is dead. A request that has waited for a
// while is no sign: its store may be slow. So the worker is asked on another connection whether it
// lives; where that is not answered either, all requests that wait are ended. Costs a request two
// short locks; one task looks after all of them. Thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <stop_token>

#include "runtime/context.h"
#include "runtime/executor.h"

namespace leat {

struct PeerWatchOptions {
  // A request that has waited so long makes the worker be asked.
  Clock::duration patience = std::chrono::milliseconds(500);
  // Between two looks.
  Clock::duration look_every = std::chrono::milliseconds(250);
};

class PeerWatch : public std::enable_shared_from_this<PeerWatch> {
 public:
  // Whether the worker lives; bounds its own time.
  using Ping = std::function<Task<Result<>>()>;
  static std::shared_ptr<PeerWatch> make(PeerWatchOptions options, Ping ping, Executor& executor);

 private:
  struct Waiting {
    Clock::time_point since;
    std::stop_source stop;
    std::atomic<bool> dead = false;
  };

 public:
  // A request under way, for as long as this lives.
  class Request {
   public:
    // `grace`: for so long nobody expects an answer.
    Request(std::shared_ptr<PeerWatch> watch, Clock::duration grace);
    ~Request();
    Request(const Request&) = delete;

    // Of the request: ends with the caller's, and when the worker is found dead.
    Context context(const Context& of_caller);
    bool found_dead() const { return place_->dead.load(); }

   private:
    const std::shared_ptr<PeerWatch> watch_;
    std::list<Waiting>::iterator place_;
    std::optional<std::stop_callback<std::function<void()>>> passes_on_;
  };

 private:
  PeerWatch(PeerWatchOptions options, Ping ping, Executor& executor)
      : options_(options), ping_(std::move(ping)), spawner_(executor) {}

  static Task<> look_after(std::shared_ptr<PeerWatch> self);
  // Whether anybody waits too long; nothing: nobody has waited since the last look.
  std::optional<bool> look();
  void end_waiting();

  const PeerWatchOptions options_;
  const Ping ping_;
  const Spawner spawner_;
  std::mutex mutex_;  // leaf
  std::list<Waiting> waiting_;
  bool looking_ = false;
  bool used_ = false;  // since the last look
};

}  // namespace leat
