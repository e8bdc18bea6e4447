#include "worker/save/records/round_file.h"

#include <boost/json/object.hpp>
#include <boost/json/value_from.hpp>
#include <chrono>
#include <filesystem>
#include <system_error>

#include "common/files/files.h"
#include "common/text/json_text.h"
#include "worker/plan/epoch_number.h"

namespace ddp::worker {
namespace {

namespace json = boost::json;

constexpr const char* kName = "rounds.jsonl";

double now() {
  const auto time = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(time).count();
}

}  // namespace

bool has_rounds(const OwnedDir& run_dir) {
  std::error_code ignored;
  return std::filesystem::exists(run_dir.path() / kName, ignored);
}

RoundFile::RoundFile(const OwnedDir& directory) {
  attempt(file_, kName, [&](auto& file) {
    const std::string before = read_file(directory, kName).value_or("");
    file.emplace(directory, kName, OutputFile::Mode::append);
    // Ends a line that a crash has cut off.
    if (!before.empty() && !before.ends_with('\n')) file->write("\n");
  });
}

void RoundFile::begin(const RoundRecord& record, std::int64_t step) {
  append(json_text(json::object{{"kind", "round"},
                                {"round", record.round},
                                {"step", step},
                                {"time", now()},
                                {"ranks", json::value_from(record.ranks)},
                                {"versions", record.versions},
                                {"directory", record.directory},
                                {"commit", record.commit},
                                {"watch", record.monitored},
                                {"higher_is_better", record.is_higher_better}}));
}

void RoundFile::write_ranks(std::int64_t epoch, std::int64_t step, const RankNumbers& numbers) {
  json::object line{{"kind", "ranks"}, {"epoch", epoch_number(epoch)}, {"step", step}};
  for (const auto& [name, values] : numbers)
    line.emplace(name, json::value_from(values));
  append(json_text(line));
}

void RoundFile::write_save(std::int64_t step) {
  append(json_text(json::object{{"kind", "save"}, {"step", step}, {"time", now()}}));
}

void RoundFile::append(const std::string& line) {
  if (file_) attempt(file_, kName, [&](auto& file) { file->write(line + "\n"); });
}

}  // namespace ddp::worker
