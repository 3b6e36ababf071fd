// SPDX-License-Identifier: Apache-2.0
// ClusterWrites: the changes of a ClusterSource. The owner of the directory makes a change, with
// the store's credentials. Thread-safe.
//
// A change that may be done twice without harm is repeated, also at another worker. Any other one
// is not: if its worker does not answer, the result is kTimedOut, and the caller looks at the
// store.
#pragma once

#include <string>
#include <string_view>

#include "peer/mounts/mount_lookup.h"
#include "peer/routing/peer_router.h"
#include "source/source.h"
#include "wire/write_request.h"

namespace leat {

class ClusterWrites {
 public:
  // `router` must outlive it.
  ClusterWrites(std::string cluster_name, const PeerRouter& router)
      : name_(std::move(cluster_name)), router_(router) {}

  SourceCapabilities capabilities_of(const ClusterView& view, std::string_view key) const;
  std::string why_read_only(const ClusterView& view, std::string_view key) const;

  // As in Source, with keys of the namespace. kCrossDevice between two mounts.
  Task<Result<SourceObject>> write(ClusterViewPtr view, Context context, WriteRequest request,
                                   std::span<const std::byte> content) const;
  ObjectWriterPtr begin_write(ClusterViewSource& views, WriteRequest request) const;
  Task<Result<SourceObject>> copy(ClusterViewPtr view, Context context, CopyRequest request) const;
  Task<Result<>> rename(ClusterViewPtr view, Context context, RenameRequest request) const;
  Task<Result<SourceObject>> set_attributes(ClusterViewPtr view, Context context,
                                            AttributesRequest request) const;
  Task<Result<>> remove(ClusterViewPtr view, Context context, RemoveRequest request) const;
  // Waits for all mounts with staged writes at and below a key of the namespace, or above it.
  Task<Result<>> flush(ClusterViewPtr view, Context context, std::string key) const;

 private:
  class Writer;

  // Returns the place of a key that can be changed.
  Result<ResolvedKey> place_of(const ClusterView& view, std::string_view key) const;
  // A key of the store and one of its parent's listing, for the choice of the worker.
  Task<Result<SourceObject>> send(Context context, PeerChange change, std::string path,
                                  bool repeats) const;
  Task<Result<SourceObject>> move(ClusterViewPtr view, Context context, ChangeOp op,
                                  std::string from, std::string to, bool exclusive) const;

  const std::string name_;
  const PeerRouter& router_;
};

}  // namespace leat
