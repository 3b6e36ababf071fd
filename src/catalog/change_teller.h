// SPDX-License-Identifier: Apache-2.0
// ChangeTeller: for who is told by others of changes in a store. What was known of the directories
// that they concern is believed no more at once; those that are known are listed again, so that
// the catalog's listener hears what differs, several at a time: what was told last before what was
// told earlier, and of that what was used last before the rest. So whoever uses a directory hears
// of it soon, also while a hundred thousand others wait. Thread-safe.
#pragma once

#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/catalog.h"
#include "runtime/activity.h"
#include "runtime/executor.h"

namespace leat {

struct ToldChange {
  std::string path{};  // of a directory, in the namespace
  bool all = false;    // and whatever is below it
};

class ChangeTeller {
 public:
  static constexpr size_t kListedAtOnce = 16;

  // Both outlive it, and stop() must have ended before it goes.
  ChangeTeller(Catalog& catalog, Executor& executor) : catalog_(catalog), executor_(executor) {}

  // Does not wait for what is listed.
  void take(const std::vector<ToldChange>& changes);
  // Nothing more is begun.
  void close();
  // Returns when nothing is under way.
  Task<> stop();

 private:
  static Task<> list_waiting(Activity::Token token, ChangeTeller* self);
  std::optional<std::string> next();

  Catalog& catalog_;
  Executor& executor_;
  Activity activity_;
  std::stop_source stopping_;
  std::mutex mutex_;  // leaf
  // Those that are to be listed, the next one first; each once.
  std::deque<std::string> waiting_;
  std::set<std::string, std::less<>> known_waiting_;
  size_t listing_ = 0;
  bool closed_ = false;  // nothing waits any more
};

}  // namespace leat
