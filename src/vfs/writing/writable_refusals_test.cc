// SPDX-License-Identifier: Apache-2.0
// Changes that a store cannot do: each refusal has the reason and the remedy.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include "vfs/writing/writable_rig_test.h"

namespace leat::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class WriteRefusals : public ::testing::Test {
 protected:
  WriteRefusals() {
    rig.bucket().put("d/f", "hello");
    rig.bucket().put("f", "hello");
  }

  template <class T>
  static Status refused(const Result<T>& result) {
    return result ? Status(StatusCode::kInternal, "it was done") : Status(result.error());
  }

  WritableRig rig;
};

TEST_F(WriteRefusals, LinksNameWhatWorksInstead) {
  PosixChanges& posix = rig.changes().posix();
  const NodeId file = rig.node(kRootNode, "f");
  const Status link = refused(rig.executor.block_on(posix.link({}, file, kRootNode, "g")));
  EXPECT_EQ(link.code(), StatusCode::kUnsupported);
  EXPECT_THAT(link.message(), AllOf(HasSubstr("/data/g"), HasSubstr("memory://bucket"),
                                    HasSubstr("make a symbolic link")));
  const Status fifo =
      refused(rig.executor.block_on(posix.make_special({}, kRootNode, "p", {}, S_IFIFO, 0)));
  EXPECT_EQ(fifo.code(), StatusCode::kUnsupported);
  EXPECT_THAT(fifo.message(), AllOf(HasSubstr("/data/p"), HasSubstr("local directory")));
}

TEST_F(WriteRefusals, DirectoryRenameNamesTheCopy) {
  rig.bucket().changed.copies = rig.bucket().changed.renames = false;
  const Status renamed = refused(rig.executor.block_on(
      rig.changes().rename(Context::background(), {kRootNode, "d", kRootNode, "e"})));
  EXPECT_EQ(renamed.code(), StatusCode::kCrossDevice);
  EXPECT_THAT(renamed.message(), AllOf(HasSubstr("memory://bucket"), HasSubstr("copy /data/d")));
}

TEST_F(WriteRefusals, StoreWithoutWritesSaysSo) {
  rig.bucket().changed.writes = false;
  const Status created = refused(rig.create(kRootNode, "new"));
  EXPECT_EQ(created.code(), StatusCode::kReadOnly);
  EXPECT_THAT(created.message(), AllOf(HasSubstr("memory://bucket takes no writes"),
                                       HasSubstr("'leat refresh' shows")));
  const Status opened = refused(rig.open_name(kRootNode, "f", O_WRONLY));
  EXPECT_EQ(opened.code(), StatusCode::kReadOnly);
}

}  // namespace
}  // namespace leat::testing
