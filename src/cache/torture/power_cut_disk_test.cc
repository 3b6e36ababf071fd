// SPDX-License-Identifier: Apache-2.0
// Rules of when a change applies, and tests that the disk does what its header says.
#include "cache/torture/power_cut_disk_test.h"
#include "base/read_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace leat {

namespace fs = std::filesystem;

PowerCutDisk::PowerCutDisk(std::shared_ptr<Disk> below, std::string root)
    : below_(std::move(below)), root_(std::move(root)), top_(load(root_)) {}

PowerCutDisk::NodePtr PowerCutDisk::load(const std::string& path) const {
  auto node = std::make_shared<Node>();
  node->is_directory = fs::is_directory(path);
  if (!node->is_directory) {
    node->durable = *leat::read_file(path);
    return node;
  }
  for (const auto& item : fs::directory_iterator(path)) {
    node->durable_names[item.path().filename()] = load(item.path());
  }
  node->names = node->durable_names;
  return node;
}

PowerCutDisk::NodePtr PowerCutDisk::folder_at(const std::string& path) const {
  NodePtr at = top_;
  for (const fs::path& part : fs::path(path).lexically_relative(root_)) {
    if (part == "." || part.empty()) continue;
    auto found = at->names.find(part);
    if (found == at->names.end()) return nullptr;
    at = found->second;
  }
  return at;
}

PowerCutDisk::Location PowerCutDisk::locate(const std::string& path) const {
  const fs::path whole(path);
  return {folder_at(whole.parent_path()), whole.filename()};
}

void PowerCutDisk::apply(std::string& bytes, const Change& change) {
  if (change.is_length) {
    bytes.resize(change.offset);
    return;
  }
  bytes.resize(std::max(bytes.size(), change.offset + change.bytes.size()));
  bytes.replace(change.offset, change.bytes.size(), change.bytes);
}

void PowerCutDisk::apply(Names& names, const NameChange& change) {
  if (!change.from.empty()) names.erase(change.from);
  if (change.node == nullptr) {
    names.erase(change.name);
  } else {
    names[change.name] = change.node;
  }
}

// Recorded before the write, so that a cut in between may find any part of it.
Result<> PowerCutDisk::write_now(int fd, const Bytes& data, uint64_t offset) {
  {
    std::lock_guard lock(mutex_);
    auto file = open_.find(fd);
    if (file != open_.end()) file->second->changes.push_back({offset, data.to_string()});
  }
  return below_->write_now(fd, data, offset);
}

Result<> PowerCutDisk::truncate(int fd, uint64_t size) {
  {
    std::lock_guard lock(mutex_);
    auto file = open_.find(fd);
    if (file != open_.end()) file->second->changes.push_back({size, {}, true});
  }
  return below_->truncate(fd, size);
}

Result<> PowerCutDisk::sync_now(int fd) {
  std::lock_guard lock(mutex_);
  if (auto file = open_.find(fd); file != open_.end()) {
    for (const Change& change : file->second->changes) apply(file->second->durable, change);
    file->second->changes.clear();
  }
  return {};
}

Result<File> PowerCutDisk::open(const std::string& path, int flags, mode_t mode) {
  std::lock_guard lock(mutex_);
  LEAT_TRY(File file, below_->open(path, flags, mode));
  Location location = locate(path);
  if (location.folder == nullptr || fs::is_directory(path)) return file;
  NodePtr& node = location.folder->names[location.name];
  if (node == nullptr) {
    node = std::make_shared<Node>();
    location.folder->name_changes.push_back({location.name, node, {}});
  }
  if ((flags & O_TRUNC) != 0) node->changes.push_back({0, {}, true});
  open_[file.fd()] = node;
  return file;
}

Result<> PowerCutDisk::unlink(const std::string& path) {
  std::lock_guard lock(mutex_);
  LEAT_CHECK_OK(below_->unlink(path));
  Location location = locate(path);
  location.folder->name_changes.push_back({location.name, nullptr, {}});
  location.folder->names.erase(location.name);
  return {};
}

Result<> PowerCutDisk::rename(const std::string& from, const std::string& to) {
  std::lock_guard lock(mutex_);
  LEAT_CHECK_OK(below_->rename(from, to));
  Location old = locate(from), location = locate(to);
  const NameChange change{location.name, old.folder->names[old.name], old.name};
  apply(location.folder->names, change);
  location.folder->name_changes.push_back(change);
  return {};
}

Result<> PowerCutDisk::make_directory(const std::string& path) {
  std::lock_guard lock(mutex_);
  LEAT_CHECK_OK(below_->make_directory(path));
  if (!path.starts_with(root_ + "/")) return {};
  Location location = locate(path);
  NodePtr& node = location.folder->names[location.name];
  if (node != nullptr) return {};
  node = std::make_shared<Node>();
  node->is_directory = true;
  location.folder->name_changes.push_back({location.name, node, {}});
  return {};
}

Result<> PowerCutDisk::sync_directory(const std::string& path) {
  std::lock_guard lock(mutex_);
  NodePtr folder = folder_at(path);
  if (folder == nullptr) return error(StatusCode::kNotFound, path);
  for (const NameChange& change : folder->name_changes) apply(folder->durable_names, change);
  folder->name_changes.clear();
  return {};
}

// Applies all, nothing, or any sectors of each change. The length is then any that the file had, or
// one that only some of the changes would have given it. Unwritten sectors are zero or random.
std::string PowerCutDisk::file_after_cut(const Node& file, Chance& chance) {
  std::string bytes = file.durable;
  if (file.changes.empty()) return bytes;
  const uint64_t sector = chance.one_in(2) ? 512 : 4096;
  const bool rubbish = chance.one_in(4);
  const uint64_t luck = chance.below(4);  // 0: most is lost, 3: most is there
  for (const Change& change : file.changes) {
    const uint64_t fate = chance.below(4);
    if (change.is_length) {
      if (fate <= luck) bytes.resize(change.offset);
      continue;
    }
    if (fate + 1 <= luck) {
      apply(bytes, change);
      continue;
    }
    if (fate > luck) continue;
    const uint64_t end = change.offset + change.bytes.size();
    for (uint64_t at = change.offset; at < end;) {
      const uint64_t next = std::min((at / sector + 1) * sector, end);
      if (chance.one_in(2)) {
        apply(bytes, {at, change.bytes.substr(at - change.offset, next - at)});
      } else if (chance.one_in(2)) {
        // The length is there, the bytes are not.
        const size_t had = bytes.size();
        bytes.resize(std::max<size_t>(had, next));
        for (size_t i = had; rubbish && i < bytes.size(); ++i) {
          bytes[i] = static_cast<char>(chance.seed());
        }
      }
      at = next;
    }
  }
  return bytes;
}

void PowerCutDisk::write_after_cut(const Node& folder, const std::string& into, Chance& chance) {
  Names names = folder.durable_names;
  const uint64_t luck = chance.below(5);
  for (const NameChange& change : folder.name_changes) {
    if (chance.below(4) < luck) apply(names, change);
  }
  for (const auto& [name, node] : names) {
    const std::string path = into + "/" + name;
    if (node->is_directory) {
      fs::create_directory(path);
      write_after_cut(*node, path, chance);
    } else {
      std::ofstream(path, std::ios::binary) << file_after_cut(*node, chance);
    }
  }
}

void PowerCutDisk::cut(const std::string& into, Chance& chance) const {
  std::lock_guard lock(mutex_);
  write_after_cut(*top_, into, chance);
}

namespace {

// In many cuts, all synced changes are there and any others may be missing; both cases occur.
TEST(PowerCutDisk, KeepsWhatWasSyncedAndAnyPartOfTheRest) {
  TempDirectory directory;
  Executor executor({.threads = 1});
  PowerCutDisk disk(make_disk(executor), directory.path());
  auto path = [&](const char* name) { return directory.path() + "/" + name; };
  auto write = [&](const File& file, const std::string& text, uint64_t offset) {
    ASSERT_TRUE(disk.write_now(file.fd(), Bytes::copy_of(text), offset));
  };
  constexpr int kFlags = O_RDWR | O_CREAT;
  File synced = *disk.open(path("synced"), kFlags, 0600);
  write(synced, std::string(9000, 'a'), 0);
  ASSERT_TRUE(executor.block_on(disk.sync(Context::background(), synced.fd())));
  File nameless = *disk.open(path("nameless"), kFlags, 0600);
  ASSERT_TRUE(executor.block_on(disk.sync(Context::background(), nameless.fd())));
  ASSERT_TRUE(disk.rename(path("nameless"), path("named")));
  ASSERT_TRUE(disk.sync_directory(directory.path()));
  write(synced, std::string(9000, 'b'), 4096);
  ASSERT_TRUE(disk.unlink(path("named")));
  File loose = *disk.open(path("loose"), kFlags, 0600);

  int grown = 0, torn = 0, unlinked = 0, there = 0;
  Chance chance(1);
  for (int i = 0; i < 200; ++i) {
    TempDirectory copy;
    disk.cut(copy.path(), chance);
    const std::string text = *read_file(copy.path() + "/synced");
    ASSERT_GE(text.size(), 9000u);
    ASSERT_EQ(text.substr(0, 4096), std::string(4096, 'a'));
    EXPECT_FALSE(fs::exists(copy.path() + "/nameless"));
    grown += text.size() > 9000 ? 1 : 0;
    torn += text.find('b') != std::string::npos && text.find('a', text.find('b')) < 9000 ? 1 : 0;
    unlinked += fs::exists(copy.path() + "/named") ? 0 : 1;
    there += fs::exists(copy.path() + "/loose") ? 1 : 0;
  }
  for (int times : {grown, torn, unlinked, there}) {
    EXPECT_GT(times, 10);
    EXPECT_LT(times, 190);
  }
}

}  // namespace
}  // namespace leat
