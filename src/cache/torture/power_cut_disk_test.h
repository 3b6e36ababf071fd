// SPDX-License-Identifier: Apache-2.0
// PowerCutDisk: a disk that records which files and names are durable, and what a power cut could
// remove. A file's bytes and length are not durable before sync(), a name not before
// sync_directory() of its folder. Any part of the other changes may have happened, in any order,
// torn between two sectors. Thread-safe. Files must be opened, renamed and removed through it,
// below one directory.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "cache/torture/working_set_test.h"

namespace leat {

class PowerCutDisk : public Disk {
 public:
  // The present content of `root` is durable.
  PowerCutDisk(std::shared_ptr<Disk> below, std::string root);

  // Writes a state that a power cut now could leave into the empty directory `into`.
  void cut(const std::string& into, Chance& chance) const;

  BlockingPool& threads() override { return below_->threads(); }
  Task<Result<size_t>> read(Context context, int fd, std::span<std::byte> into,
                            uint64_t offset) override {
    return below_->read(context, fd, into, offset);
  }
  Result<> write_now(int fd, const Bytes& data, uint64_t offset) override;
  Result<size_t> read_now(int fd, std::span<std::byte> into, uint64_t offset) override {
    return below_->read_now(fd, into, offset);
  }
  Result<> sync_now(int fd) override;
  std::optional<size_t> try_read(int fd, std::span<std::byte> into, uint64_t offset) override {
    return below_->try_read(fd, into, offset);
  }
  Result<File> open(const std::string& path, int flags, mode_t mode) override;
  Result<> unlink(const std::string& path) override;
  Result<> rename(const std::string& from, const std::string& to) override;
  Result<> truncate(int fd, uint64_t size) override;
  Result<> make_directory(const std::string& path) override;
  Result<> sync_directory(const std::string& path) override;
  Result<std::vector<DirectoryItem>> list_directory(const std::string& path) override {
    return below_->list_directory(path);
  }
  Result<Buffer> read_file(const std::string& path, size_t bytes_max) override {
    return below_->read_file(path, bytes_max);
  }
  Result<DiskUsage> usage(const std::string& path) override { return below_->usage(path); }

 private:
  struct Node;
  using NodePtr = std::shared_ptr<Node>;
  using Names = std::map<std::string, NodePtr>;
  // A change of a file since its last sync: bytes at an offset, or a length.
  struct Change {
    uint64_t offset;
    std::string bytes;
    bool is_length = false;
  };
  // A change of a folder since its last sync: a name gets a file, or loses it; a rename does both
  // at once.
  struct NameChange {
    std::string name;
    NodePtr node;      // null: the name is removed
    std::string from;  // for a rename: this name is removed at the same time
  };
  struct Node {
    bool is_directory = false;
    std::string durable;  // a file's bytes
    std::vector<Change> changes;
    Names durable_names, names;  // of a folder
    std::vector<NameChange> name_changes;
  };
  struct Location {
    NodePtr folder;
    std::string name;
  };

  NodePtr load(const std::string& path) const;
  Location locate(const std::string& path) const;
  NodePtr folder_at(const std::string& path) const;
  static void apply(std::string& bytes, const Change& change);
  static void apply(Names& names, const NameChange& change);
  static std::string file_after_cut(const Node& file, Chance& chance);
  static void write_after_cut(const Node& folder, const std::string& into, Chance& chance);

  const std::shared_ptr<Disk> below_;
  const std::string root_;
  mutable std::mutex mutex_;
  NodePtr top_;
  std::unordered_map<int, NodePtr> open_;  // by descriptor; the latest open of a number counts
};

}  // namespace leat
