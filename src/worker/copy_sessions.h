// SPDX-License-Identifier: Apache-2.0
// CopySessions: copies files to stores in steps requested by a job, so that the job controls the
// pace and knows the progress. An object becomes visible when it is complete. A copy without a step
// for a minute is abandoned. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>

#include "base/id128.h"
#include "runtime/executor.h"
#include "runtime/gate.h"
#include "source/part_writer.h"
#include "source/source.h"
#include "wire/copy_request.h"

namespace leat {

// A file of the namespace.
struct FileToRead {
  std::string key;  // key in a ClusterSource
  FileRefPtr ref;   // as its store has it
};

class CopySessions {
 public:
  // Concurrent copies; each holds up to two pieces of 8 MiB, or of the store's part size.
  static constexpr size_t kSessionsMax = 64;

  struct Destination {
    SourcePtr source;
    std::string key;
  };
  using ResolveDestination = std::function<Result<Destination>(const CopySpec&)>;

  // `files` covers the whole cluster. All must outlive the object; stop() must have ended before
  // destruction.
  CopySessions(Source& files, ResolveDestination resolve, Executor& executor);

  // Runs one step. Returns kExists or kIsDirectory if the target must not be replaced. Returns
  // kUnavailable if the copy is not in progress (any more), kBusy above kSessionsMax. A failed copy
  // leaves nothing behind.
  Task<Result<CopyStep>> step(Context context, FileToRead file, ByteRange range, CopySpec spec);
  Task<> stop();

 private:
  struct Session {
    Destination destination;
    std::optional<PartWriter> stream;
    uint64_t next = 0;  // the next expected offset
    Clock::time_point last_step_at{};
  };
  using SessionPtr = std::shared_ptr<Session>;

  Result<SessionPtr> admit(const CopySpec& spec, const ByteRange& range);
  // Returns nothing if the file must be written.
  Task<Result<std::optional<CopyStep>>> begin(Context context, FileToRead file, CopySpec spec,
                                              Session* session);
  Task<Result<CopyStep>> append(Context context, FileToRead file, ByteRange range,
                                Session* session);
  Task<Result<bool>> is_already_present(Context context, FileToRead file, CopySpec spec,
                                        Destination destination, bool* exists);
  Task<> abort_idle(Gate::Holder holder);

  Source& files_;
  const ResolveDestination resolve_;
  Executor& executor_;
  std::stop_source stopping_;
  Gate gate_;
  std::mutex mutex_;  // leaf
  // Waiting copies only: a copy during a step is absent, so a concurrent second step finds none.
  std::map<Id128, SessionPtr> waiting_;
  size_t sessions_ = 0;  // waiting copies and those during a step
};

}  // namespace leat
