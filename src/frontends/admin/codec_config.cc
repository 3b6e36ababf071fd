// SPDX-License-Identifier: Apache-2.0
#include "frontends/admin/codec_config.h"

#include "http/json_fields.h"

namespace leat {

void decode(const Json& json, OptionView& option) {
  option.name = json.at("name").get<std::string>();
  get_bytes(json, "value", option.value);
  get(json, "origin", option.origin);
  get_bytes(json, "place", option.place);
  get(json, "reloadable", option.reloadable);
}

void decode(const Json& json, ReloadView& view) {
  get(json, "changed", view.changed);
  get(json, "waiting", view.waiting);
}

Json to_json(const OptionView& option) {
  Json json = {{"name", option.name}, {"origin", option.origin}, {"reloadable", option.reloadable}};
  put_bytes(json, "value", option.value);
  put_bytes(json, "place", option.place);
  return json;
}

Json to_json(const ReloadView& view) {
  return {{"changed", view.changed}, {"waiting", view.waiting}};
}

}  // namespace leat
