// SPDX-License-Identifier: Apache-2.0
#include "daemon/findings/path_failures.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/text_table.h"

namespace leat {
namespace {

// Older failures are still shown, but need no action.
constexpr auto kRecent = std::chrono::minutes(15);

struct Cause {
  std::string_view name;
  std::string_view what;  // of {}: "a path", "3 paths"
  std::string_view cost;
  std::string_view action;  // {}: the mount
  bool always_note = false;
};

// Expected for a mount that accepts no writes.
constexpr Cause kRejectedWrite = {"errors.rejected_writes", "writes to {} were rejected",
                                  "programs got EROFS (read-only file system)",
                                  "leat cp FILE {}/ writes to the store", true};
constexpr Cause kDenied = {"errors.denied", "access to {} was denied", "programs got EACCES",
                           "the credentials and rights of the mount; 'leat doctor URL' tries them"};
constexpr Cause kChangedCause = {
    "errors.changed", "{} changed in the store before a read ended", "programs got ESTALE",
    "open the file again; 'leat snapshot build' holds a data set still"};
constexpr Cause kStoreUnavailable = {
    "errors.store", "{} could not be read since the store did not answer", "programs got errors",
    "leat logs says what the store answered"};
constexpr Cause kThrottledCause = {
    "errors.throttled", "{} could not be read since the store throttled requests",
    "programs got errors", "requests_per_second of the mount, below what the store allows"};
constexpr Cause kMissing = {"errors.missing",
                            "{} could not be read since the store no longer has it",
                            "programs got errors", "leat refresh {} updates the names"};
constexpr Cause kBroken = {"errors.corrupt",
                           "{} could not be read since the received bytes are corrupt",
                           "programs got EIO", "leat logs says where the bytes came from"};
constexpr Cause kFull = {"errors.space", "{} found no space", "programs got ENOSPC",
                         "leat status says what is full"};
constexpr Cause kOther = {"errors.other", "{} could not be read", "programs got errors",
                          "cat {}/.leat/errors says why"};

const Cause& cause_of(StatusCode code) {
  switch (code) {
    case StatusCode::kReadOnly:
      return kRejectedWrite;
    case StatusCode::kPermissionDenied:
      return kDenied;
    case StatusCode::kVersionChanged:
      return kChangedCause;
    case StatusCode::kUnavailable:
    case StatusCode::kTimedOut:
    case StatusCode::kBusy:
      return kStoreUnavailable;
    case StatusCode::kThrottled:
      return kThrottledCause;
    case StatusCode::kNotFound:
      return kMissing;
    case StatusCode::kCorrupt:
      return kBroken;
    case StatusCode::kNoSpace:
      return kFull;
    default:
      return kOther;
  }
}

struct Group {
  const Cause* cause = nullptr;
  size_t paths = 0;
  const ErrorView* newest = nullptr;
};

Finding finding_of(const Group& group, WallTime now) {
  const Cause& cause = *group.cause;
  const ErrorView& newest = *group.newest;
  const std::string paths = group.paths == 1 ? "a path" : fmt::format("{} paths", group.paths);
  const bool recent = now - newest.time < kRecent;
  return {.level = recent && !cause.always_note ? Level::kProblem : Level::kNote,
          .name = std::string(cause.name),
          .subject = newest.mount,
          .what = fmt::format("{}, {}{} ({})", fmt::format(fmt::runtime(cause.what), paths),
                              group.paths == 1 ? "" : "the last ", age_text(newest.time, now),
                              printable(newest.path)),
          .cost = std::string(cause.cost),
          .action = fmt::format(fmt::runtime(cause.action), printable(newest.mount))};
}

}  // namespace

std::string age_text(WallTime then, WallTime now) {
  using std::chrono::floor;
  const auto age = std::max(now - then, WallTime::duration::zero());
  const auto seconds = floor<std::chrono::seconds>(age).count();
  if (seconds < 60) return fmt::format("{} s ago", seconds);
  if (seconds < 100 * 60) return fmt::format("{} min ago", seconds / 60);
  if (seconds < 48 * 3600) return fmt::format("{} h ago", seconds / 3600);
  return fmt::format("{} d ago", seconds / 86400);
}

Findings path_findings(const std::vector<ErrorView>& errors, WallTime now) {
  std::map<std::pair<std::string, std::string_view>, Group> groups;
  for (const ErrorView& failed : errors) {
    // A program that was interrupted knows the reason.
    if (failed.code == StatusCode::kCancelled) continue;
    const Cause& cause = cause_of(failed.code);
    Group& group = groups[{failed.mount, cause.name}];
    group.cause = &cause;
    ++group.paths;
    if (group.newest == nullptr || failed.time > group.newest->time) group.newest = &failed;
  }
  std::vector<Group> sorted;
  for (const auto& [key, group] : groups) sorted.push_back(group);
  std::ranges::sort(sorted, [](const Group& a, const Group& b) {
    return std::tie(a.newest->mount, b.newest->time) < std::tie(b.newest->mount, a.newest->time);
  });
  Findings findings;
  for (const Group& group : sorted) findings.push_back(finding_of(group, now));
  return findings;
}

}  // namespace leat
