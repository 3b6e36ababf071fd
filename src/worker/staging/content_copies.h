// SPDX-License-Identifier: Apache-2.0
// ContentCopies: the contents of staged changes on the workers that hold them: this one and others
// in other failure domains. Thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cluster/cluster_view.h"
#include "peer/peer_table.h"
#include "peer/staging/staging_peer.h"
#include "runtime/executor.h"
#include "runtime/shared_promise.h"
#include "staging/staged_contents.h"
#include "staging/staged_view.h"

namespace leat {

// Returns up to `count` present workers for copies of what `key` names, `first` before all others:
// at most one in each failure domain, unless `in_any_domain`.
std::vector<WorkerId> choose_workers(const ClusterView& view, const WorkerId& first,
                                     const Id128& key, uint32_t count, bool in_any_domain = false);

// Runs a task and keeps its value for a wait.
template <class T>
Task<> run_into(std::shared_ptr<SharedPromise<T>> into, Task<T> task) {
  T value = co_await std::move(task);
  into->set(std::move(value));
}
template <class T>
std::shared_ptr<SharedPromise<T>> start(Executor& executor, Task<T> task) {
  auto started = SharedPromise<T>::make();
  executor.spawn(run_into<T>(started, std::move(task)));
  return started;
}

class ContentCopies {
 public:
  // All of them must outlive it.
  ContentCopies(WorkerId self, const PeerTable& peers, StagedContents& contents, Executor& executor)
      : self_(self), peers_(peers), contents_(contents), executor_(executor) {}

  // Writes a piece at all of `holders` at once and returns those that have it. Fails if this
  // worker, the first, does not.
  Task<Result<std::vector<WorkerId>>> put(Context context, StagedPiece piece,
                                          std::vector<WorkerId> holders,
                                          std::span<const std::byte> bytes);
  // Returns `holders` with as many more as `copies` takes: others get the complete content of
  // `size` bytes from this worker. Fewer if no more can be found.
  Task<std::vector<WorkerId>> add_copies(Context context, ClusterViewPtr view, Id128 content,
                                         uint64_t size, std::vector<WorkerId> holders,
                                         uint32_t copies);
  // Reads a part from any holder, this worker first. kNotFound if none of those that respond has
  // it, kUnavailable if some do not respond.
  Task<Result<std::string>> read(Context context, StagedChangePtr change, ByteRange range);
  // Removes it from all holders that respond.
  Task<> drop(Context context, StagedChangePtr change);

 private:
  Task<Result<>> copy_to(Context context, WorkerId holder, Id128 content, uint64_t size);
  Task<PeerReply<uint64_t>> put_at(Context context, WorkerId holder, StagedPiece piece,
                                   std::span<const std::byte> bytes);

  const WorkerId self_;
  const PeerTable& peers_;
  StagedContents& contents_;
  Executor& executor_;
};

}  // namespace leat
