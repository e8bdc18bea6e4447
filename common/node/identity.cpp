#include "common/node/identity.h"

#include <unistd.h>

#include <array>
#include <climits>
#include <vector>

#include "common/error.h"
#include "common/node/platform_ranks.h"
#include "common/text/parse_whole.h"

namespace ddp {
namespace {

// Reads integers and collects all problems, so that they are shown together.
class IdentityReader {
 public:
  explicit IdentityReader(const Environment& environment) : environment_(environment) {}

  int integer(const std::string& name, int fallback, int min, int max) {
    const std::optional<std::string> text = find_variable(environment_, name);
    if (!text) return fallback;
    const std::optional<int> value = parse_whole<int>(*text, min, max);
    if (!value) {
      complain(name + "=" + *text + ": not a number from " + std::to_string(min) + " to " +
               std::to_string(max) + ". Let the launcher set it, or unset it.");
    }
    return value.value_or(fallback);
  }

  std::string text(const std::string& name, const std::string& fallback) {
    return find_variable(environment_, name).value_or(fallback);
  }

  void complain(const std::string& problem) { problems_.push_back(problem); }
  [[nodiscard]] const std::vector<std::string>& problems() const { return problems_; }

 private:
  const Environment& environment_;
  std::vector<std::string> problems_;
};

void check_world(const WorkerIdentity& self, IdentityReader& reader) {
  const auto inside = [&reader](const char* rank_name, int rank, const char* size_name, int size) {
    if (rank < size) return;
    reader.complain(std::string(rank_name) + "=" + std::to_string(rank) + " does not fit " +
                    size_name + "=" + std::to_string(size) + ": ranks count from 0.");
  };
  inside("RANK", self.rank, "WORLD_SIZE", self.world_size);
  inside("LOCAL_RANK", self.local_rank, "LOCAL_WORLD_SIZE", self.local_world_size);
  if (self.world_size > 1 && (self.master_addr.empty() || self.master_port == 0)) {
    reader.complain(
        "RANK=" + std::to_string(self.rank) + " WORLD_SIZE=" + std::to_string(self.world_size) +
        ", but MASTER_ADDR and MASTER_PORT are not both set. Set both, or start by ddp-launch.");
  }
}

/// `given`, with the ranks of a platform if it has none.
Environment with_platform(const Environment& given, std::string& platform) {
  if (find_variable(given, "RANK") || find_variable(given, "WORLD_SIZE")) return given;
  const PlatformRanks ranks = read_platform_ranks(given);
  if (!ranks.problem.empty()) {
    throw UsageError(
        ranks.platform + ": " + ranks.problem +
        ": an incomplete rank environment. Unset its variables, or say RANK=0 WORLD_SIZE=1 to run "
        "alone.");
  }
  platform = ranks.platform;
  Environment environment = given;
  for (const auto& [name, text] : ranks.variables)
    if (!find_variable(given, name)) environment[name] = text;
  return environment;
}

}  // namespace

WorkerIdentity read_identity(const Environment& given) {
  WorkerIdentity self;
  const Environment environment = with_platform(given, self.platform);
  IdentityReader reader(environment);
  const bool has_rank = find_variable(environment, "RANK").has_value();
  const bool has_world = find_variable(environment, "WORLD_SIZE").has_value();
  if (has_rank != has_world) {
    throw UsageError(std::string(has_rank ? "RANK is set, but WORLD_SIZE is not"
                                          : "WORLD_SIZE is set, but RANK is not") +
                     ": an incomplete rank environment. Set both (and MASTER_ADDR, MASTER_PORT), "
                     "or neither to run alone.");
  }
  if (has_rank) {
    self.rank = reader.integer("RANK", 0, 0, INT_MAX);
    self.world_size = reader.integer("WORLD_SIZE", 1, 1, INT_MAX);
    self.local_rank = reader.integer("LOCAL_RANK", 0, 0, INT_MAX);
    self.local_world_size = reader.integer("LOCAL_WORLD_SIZE", self.local_rank + 1, 1, INT_MAX);
    self.group_rank = reader.integer("GROUP_RANK", 0, 0, INT_MAX);
    self.group_world_size = reader.integer("GROUP_WORLD_SIZE", 1, 1, INT_MAX);
    self.role_rank = reader.integer("ROLE_RANK", self.rank, 0, INT_MAX);
    self.role_world_size = reader.integer("ROLE_WORLD_SIZE", self.world_size, 1, INT_MAX);
    self.role_name = reader.text("ROLE_NAME", self.role_name);
    self.master_addr = reader.text("MASTER_ADDR", "");
    self.master_port = reader.integer("MASTER_PORT", 0, 0, 65535);
    const std::string agent_store = reader.text("TORCHELASTIC_USE_AGENT_STORE", "False");
    self.agent_store = agent_store == "True" || agent_store == "1";
    self.restart_count = reader.integer("TORCHELASTIC_RESTART_COUNT", 0, 0, INT_MAX);
    self.max_restarts = reader.integer("TORCHELASTIC_MAX_RESTARTS", 0, 0, INT_MAX);
    self.user_run_id = reader.text("TORCHELASTIC_RUN_ID", self.user_run_id);
    check_world(self, reader);
  }
  self.error_file = reader.text("TORCHELASTIC_ERROR_FILE", "");
  self.run_id = reader.text("DDP_RUN_ID", "");
  self.round = reader.integer("DDP_ROUND", 0, 0, INT_MAX);
  self.run_dir = reader.text("DDP_RUN_DIR", "");
  self.progress_fd = reader.integer("DDP_PROGRESS_FD", -1, 0, INT_MAX);
  if (!reader.problems().empty()) throw UsageError(reader.problems());
  return self;
}

std::string describe(const WorkerIdentity& identity) {
  if (identity.platform.empty() && identity.master_addr.empty() && identity.world_size == 1)
    return "not distributed: one process";
  const std::string from = identity.platform.empty() ? "RANK and WORLD_SIZE" : identity.platform;
  return "rank " + std::to_string(identity.rank) + " of " + std::to_string(identity.world_size) +
         ", from " + from;
}

std::string host_name() {
  std::array<char, 256> name{};
  const bool has_name = ::gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0';
  return has_name ? name.data() : "localhost";
}

Environment to_environment(const WorkerIdentity& identity) {
  Environment environment{
      {"RANK", std::to_string(identity.rank)},
      {"WORLD_SIZE", std::to_string(identity.world_size)},
      {"LOCAL_RANK", std::to_string(identity.local_rank)},
      {"LOCAL_WORLD_SIZE", std::to_string(identity.local_world_size)},
      {"GROUP_RANK", std::to_string(identity.group_rank)},
      {"GROUP_WORLD_SIZE", std::to_string(identity.group_world_size)},
      {"ROLE_RANK", std::to_string(identity.role_rank)},
      {"ROLE_WORLD_SIZE", std::to_string(identity.role_world_size)},
      {"ROLE_NAME", identity.role_name},
      {"MASTER_ADDR", identity.master_addr},
      {"MASTER_PORT", std::to_string(identity.master_port)},
      {"TORCHELASTIC_USE_AGENT_STORE", identity.agent_store ? "True" : "False"},
      {"TORCHELASTIC_RESTART_COUNT", std::to_string(identity.restart_count)},
      {"TORCHELASTIC_MAX_RESTARTS", std::to_string(identity.max_restarts)},
      {"TORCHELASTIC_RUN_ID", identity.user_run_id},
      {"TORCHELASTIC_ERROR_FILE", identity.error_file},
      {"DDP_RUN_ID", identity.run_id},
      {"DDP_ROUND", std::to_string(identity.round)},
  };
  if (!identity.run_dir.empty()) environment["DDP_RUN_DIR"] = identity.run_dir.string();
  if (identity.progress_fd >= 0)
    environment["DDP_PROGRESS_FD"] = std::to_string(identity.progress_fd);
  return environment;
}

}  // namespace ddp
