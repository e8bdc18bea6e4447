#include "common/node/same_job.h"

#include <unistd.h>

#include <string_view>
#include <vector>

#include "common/files/files.h"
#include "common/text/parse_whole.h"
#include "common/text/split.h"

namespace ddp {
namespace {

std::string file_of(int pid, const char* name) {
  return read_file("/proc/" + std::to_string(pid) + "/" + name).value_or("");
}

/// -1: not known.
int parent_of(int pid) {
  const std::string stat = file_of(pid, "stat");
  // The name of the program stands in brackets, and may hold any (proc(5)): "pid (name) state
  // ppid".
  const std::vector<std::string_view> words =
      split(std::string_view(stat).substr(stat.find_last_of(')') + 1), ' ');
  return words.size() < 3 ? -1 : parse_whole<int>(words[2]).value_or(-1);
}

}  // namespace

bool is_of_same_job(int pid, const std::string& run_id) {
  if (run_id.empty()) return parent_of(pid) == ::getppid();
  const std::string environment = file_of(pid, "environ");
  for (const std::string_view entry : split(environment, '\0')) {
    if (entry == "DDP_RUN_ID=" + run_id) return true;
  }
  return false;
}

}  // namespace ddp
