// SPDX-License-Identifier: Apache-2.0
// WriteSessions: objects that clients write in pieces. A session holds at most one part of an
// object in memory. The object becomes visible with its last piece. A write without a piece for a
// minute is abandoned. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>

#include "base/id128.h"
#include "runtime/executor.h"
#include "runtime/gate.h"
#include "source/part_writer.h"
#include "source/source.h"
#include "wire/write_request.h"

namespace leat {

class WriteSessions {
 public:
  // Concurrent writes in pieces; each holds up to a part of the store (8 MiB or more) and a piece.
  static constexpr size_t kSessionsMax = 64;

  // `executor` must outlive the object; stop() must have ended before destruction.
  explicit WriteSessions(Executor& executor);

  // Takes one piece; `source` is the mount's. Returns the object with the last one, nothing before.
  // A piece that is already there is a success. Returns kUnavailable if the write is not in
  // progress (any more), kThrottled above kSessionsMax. A write that fails leaves nothing behind.
  Task<Result<std::optional<SourceObject>>> step(Context context, SourcePtr source,
                                                 PeerWrite request,
                                                 std::span<const std::byte> content);
  Task<> stop();

 private:
  struct Session {
    SourcePtr source;
    std::string mount, key;
    std::optional<PartWriter> writer;
    uint64_t next = 0;            // the next expected offset
    uint64_t last_piece = 0;      // offset of the last piece
    Clock::time_point last_at{};  // of a piece
  };
  using SessionPtr = std::shared_ptr<Session>;

  Result<SessionPtr> admit(const SourcePtr& source, const PeerWrite& request);
  Task<Result<std::optional<SourceObject>>> run(Context context, SessionPtr session,
                                                WritePiece piece,
                                                std::span<const std::byte> content);
  Task<> abandon(SessionPtr session);
  Task<> abort_idle(Gate::Holder holder);

  Executor& executor_;
  std::stop_source stopping_;
  Gate gate_;
  std::mutex mutex_;  // leaf
  // Waiting writes only: a write during a piece is absent, so a concurrent second piece finds none.
  std::map<Id128, SessionPtr> waiting_;
  size_t sessions_ = 0;  // waiting writes and those during a piece
};

}  // namespace leat
