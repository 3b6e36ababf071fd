// SPDX-License-Identifier: Apache-2.0
#include "vfs/writing/writable_links.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <utility>

#include "vfs/forgotten_node.h"
#include "vfs/writing/writable_file_system.h"

namespace leat {

class WritableLinks : public PosixChanges {
 public:
  explicit WritableLinks(WritableFileSystem& files) : files_(files) {}

  Task<Result<NodeAttributes>> make_special(Context context, NodeId id, std::string name,
                                            NewName as, mode_t type, dev_t device) override {
    NodeRequest request{.attributes = {.mode = type | as.mode}, .device = device};
    return files_.make_node(std::move(context), id, std::move(name), as, std::move(request));
  }
  Task<Result<NodeAttributes>> link(Context context, NodeId id, NodeId parent_id,
                                    std::string name) override;
  Task<Result<CreatedFile>> create_unnamed(Context context, NodeId id, NewName as) override;
  Task<Result<std::string>> attribute(Context context, NodeId id, std::string name) override;
  Task<Result<std::vector<std::string>>> attributes(Context context, NodeId id) override;
  Task<Result<>> set_attribute(Context context, NodeId id, std::string name, std::string value,
                               int flags) override;
  Task<Result<>> remove_attribute(Context context, NodeId id, std::string name) override;

 private:
  using Place = WritableFileSystem::Place;

  // Gives a file its first name.
  Task<Result<NodeAttributes>> name_file(Context context, WrittenNodePtr node,
                                         WrittenNodePtr parent, std::string name);
  // Returns kUnsupported if the store keeps no extended attributes.
  // `of_now`: until pending renames are sent.
  Result<Place> place_with_attributes(const WrittenNodePtr& node, bool of_now) const;
  bool is_in_store(const WrittenNode& node) const;
  // The store has changed an attribute of the file.
  Task<> note_changed_object(Context context, WrittenNodePtr node, Place place,
                             SourceObject object);

  WritableFileSystem& files_;
};

std::unique_ptr<PosixChanges> make_posix_changes(WritableFileSystem& files) {
  return std::make_unique<WritableLinks>(files);
}

// ---- names

Task<Result<NodeAttributes>> WritableLinks::link(Context context, NodeId id, NodeId parent_id,
                                                 std::string name) {
  const WrittenNodePtr node = files_.find(id), parent = files_.find(parent_id);
  if (!node || !parent) co_return forgotten(node ? parent_id : id);
  LEAT_CO_TRY(const Place to, files_.place_of(parent, name));
  LEAT_CO_CHECK_OK(co_await files_.require_missing(context, parent_id, name, to));
  auto permit = co_await node->changing.acquire(context, 1, "a change of a file");
  if (!permit) co_return Error(permit.error());
  bool has_name;
  {
    std::lock_guard lock(files_.nodes_.mutex());
    has_name = node->linked;
  }
  if (!has_name) {
    Result<NodeAttributes> made = co_await name_file(context, node, parent, std::move(name));
    co_return made;
  }
  PosixFiles* const posix = to.mount->source->posix();
  if (posix == nullptr || node->is_directory()) {
    co_return error(StatusCode::kUnsupported,
                    fmt::format("cannot link {}: {} has no hard links and no special files; copy "
                                "the file, or make a symbolic link",
                                to.path, to.mount->source->name()));
  }
  // The store has to have the file.
  LEAT_CO_CHECK_OK(co_await files_.save_locked(context, node));
  LEAT_CO_TRY(const Place from, files_.place_of_node(node));
  for (const Place& place : {from, to}) {
    LEAT_CO_CHECK_OK(co_await files_.prepare_store(context, place));
  }
  if (from.mount->entry.path != to.mount->entry.path) {
    co_return error(
        StatusCode::kCrossDevice,
        fmt::format("{} and {} are in different mounts; copy the file", from.path, to.path));
  }
  LEAT_CO_TRY(const SourceObject object,
              co_await posix->link(context, {.from = from.key, .to = to.key}));
  {
    std::lock_guard lock(files_.nodes_.mutex());
    files_.note_object(*node, object);
    if (const WrittenNodePtr other = files_.nodes_.child(*parent, name)) {
      files_.nodes_.unlink(*other, *parent, name);
    }
    files_.nodes_.link(*node, parent, name);
    ++parent->changes;
    ++node->lookups;
  }
  co_await files_.publish(Context::background(), node, from, object);
  files_.note_changed(*parent);
  Result<NodeAttributes> shown = co_await files_.attributes(context, id);
  if (!shown) files_.nodes_.forget(id, 1);
  co_return shown;
}

Task<Result<CreatedFile>> WritableLinks::create_unnamed(Context context, NodeId id, NewName as) {
  const WrittenNodePtr parent = files_.find(id);
  if (!parent) co_return forgotten(id);
  LEAT_CO_CHECK_OK(files_.place_of(parent, "."));
  if (auto alive = context.check("a change of a file"); !alive) co_return Error(alive.error());
  as = files_.inherit_group(*parent, as, /*is_directory=*/false);
  WritableFileSystem& files = files_;
  auto make = [&files] {
    return StagedFile::create(files.options_.staging_directory, files.executor_, nullptr, 0);
  };
  LEAT_CO_TRY(std::shared_ptr<StagedFile> staged, co_await files_.executor_.blocking(make));
  CreatedFile created;
  WrittenNodePtr node;
  {
    std::lock_guard lock(files_.nodes_.mutex());
    node = files_.nodes_.add_unnamed(parent, FileKind::kFile);
    node->in_store = false;
    node->saved_changes = staged->changes();
    node->staged = std::move(staged);
    node->links = 0;
    node->mode = as.mode;
    node->uid = as.uid;
    node->gid = as.gid;
    node->attributes_known = true;
    node->atime = node->mtime = node->ctime = files_.options_.wall_clock();
    node->lookups = node->opens = 1;
    created.attributes = files_.describe(*node, {});
  }
  created.file = files_.file_of(node);
  co_return created;
}

// The caller holds the permit of the node.
Task<Result<NodeAttributes>> WritableLinks::name_file(Context context, WrittenNodePtr node,
                                                      WrittenNodePtr parent, std::string name) {
  {
    std::lock_guard lock(files_.nodes_.mutex());
    if (!node->staged || node->superseded || node->conflicted) {
      co_return error(StatusCode::kNotFound, "the file was removed");
    }
    if (files_.nodes_.child(*parent, name)) co_return error(StatusCode::kExists, name + " exists");
    files_.nodes_.move(*node, parent, name);
    node->version = {};
    node->unsaved = true;
    node->links = 1;
    node->ctime = files_.options_.wall_clock();
  }
  Result<> saved = co_await files_.save_locked(context, node);
  if (!saved) {
    std::lock_guard lock(files_.nodes_.mutex());
    files_.nodes_.unlink(*node, *parent, name);
    node->links = 0;
    co_return Error(saved.error());
  }
  files_.note_changed(*parent);
  std::lock_guard lock(files_.nodes_.mutex());
  ++node->lookups;
  co_return files_.describe(*node, files_.known_below(*node));
}

// ---- extended attributes

Result<WritableLinks::Place> WritableLinks::place_with_attributes(const WrittenNodePtr& node,
                                                                  bool of_now) const {
  LEAT_TRY(Place place, of_now ? files_.stored_place_of_node(node) : files_.place_of_node(node));
  std::lock_guard lock(files_.nodes_.mutex());
  if (place.mount->source->posix() != nullptr && node->linked) return place;
  return error(StatusCode::kUnsupported, fmt::format("{} keeps no extended attributes of {}",
                                                     place.mount->source->name(), place.path));
}

bool WritableLinks::is_in_store(const WrittenNode& node) const {
  std::lock_guard lock(files_.nodes_.mutex());
  return node.in_store;
}

Task<Result<std::string>> WritableLinks::attribute(Context context, NodeId id, std::string name) {
  const WrittenNodePtr node = files_.find(id);
  if (!node) co_return forgotten(id);
  LEAT_CO_TRY(const Place place, place_with_attributes(node, /*of_now=*/true));
  if (!is_in_store(*node)) co_return error(StatusCode::kNotFound, name + " is not there");
  PosixFiles* const posix = place.mount->source->posix();
  Result<std::string> value = co_await posix->attribute(context, {.key = place.key, .name = name});
  co_return value;
}

Task<Result<std::vector<std::string>>> WritableLinks::attributes(Context context, NodeId id) {
  const WrittenNodePtr node = files_.find(id);
  if (!node) co_return forgotten(id);
  LEAT_CO_TRY(const Place place, place_with_attributes(node, /*of_now=*/true));
  if (!is_in_store(*node)) co_return std::vector<std::string>();
  PosixFiles* const posix = place.mount->source->posix();
  Result<std::vector<std::string>> names = co_await posix->attributes(context, place.key);
  co_return names;
}

Task<> WritableLinks::note_changed_object(Context context, WrittenNodePtr node, Place place,
                                          SourceObject object) {
  {
    std::lock_guard lock(files_.nodes_.mutex());
    node->ctime = files_.options_.wall_clock();
    if (node->is_directory()) co_return;
    files_.note_object(*node, object);
  }
  co_await files_.publish(context, node, place, object);
}

Task<Result<>> WritableLinks::set_attribute(Context context, NodeId id, std::string name,
                                            std::string value, int flags) {
  const WrittenNodePtr node = files_.find(id);
  if (!node) co_return forgotten(id);
  LEAT_CO_TRY(const Place place, place_with_attributes(node, /*of_now=*/false));
  auto permit = co_await node->changing.acquire(context, 1, "a change of a file");
  if (!permit) co_return Error(permit.error());
  if (!is_in_store(*node)) LEAT_CO_CHECK_OK(co_await files_.save_locked(context, node));
  LEAT_CO_CHECK_OK(co_await files_.prepare_store(context, place));
  PosixFiles* const posix = place.mount->source->posix();
  LEAT_CO_TRY(SourceObject object,
              co_await posix->set_attribute(context, {.key = place.key, .name = std::move(name)},
                                            std::move(value), flags));
  co_await note_changed_object(context, node, place, std::move(object));
  co_return Result<>();
}

Task<Result<>> WritableLinks::remove_attribute(Context context, NodeId id, std::string name) {
  const WrittenNodePtr node = files_.find(id);
  if (!node) co_return forgotten(id);
  LEAT_CO_TRY(const Place place, place_with_attributes(node, /*of_now=*/false));
  auto permit = co_await node->changing.acquire(context, 1, "a change of a file");
  if (!permit) co_return Error(permit.error());
  if (!is_in_store(*node)) co_return error(StatusCode::kNotFound, name + " is not there");
  LEAT_CO_CHECK_OK(co_await files_.prepare_store(context, place));
  PosixFiles* const posix = place.mount->source->posix();
  LEAT_CO_TRY(SourceObject object, co_await posix->remove_attribute(
                                       context, {.key = place.key, .name = std::move(name)}));
  co_await note_changed_object(context, node, place, std::move(object));
  co_return Result<>();
}

}  // namespace leat
