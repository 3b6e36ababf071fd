// SPDX-License-Identifier: Apache-2.0
#include "daemon/epoch_loads.h"

#include <fmt/format.h>

#include <thread>

#include "jobs/job_rig_test.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
using testing::wait_until;

class EpochLoadsTest : public testing::JobRig {
 protected:
  void open(EpochLoadsOptions options) {
    for (int i = 0; i < 50; ++i) source_->put(fmt::format("train/{:02}", i), "content");
    source_->put("else/file", "content");
    start();
    loads_ = std::make_unique<EpochLoads>(*jobs_, executor_, options);
  }
  void TearDown() override {
    source_->release_reads();
    if (loads_) executor_.block_on(loads_->stop());
    JobRig::TearDown();
  }
  JobState state(uint64_t job) const { return jobs_->find(job)->state; }

  std::unique_ptr<EpochLoads> loads_;
};

TEST_F(EpochLoadsTest, ATreeIsLoadedOnce) {
  open({.check_every = 1ms});
  source_->block_reads();
  EXPECT_TRUE(loads_->on_epoch("/data/train"));
  EXPECT_TRUE(loads_->on_epoch("/data/train"));
  EXPECT_TRUE(loads_->on_epoch("/data/train/below")) << "a part of it";
  ASSERT_EQ(jobs_->list().size(), 1u);
  source_->release_reads();
  EXPECT_EQ(wait(1).state, JobState::kDone);
  EXPECT_TRUE(cached("/data/train/49"));
  EXPECT_FALSE(cached("/data/else/file"));
  wait_until([&] { return !loads_->on_epoch("/data/train"); });
  EXPECT_EQ(jobs_->list().size(), 1u) << "nothing is left to load";
}

TEST_F(EpochLoadsTest, ItEndsWhenItsReadersAreGone) {
  open({.gone_after = 50ms, .check_every = 1ms});
  source_->block_reads();
  EXPECT_TRUE(loads_->on_epoch("/data/train"));
  EXPECT_EQ(wait(1).state, JobState::kCancelled);
}

TEST_F(EpochLoadsTest, ItGoesOnWhileItsReadersAreThere) {
  open({.gone_after = 200ms, .check_every = 1ms});
  source_->block_reads();
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(loads_->on_epoch("/data/train"));
    std::this_thread::sleep_for(20ms);
  }
  EXPECT_EQ(state(1), JobState::kRunning);
}

TEST_F(EpochLoadsTest, ItIsLoadedAgainAfterARest) {
  open({.check_every = 1ms, .rest_min = 1ms});
  EXPECT_TRUE(loads_->on_epoch("/data/train"));
  EXPECT_EQ(wait(1).state, JobState::kDone);
  wait_until([&] {
    loads_->on_epoch("/data/train");
    return jobs_->list().size() == 2;
  });
}

TEST_F(EpochLoadsTest, ItLoadsNoMoreThanTheCacheHolds) {
  open({.check_every = 1ms});
  store_.set_capacity(100);
  EXPECT_TRUE(loads_->on_epoch("/data/train"));
  const JobInfo done = wait(1);
  EXPECT_EQ(done.state, JobState::kDone) << "not a failure";
  EXPECT_EQ(done.progress.bytes_done, 84u) << "12 files of 7 bytes: nine tenths of 100";
}

TEST_F(EpochLoadsTest, NothingStartsAfterTheStop) {
  open({});
  executor_.block_on(loads_->stop());
  EXPECT_FALSE(loads_->on_epoch("/data/train"));
  EXPECT_TRUE(jobs_->list().empty());
}

}  // namespace
}  // namespace leat
