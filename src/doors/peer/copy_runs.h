// SPDX-License-Identifier: Apache-2.0
// CopyRuns: files that this worker copies to stores, each in steps that a job asks for, so that the
// job keeps the pace and knows how far it is. An object is seen when all of it is there. A copy of
// which nobody has asked the next step for a minute is given up. Thread-safe.
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
  std::string key;  // as a ClusterSource has it
  FileRefPtr ref;   // as its store has it
};

class CopyRuns {
 public:
  // At once; each holds up to two pieces of 8 MiB, or as much as the store's parts have.
  static constexpr size_t kRunsMax = 64;

  struct Place {
    SourcePtr source;
    std::string key;
  };
  using FindPlace = std::function<Result<Place>(const CopyGoal&)>;

  // `files`: all of the cluster's. All must outlive it, and stop() must have ended before it goes.
  CopyRuns(Source& files, FindPlace find_place, Executor& executor);

  // kExists, kIsDirectory: what is there is not to be replaced. kUnavailable where the copy is not
  // under way (any more); kBusy above kRunsMax. After a failure nothing is left of the copy.
  Task<Result<CopyStep>> step(Context context, FileToRead file, ByteRange range, CopyGoal goal);
  Task<> stop();

 private:
  struct Run {
    Place place;
    std::optional<ObjectStream> stream;
    uint64_t next = 0;  // the offset that is to come
    Clock::time_point asked{};
  };
  using RunPtr = std::shared_ptr<Run>;

  Result<RunPtr> admit(const CopyGoal& goal, const ByteRange& range);
  // Nothing where the file is to be written.
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
  // Those in the midst of a step are not in it: a second step of the same one finds none.
  std::map<Id128, RunPtr> waiting_;
  size_t runs_ = 0;  // waiting and in the midst of a step
};

}  // namespace leat
