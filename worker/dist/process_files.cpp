#include "worker/dist/process_files.h"

#include <string_view>

#include <unistd.h>

#include "common/error.h"
#include "common/files/files.h"
#include "common/text/parse_whole.h"
#include "common/text/split.h"

namespace ddp::worker {

std::string read_process_file(int pid, const std::string& name) try {
  return read_file("/proc/" + std::to_string(pid) + "/" + name).value_or("");
} catch (const SystemError&) {
  return "";  // it ended meanwhile
}

std::vector<std::string> process_stat(int pid) {
  const std::string stat = read_process_file(pid, "stat");
  // The name is in brackets and may contain any characters, even brackets.
  const std::size_t name_end = stat.rfind(") ");
  if (name_end == std::string::npos) return {};
  std::vector<std::string> fields;
  for (const std::string_view field : split(trim(std::string_view(stat).substr(name_end + 2)), ' '))
    fields.emplace_back(field);
  return fields;
}

bool is_of_same_job(int pid, const std::string& run_id) {
  if (run_id.empty()) {
    const std::vector<std::string> stat = process_stat(pid);
    return stat.size() >= 2 && parse_whole<int>(stat[1]) == ::getppid();
  }
  const std::string environment = read_process_file(pid, "environ");
  for (const std::string_view entry : split(environment, '\0')) {
    if (entry == "DDP_RUN_ID=" + run_id) return true;
  }
  return false;
}

}  // namespace ddp::worker
