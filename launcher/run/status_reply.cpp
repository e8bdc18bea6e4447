#include "launcher/run/status_reply.h"

#include <unistd.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "common/text/json_text.h"
#include "launcher/os/process_state.h"
#include "launcher/plan/endpoint_text.h"
#include "launcher/plan/status/status_answer.h"
#include "launcher/plan/web/status_json.h"
#include "launcher/run/worker_samples.h"

namespace ddp::launcher {
namespace {

namespace json = boost::json;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void put_file(json::object& object, const char* name, const LogStream& stream) {
  const std::filesystem::path file = stream.file();
  if (!file.empty()) object[name] = std::filesystem::absolute(file).string();
}

json::object describe_worker(const Worker& worker) {
  json::object object{
      {"rank", worker.placement.rank},
      {"local_rank", worker.placement.local_rank},
      {"pid", worker.pid},
      {"ended", worker.ending.has_value()},
  };
  if (worker.ending) {
    object["ending"] = to_text(worker.ending->status);
  } else {
    object["state"] = std::string(1, read_process_state(worker.pid).state);
    object["uptime"] = seconds_since(worker.started_at);
  }
  put_file(object, "stdout_file", *worker.output);
  put_file(object, "stderr_file", *worker.errors);
  add_progress(object, sample_page(worker));
  return object;
}

json::object describe_job(const JobSpec& spec,
                          const RoundFacts& facts,
                          int world_size,
                          const WorkerGroup& group) {
  json::array workers;
  for (const auto& worker : group.workers())
    workers.push_back(describe_worker(*worker));
  return json::object{
      {"run", facts.run_id},
      {"rdzv_id", facts.user_run_id},
      {"program", spec.entry},
      {"pid", ::getpid()},
      {"run_dir", facts.run_dir.string()},
      {"endpoint", endpoint_text(facts.master_addr, facts.master_port)},
      {"round", facts.round},
      {"max_restarts", spec.max_restarts},
      {"world_size", world_size},
      {"uptime", seconds_since(facts.job_start)},
      {"round_uptime", seconds_since(group.began_at())},
      {"workers", workers},
  };
}

/// The newest lines, at most `most`.
json::array lines_of(const LogStream& stream, std::size_t most) {
  const std::vector<std::string> lines = stream.tail();
  const auto kept = static_cast<std::ptrdiff_t>(std::min(most, lines.size()));
  return json::array(lines.end() - kept, lines.end());
}

}  // namespace

std::string describe_status(const JobSpec& spec,
                            const RoundFacts& facts,
                            int world_size,
                            const WorkerGroup& group,
                            const std::optional<SlowRank>& slowest) {
  json::object object = describe_job(spec, facts, world_size, group);
  add_slowest(object, slowest);
  return json_text(object);
}

std::string describe_logs(const JobSpec& spec,
                          const RoundFacts& facts,
                          int world_size,
                          const WorkerGroup& group) {
  json::object object = describe_job(spec, facts, world_size, group);
  json::array& workers = object["workers"].as_array();
  for (std::size_t lines = LogStream::kTailLines;; lines /= 2) {
    for (std::size_t i = 0; i < workers.size(); ++i) {
      const Worker& worker = *group.workers()[i];
      json::object& shown = workers[i].as_object();
      shown["stdout"] = lines_of(*worker.output, lines);
      shown["stderr"] = lines_of(*worker.errors, lines);
      shown["stdout_lines"] = worker.output->lines();
      shown["stderr_lines"] = worker.errors->lines();
    }
    std::string text = json_text(object);
    if (text.size() <= kLongestAnswer || lines == 0) return text;
  }
}

}  // namespace ddp::launcher
