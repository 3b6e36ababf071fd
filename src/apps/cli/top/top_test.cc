// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/cli/top/counter_rates.h"
#include "apps/cli/top/top_layout.h"
#include "apps/cli/top/top_sample.h"
#include "base/units.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto kStart = TopHistory::Time(1h);
const TopStyle kAscii{.utf8 = false, .columns = 100};

TopSnapshot snapshot_at(std::chrono::nanoseconds after, Counters counters) {
  TopSnapshot snapshot{.at = kStart + after, .time = WallTime(1000h + after)};
  snapshot.status.pid = 7;
  snapshot.status.version = "1.2.3";
  snapshot.status.uptime_seconds = 100 + std::chrono::duration<double>(after).count();
  snapshot.status.counters = std::move(counters);
  return snapshot;
}

TEST(CounterRates, ReadsLabelsAsTheyAreWritten) {
  const Labels labels = parse_labels(R"(folder="/a \"b\"\\,\n",store="s3://b")");
  EXPECT_EQ(labels, (Labels{{"folder", "/a \"b\"\\,\n"}, {"store", "s3://b"}}));
  EXPECT_TRUE(parse_labels("").empty());
  EXPECT_EQ(parse_labels("broken=\"x"), (Labels{{"broken", "x"}}));
}

TEST(CounterRates, WhatBeganAnewGrewFromZero) {
  const Counters before{{R"(a{l="x"})", 10}, {R"(a{l="y"})", 5}, {"a_b", 1}};
  const Counters after{{R"(a{l="x"})", 4}, {R"(a{l="y"})", 9}, {R"(a{l="z"})", 2}, {"a_b", 9}};
  const CounterRates rates(before, after, 2);
  EXPECT_EQ(rates.growth("a"), 4 + 4 + 2);
  EXPECT_EQ(rates.rate("a", {{"l", "y"}}), 2);
  EXPECT_EQ(rates.value("a", {{"l", "y"}}), 9);
  EXPECT_EQ(rates.growth("a_b"), 8);
  EXPECT_EQ(rates.growth_by("a", "l"), (Counters{{"x", 4}, {"y", 4}, {"z", 2}}));
}

TopSample busy_sample() {
  const char* cache = R"(leat_fetch_bytes_total{origin="cache"})";
  const char* source = R"(leat_fetch_bytes_total{origin="source"})";
  const char* local = R"(leat_fetch_bytes_total{origin="local_disk"})";
  const char* store = R"({store="s3://b",store_id="1f",store_op="read"})";
  const std::string count = std::string("leat_source_request_seconds_count") + store;
  const std::string sum = std::string("leat_source_request_seconds_sum") + store;
  TopSnapshot before = snapshot_at(0s, {{cache, 100}, {source, 0}, {count, 10}, {sum, 1}});
  TopSnapshot after =
      snapshot_at(2s, {{cache, 100 + 6.0 * kMiB},
                       {source, 2.0 * kMiB},
                       {local, 8.0 * kMiB},
                       {count, 14},
                       {sum, 2},
                       {R"(leat_source_requests_total{store_op="read"})", 20},
                       {R"(leat_vfs_read_bytes_total{folder="/mnt/gone"})", 4.0 * kMiB},
                       {R"(leat_vfs_read_bytes_total{folder="/mnt/train"})", 12.0 * kMiB},
                       {"leat_fetch_source_bytes_total", 48.0 * kMiB},
                       {R"(leat_fuse_opens_total{mode="passthrough"})", 3},
                       {"leat_prefetch_streams", 5},
                       {"leat_prefetch_window_bytes", 4.0 * kMiB}});
  after.status.mounts.push_back(
      {.path = "/mnt/train", .source = "s3://b/train/", .passthrough_files = 2});
  after.status.cache.stats.used_bytes = kGiB;
  after.status.cache.stats.capacity_bytes = 2 * kGiB;
  after.jobs.push_back({.id = 3,
                        .kind = "load",
                        .path = "/mnt/train",
                        .state = "running",
                        .planned = true,
                        .files_total = 10,
                        .files_done = 4});
  after.jobs.push_back({.id = 2, .kind = "free", .path = "/mnt/old", .state = "done"});
  after.slow.push_back({.time = after.time,
                        .operation = "read",
                        .path = "/mnt/train/a\x1b",
                        .seconds = 1.25,
                        .reason = "the store, 1.2 s"});
  return sample_between(before, after).value();
}

TEST(TopSample, HasRatesOfWhatGrew) {
  const TopSample sample = busy_sample();
  EXPECT_EQ(sample.seconds, 2);
  EXPECT_EQ(sample.bytes_per_second, 8.0 * kMiB);
  EXPECT_EQ(sample.origins.at(1).bytes_per_second, 3.0 * kMiB);
  EXPECT_EQ(sample.hit_share, 0.75);
  EXPECT_EQ(sample.requests_per_second, 10);
  ASSERT_EQ(sample.stores.size(), 1u);
  EXPECT_EQ(sample.stores[0].store, "s3://b");
  EXPECT_EQ(sample.stores[0].mean_seconds, 0.25);
  EXPECT_EQ(sample.stores[0].requests_per_second, 2);
  ASSERT_EQ(sample.mounts.size(), 2u);
  EXPECT_EQ(sample.mounts[0].path, "/mnt/train");
  EXPECT_EQ(sample.mounts[0].source, "s3://b/train/");
  EXPECT_EQ(sample.mounts[1].bytes_per_second, 2.0 * kMiB);
  EXPECT_EQ(sample.streams, 5u);
  EXPECT_EQ(sample.passthrough_opens, 3u);
  EXPECT_EQ(sample.passthrough_files, 2u);
  EXPECT_EQ(sample.mounts[0].passthrough_files, 2u);
  EXPECT_EQ(sample.loaded_bytes_per_second, 24.0 * kMiB);
  ASSERT_EQ(sample.jobs.size(), 1u);
  EXPECT_EQ(sample.jobs[0].id, 3u);
}

TEST(TopSample, OfTwoDaemonsThereIsNone) {
  const TopSnapshot first = snapshot_at(0s, {});
  TopSnapshot other = snapshot_at(1s, {});
  EXPECT_TRUE(sample_between(first, other));
  EXPECT_FALSE(sample_between(first, first));
  other.status.uptime_seconds = 1;
  EXPECT_FALSE(sample_between(first, other));
  other = snapshot_at(1s, {});
  other.status.pid = 8;
  EXPECT_FALSE(sample_between(first, other));
}

TEST(TopSample, JsonLeavesOutWhatIsNotKnown) {
  const Json json = to_json(*sample_between(snapshot_at(0s, {}), snapshot_at(1s, {})));
  EXPECT_FALSE(json.contains("hit_share"));
  EXPECT_EQ(json["origins"].size(), 4u);
  EXPECT_EQ(to_json(busy_sample())["hit_share"], 0.75);
}

TEST(TopLayout, ShowsWhatHappens) {
  const auto lines = top_lines(busy_sample(), TopView::kOverview, kAscii, {});
  EXPECT_THAT(lines[0], HasSubstr("leat 1.2.3, pid 7, up 1m42s"));
  EXPECT_THAT(lines, Contains(HasSubstr("to programs      8.0 MiB/s")));
  EXPECT_THAT(lines, Contains(HasSubstr("loaded          24.0 MiB/s")));
  EXPECT_THAT(lines, Contains(HasSubstr("kernel       not counted  2 open files are passed")));
  EXPECT_THAT(lines, Contains(HasSubstr("local disk     4.0 MiB/s  [##########          ]")));
  EXPECT_THAT(lines, Contains(HasSubstr("75%  [###############     ]")));
  EXPECT_THAT(lines, Contains(HasSubstr("1.0 GiB of 2.0 GiB")));
  EXPECT_THAT(lines, Contains(HasSubstr("5 streams with 4.0 MiB ahead; 3 opens passed through")));
  EXPECT_THAT(lines, Contains(HasSubstr("read 10/s")));
  EXPECT_THAT(lines, Contains(HasSubstr("250 ms")));
  EXPECT_THAT(lines, Contains(HasSubstr("4 of 10 files")));
  EXPECT_THAT(lines, Contains(HasSubstr("1.25 s  read")));
  EXPECT_THAT(lines, Contains(HasSubstr("/mnt/train/a?  the store, 1.2 s")));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("/mnt/old"))));
}

TEST(TopLayout, KernelReadsAreNotShownAsZero) {
  TopSnapshot after = snapshot_at(1s, {});
  after.status.mounts.push_back({.path = "/mnt/train", .source = "s3://b/"});
  const auto idle =
      top_lines(*sample_between(snapshot_at(0s, {}), after), TopView::kOverview, kAscii, {});
  EXPECT_THAT(idle, Contains(HasSubstr("to programs          0 B/s")));
  after.status.mounts[0].passthrough_files = 1;
  const auto lines =
      top_lines(*sample_between(snapshot_at(0s, {}), after), TopView::kOverview, kAscii, {});
  EXPECT_THAT(lines, Contains(HasSubstr("to programs    not counted")));
  EXPECT_THAT(lines, Contains(HasSubstr("1 open file is passed through")));
  EXPECT_THAT(lines, Contains(::testing::MatchesRegex("/mnt/train +not counted .*")));
  after.status.mounts[0].passthrough_files = 0;
  after.status.counters[R"(leat_fuse_opens_total{mode="passthrough"})"] = 5;
  const auto opened =
      top_lines(*sample_between(snapshot_at(0s, {}), after), TopView::kOverview, kAscii, {});
  EXPECT_THAT(opened, Contains(HasSubstr("to programs    not counted")));
}

TEST(TopLayout, ViewsShowOneTableEach) {
  const auto mounts = top_lines(busy_sample(), TopView::kMounts, kAscii, {});
  EXPECT_THAT(mounts, Contains(HasSubstr("/mnt/gone")));
  EXPECT_THAT(mounts, Not(Contains(HasSubstr("SLOW"))));
  const auto slow = top_lines(busy_sample(), TopView::kSlow, kAscii, {});
  EXPECT_THAT(slow, Contains(HasSubstr("the store, 1.2 s")));
  EXPECT_THAT(slow, Not(Contains(HasSubstr("/mnt/gone"))));
}

TEST(TopLayout, BarsAndLines) {
  const TopStyle utf8{};
  EXPECT_EQ(bar(0.5, kAscii, 4), "##  ");
  EXPECT_EQ(bar(0.01, kAscii, 4), "#   ");
  EXPECT_EQ(bar(0.5 + 1.0 / 8, utf8, 4), "██▌ ");
  EXPECT_EQ(bar(7, utf8, 2), "██");
  EXPECT_EQ(sparkline({0.0, std::nullopt, 7.0, 14.0}, utf8, 10), "▁ ▅█");
  EXPECT_EQ(sparkline({1.0, 0.0, 1.0}, kAscii, 2), "_#");
  EXPECT_EQ(sparkline({0.0}, utf8, 10), "▁");
}

TEST(TopLayout, AMinuteIsSpreadOverItsSeconds) {
  TopHistory history;
  history.add(kStart, 2, 10);
  history.add(kStart + 4s, 2, 30);
  const auto values = history.by_second(kStart + 4s);
  ASSERT_EQ(values.size(), TopHistory::kSeconds);
  EXPECT_EQ(values[59], 30);
  EXPECT_EQ(values[58], 30);
  EXPECT_EQ(values[57], std::nullopt);
  EXPECT_EQ(values[55], 10);
  EXPECT_EQ(values[53], std::nullopt);
  EXPECT_EQ(history.by_second(kStart + 2min)[59], std::nullopt);
}

TEST(TopLayout, BeginsWithWhatTheDaemonKept) {
  TopHistory history;
  history.begin_with({.step_seconds = 5,
                      .ages_seconds = {70, 65, 10, 5, 0},
                      .series = {{R"(leat_fetch_bytes_total{origin="cache"})", {0, 5, 5, 10, 20}},
                                 {R"(leat_fetch_bytes_total{origin="memory"})", {0, 0, 0, 5, 5}},
                                 {"leat_fetch_memory_bytes", {9, 9, 9, 9, 9}}}},
                     kStart);
  const auto values = history.by_second(kStart);
  EXPECT_EQ(values[59], 2);
  EXPECT_EQ(values[52], 2);
  EXPECT_EQ(values[40], 0);
  history.add(kStart + 1s, 1, 7);
  EXPECT_EQ(history.by_second(kStart + 1s)[59], 7);
}

TEST(TopLayout, NumbersAreShort) {
  EXPECT_EQ(format_rate(9.94), "9.9/s");
  EXPECT_EQ(format_rate(12.4), "12/s");
  EXPECT_EQ(format_seconds(0.00025), "250 us");
  EXPECT_EQ(format_seconds(0.0025), "2.5 ms");
  EXPECT_EQ(format_seconds(0.9999), "1.00 s");
}

}  // namespace
}  // namespace leat
