// SPDX-License-Identifier: Apache-2.0
#include "jobs/verify_job.h"
#include "base/pluralize.h"

#include <fmt/format.h>

namespace leat {

Task<> VerifyJob::work(Context context) {
  const JobCache::Content content = co_await cache_.content(context, run_);
  update([&](JobProgress& progress) {
    progress.planned = true;
    progress.files_total = content.objects;
    progress.bytes_total = content.bytes;
  });
  uint64_t corrupt = 0;
  auto listener = [&](const VerifyStep& step) {
    corrupt += step.corrupt_blocks;
    update([&](JobProgress& progress) {
      progress.files_done += step.objects;
      progress.bytes_done += step.bytes;
    });
  };
  Result<> verified = co_await cache_.verify(context, run_, listener);
  if (on_verified_) co_await on_verified_();
  if (!verified) note_error("cache", verified.error());
  if (corrupt > 0) {
    note_error(
        "cache",
        Status(StatusCode::kCorrupt,
               fmt::format(
                   "{} of the cache did not pass and will be fetched again; the log says which",
                   pluralize(corrupt, "block"))));
  }
}

}  // namespace leat
