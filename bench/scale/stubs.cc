#include "scale/parts.h"
namespace leat::scale {
void run_etcd(const Setting&) {}
}  // namespace leat::scale
