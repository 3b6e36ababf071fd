// SPDX-License-Identifier: Apache-2.0
// WritableFileSystem: opens of files.
#include <fcntl.h>
#include <fmt/format.h>

#include <utility>

#include "catalog/mount_table.h"
#include "vfs/forgotten_node.h"
#include "vfs/writing/writable_file_system.h"

namespace leat {
namespace {

// Attempts to open a file that the store renames meanwhile.
constexpr int kOpenAttempts = 4;

bool is_writing(int flags) {
  return (flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC) != 0;
}

}  // namespace

std::shared_ptr<WrittenFile> WritableFileSystem::file_of(const WrittenNodePtr& node) {
  std::lock_guard lock(nodes_.mutex());
  std::shared_ptr<WrittenFile> file = node->file.lock();
  if (!file) node->file = file = std::make_shared<WrittenFile>(*this, node);
  return file;
}

std::optional<Result<std::shared_ptr<OpenFile>>> WritableFileSystem::try_open(NodeId id,
                                                                              int flags) {
  WrittenNodePtr node;
  NodeId below = 0;
  {
    std::lock_guard lock(nodes_.mutex());
    node = nodes_.find(id);
    if (!node) return forgotten(id);
    if (is_writing(flags) || node->is_directory()) return std::nullopt;
    if (!node->staged && !nodes_.has_below(*node)) return std::nullopt;
    if (!node->staged) below = node->below;
    ++node->opens;  // from now on, so that no close drops the written content
  }
  std::shared_ptr<OpenFile> version;
  if (below != 0) {
    std::optional<Result<std::shared_ptr<OpenFile>>> opened = below_->try_open(below, O_RDONLY);
    if (!opened || !*opened) {
      static_cast<void>(try_close(node));
      const bool may_be_renamed = opened && opened->error().code() == StatusCode::kVersionChanged;
      return may_be_renamed ? std::nullopt : opened;
    }
    version = **opened;
  }
  std::shared_ptr<WrittenFile> file = file_of(node);
  if (version) file->set_below(std::move(version));
  return file;
}

Task<Result<std::shared_ptr<OpenFile>>> WritableFileSystem::open_below(Context context,
                                                                       WrittenNodePtr node) {
  Result<std::shared_ptr<OpenFile>> version = error(StatusCode::kVersionChanged, "not opened yet");
  // The store may have renamed it, several times in a row.
  for (int attempt = 0; attempt < kOpenAttempts && !version; ++attempt) {
    if (version.error().code() != StatusCode::kVersionChanged) break;
    LEAT_CO_TRY(const NodeId below, co_await find_below(context, node));
    version = co_await below_->open(context, below, O_RDONLY);
    if (!version) co_await outdate_below(context, node);
  }
  if (version) file_of(node)->set_below(*version);
  co_return version;
}

Task<> WritableFileSystem::outdate_below(Context context, WrittenNodePtr node) {
  std::string former;
  {
    std::lock_guard lock(nodes_.mutex());
    nodes_.outdate_below(*node);
    if (WrittenNodes::is_renamed(*node)) former = nodes_.stored_path_of(*node);
  }
  if (former.empty()) co_return;
  const Result<Place> place = place_at(former);
  if (place) co_await refresh_own(context, place->path);
}

Task<Result<std::shared_ptr<OpenFile>>> WritableFileSystem::open(Context context, NodeId id,
                                                                 int flags) {
  const WrittenNodePtr node = find(id);
  if (!node) co_return forgotten(id);
  if (node->is_directory()) {
    co_return error(StatusCode::kIsDirectory, full_path(*node) + " is a directory");
  }
  std::shared_ptr<WrittenFile> file = file_of(node);
  bool staged;
  {
    std::lock_guard lock(nodes_.mutex());
    staged = node->staged != nullptr;
    ++node->opens;  // from now on, so that no close drops the written content
  }
  Result<> ready;
  if (is_writing(flags)) {
    ready = co_await stage(context, node, (flags & O_TRUNC) != 0);
  } else if (!staged) {
    const Result<std::shared_ptr<OpenFile>> opened = co_await open_below(context, node);
    if (!opened) ready = Error(opened.error());
  }
  if (ready) co_return file;
  static_cast<void>(co_await close(Context::background(), node));
  co_return Error(ready.error());
}

}  // namespace leat
