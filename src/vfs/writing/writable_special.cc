// SPDX-License-Identifier: Apache-2.0
// WritableFileSystem: symbolic links and special files. A file system has them as such. An object
// store has a symbolic link as an object with its target as content.
#include <fmt/format.h>
#include <sys/stat.h>

#include <utility>

#include "vfs/forgotten_node.h"
#include "vfs/writing/writable_file_system.h"

namespace leat {

Task<Result<NodeAttributes>> WritableFileSystem::make_node(Context context, NodeId id,
                                                           std::string name, NewName as,
                                                           NodeRequest request) {
  const WrittenNodePtr parent = find(id);
  if (!parent) co_return forgotten(id);
  LEAT_CO_TRY(const Place place, place_of(parent, name));
  PosixFiles* const posix = place.mount->source->posix();
  if (posix == nullptr) {
    co_return error(StatusCode::kUnsupported,
                    fmt::format("cannot make {}: {} has no hard links and no special files; make "
                                "it in a local directory",
                                place.path, place.mount->source->name()));
  }
  LEAT_CO_CHECK_OK(co_await require_missing(context, id, name, place));
  LEAT_CO_CHECK_OK(co_await prepare_store(context, place));
  as = inherit_group(*parent, as, /*is_directory=*/false);
  request.key = place.key;
  request.attributes.uid = as.uid;
  request.attributes.gid = as.gid;
  LEAT_CO_CHECK_OK(co_await posix->make_node(context, std::move(request)));
  co_await refresh(context, place.path);
  note_changed(*parent);
  Result<NodeAttributes> made = co_await lookup(context, id, name);
  co_return made;
}

Task<Result<NodeAttributes>> WritableFileSystem::make_symlink(Context context, NodeId id,
                                                              std::string name, std::string target,
                                                              NewName as) {
  const WrittenNodePtr parent = find(id);
  if (!parent) co_return forgotten(id);
  LEAT_CO_TRY(const Place place, place_of(parent, name));
  Source& source = *place.mount->source;
  const SourceCapabilities& store = place.capabilities();
  if (source.posix() != nullptr) {
    NodeRequest request{.attributes = {.mode = S_IFLNK | 0777}, .target = std::move(target)};
    Result<NodeAttributes> made = co_await make_node(context, id, name, as, std::move(request));
    co_return made;
  }
  if (!store.attributes || store.real_directories) {
    co_return error(StatusCode::kUnsupported,
                    fmt::format("cannot make {}: Leat makes no symbolic links in {}", place.path,
                                source.name()));
  }
  LEAT_CO_CHECK_OK(co_await require_missing(context, id, name, place));
  LEAT_CO_CHECK_OK(co_await prepare_store(context, place));
  const WallTime now = options_.wall_clock();
  WriteRequest request{.key = place.key,
                       .condition = {.absent = store.write_if_absent},
                       .attributes = {.mode = S_IFLNK | 0777,
                                      .uid = as.uid,
                                      .gid = as.gid,
                                      .atime = now,
                                      .mtime = now,
                                      .ctime = now}};
  const std::span<const char> text(target);
  LEAT_CO_CHECK_OK(co_await source.write(context, std::move(request), std::as_bytes(text)));
  co_await refresh(context, place.path);
  note_changed(*parent);
  Result<NodeAttributes> made = co_await lookup(context, id, name);
  co_return made;
}

Task<Result<std::string>> WritableFileSystem::read_symlink(Context context, NodeId id) {
  const WrittenNodePtr node = find(id);
  if (!node) co_return forgotten(id);
  if (!node->is_symlink) {
    co_return error(StatusCode::kInvalidArgument, full_path(*node) + " is no symbolic link");
  }
  LEAT_CO_TRY(const Place place, stored_place_of_node(node));
  if (PosixFiles* const posix = place.mount->source->posix()) {
    Result<std::string> target = co_await posix->read_link(context, place.key);
    co_return target;
  }
  LEAT_CO_TRY(const std::shared_ptr<OpenFile> version, co_await open_below(context, node));
  LEAT_CO_TRY(const Bytes target, co_await version->read(context, 0, version->ref()->size));
  co_return target.to_string();
}

}  // namespace leat
