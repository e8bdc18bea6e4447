#include "worker/dist/same_job.h"

#include <unistd.h>

#include <string_view>
#include <vector>

#include "common/text/parse_whole.h"
#include "common/text/split.h"
#include "worker/dist/process_files.h"

namespace ddp::worker {
namespace {

/// -1: not known.
int parent_of(int pid) {
  const std::vector<std::string> stat = process_stat(pid);
  return stat.size() < 2 ? -1 : parse_whole<int>(stat[1]).value_or(-1);
}

}  // namespace

bool is_of_same_job(int pid, const std::string& run_id) {
  if (run_id.empty()) return parent_of(pid) == ::getppid();
  const std::string environment = read_process_file(pid, "environ");
  for (const std::string_view entry : split(environment, '\0')) {
    if (entry == "DDP_RUN_ID=" + run_id) return true;
  }
  return false;
}

}  // namespace ddp::worker
