// SPDX-License-Identifier: Apache-2.0
// WriteBehind, WriteLocal: fixtures of folders with write=back and write=local.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cache/store_fixture_test.h"
#include "vfs/writing/writable_rig_test.h"

namespace leat::testing {

// A folder with write=back; its rigs begin one after another, as daemons do.
class WriteBehind : public ::testing::Test {
 protected:
  explicit WriteBehind(WriteMode mode = WriteMode::kBack) : mode_(mode) {
    writing.journal = directory_.path() + "/journal";
    writing.uploads.delay = std::chrono::hours(1);
    start();
  }

  void start() {
    rig.reset();
    rig = std::make_unique<WritableRig>(TreeRigOptions{.write = mode_}, writing);
  }
  void start(Clock::duration delay) {
    writing.uploads.delay = delay;
    start();
  }
  void put(const std::string& name, const std::string& text, NodeId parent = kRootNode) {
    const Result<OpenedFile> file = rig->create(parent, name, O_RDWR | O_CREAT | O_TRUNC);
    ASSERT_TRUE(file) << file.error().to_string();
    ASSERT_TRUE(rig->write(*file, 0, text));
    const Result<> closed = rig->close(*file);
    ASSERT_TRUE(closed) << closed.error().to_string();
  }
  // The keys that the store gets, in their order.
  void record_writes() {
    writing.bucket->after = [this](std::string_view operation, const std::string& key) {
      std::lock_guard lock(mutex_);
      if (operation != "stat") sent_.push_back(fmt::format("{} {}", operation, key));
      return Result<>();
    };
  }
  std::vector<std::string> sent() {
    std::lock_guard lock(mutex_);
    return sent_;
  }

  TempDirectory directory_;
  const WriteMode mode_;
  RigWriting writing;
  std::unique_ptr<WritableRig> rig;

 private:
  std::mutex mutex_;
  std::vector<std::string> sent_;
};

class WriteLocal : public WriteBehind {
 protected:
  WriteLocal() : WriteBehind(WriteMode::kLocal) {}
};

}  // namespace leat::testing
