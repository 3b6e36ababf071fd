// SPDX-License-Identifier: Apache-2.0
// PageCost: CPU seconds of a full page of names, for the owner that writes it and for who reads it.
#pragma once

#include "peer/name_pages.h"
#include "scale/figures.h"
#include "scale/made_source.h"

namespace leat::scale {

struct PageCost {
  double bytes = 0, written = 0, read = 0;
  double both() const { return written + read; }
};

inline PageCost measure_page(const Setting& setting) {
  NamePage page;
  for (uint64_t i = 0; i < kNamePageObjectsMax; ++i) {
    page.page.objects.push_back(made_object(i, kNamePageObjectsMax));
  }
  const std::string text = encode_name_page(page);
  PageCost cost{.bytes = double(text.size())};
  const Stopwatch writing;
  for (uint64_t i = 0; i < setting.repeats; ++i) static_cast<void>(encode_name_page(page));
  cost.written = writing.cpu_seconds() / double(setting.repeats);
  const Stopwatch reading;
  for (uint64_t i = 0; i < setting.repeats; ++i) {
    must(decode_name_page(text, made_directory(0) + "/"));
  }
  cost.read = reading.cpu_seconds() / double(setting.repeats);
  return cost;
}

}  // namespace leat::scale
