// SPDX-License-Identifier: Apache-2.0
// CopyRuns: copies files to stores in steps requested by a job, so that the job controls the pace
// and knows the progress. An object becomes visible when it is complete. A copy without a step for
// a minute is abandoned. Thread-safe.
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
#include "peer/copy_request.h"
#include "runtime/activity.h"
#include "runtime/executor.h"
#include "source/object_stream.h"
#include "source/source.h"

namespace leat {

// A file of the namespace.
struct FileToRead {
  std::string key;  // key in a ClusterSource
  FileRefPtr ref;   // as its store has it
};

class CopyRuns {
 public:
  // Concurrent copies; each holds up to two pieces of 8 MiB, or of the store's part size.
  static constexpr size_t kRunsMax = 64;

  struct Place {
    SourcePtr source;
    std::string key;
  };
  using FindPlace = std::function<Result<Place>(const CopyGoal&)>;

  // `files` covers the whole cluster. All must outlive the object; stop() must have ended before
  // destruction.
  CopyRuns(Source& files, FindPlace find_place, Executor& executor);

  // Runs one step. Returns kExists or kIsDirectory if the target must not be replaced. Returns
  // kUnavailable if the copy is not in progress (any more), kBusy above kRunsMax. A failed copy
  // leaves nothing behind.
  Task<Result<CopyStep>> step(Context context, FileToRead file, ByteRange range, CopyGoal goal);
  Task<> stop();

 private:
  struct Run {
    Place place;
    std::optional<ObjectStream> stream;
    uint64_t next = 0;  // the next expected offset
    Clock::time_point asked{};
  };
  using RunPtr = std::shared_ptr<Run>;

  Result<RunPtr> admit(const CopyGoal& goal, const ByteRange& range);
  // Returns nothing if the file must be written.
  Task<Result<std::optional<CopyStep>>> begin(Context context, FileToRead file, CopyGoal goal,
                                              Run* run);
  Task<Result<CopyStep>> go_on(Context context, FileToRead file, ByteRange range, Run* run);
  Task<Result<bool>> is_there(Context context, FileToRead file, CopyGoal goal, Place place,
                              bool* something);
  Task<> give_up_forgotten(Activity::Token token);

  Source& files_;
  const FindPlace find_place_;
  Executor& executor_;
  std::stop_source stopping_;
  Activity activity_;
  std::mutex mutex_;  // leaf
  // Waiting copies only: a copy during a step is absent, so a concurrent second step finds none.
  std::map<Id128, RunPtr> waiting_;
  size_t runs_ = 0;  // waiting copies and those during a step
};

}  // namespace leat
