// SPDX-License-Identifier: Apache-2.0
// PageCost: CPU seconds of a full page of names, for the owner that writes it and for its reader.
#pragma once

#include "scale/figures.h"
#include "scale/synthetic_source.h"
#include "wire/name_messages.h"

namespace leat::scale {

struct PageCost {
  double bytes = 0, written = 0, read = 0;
  double both() const { return written + read; }
};

inline PageCost measure_page(const Setting& setting) {
  ListResponse page;
  for (uint64_t i = 0; i < kListResponseObjectsMax; ++i) {
    page.page.objects.push_back(synthetic_object(i, kListResponseObjectsMax));
  }
  const std::string text = encode_list_response(page);
  PageCost cost{.bytes = double(text.size())};
  const Stopwatch writing;
  for (uint64_t i = 0; i < setting.repeats; ++i) static_cast<void>(encode_list_response(page));
  cost.written = writing.cpu_seconds() / double(setting.repeats);
  const Stopwatch reading;
  for (uint64_t i = 0; i < setting.repeats; ++i) {
    must(decode_list_response(text, synthetic_directory(0) + "/"));
  }
  cost.read = reading.cpu_seconds() / double(setting.repeats);
  return cost;
}

}  // namespace leat::scale
