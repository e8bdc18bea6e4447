#include "worker/save/records/round_file.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <system_error>

#include "common/error.h"
#include "common/files/files.h"
#include "common/program/log.h"
#include "worker/plan/epoch_number.h"

namespace ddp::worker {
namespace {

namespace json = boost::json;

constexpr const char* kName = "rounds.jsonl";

void warn(const SystemError& error) {
  log::warning(std::string("cannot write ") + kName + ": " + error.what() +
               ". Training goes on without it.");
}

double now() {
  const auto time = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(time).count();
}

/// Numbers that are not finite become null, because JSON has only finite ones.
json::array finite(const std::vector<double>& values) {
  json::array array;
  for (const double value : values)
    array.push_back(std::isfinite(value) ? json::value(value) : json::value(nullptr));
  return array;
}

}  // namespace

bool has_rounds(const OwnedDir& run_dir) {
  std::error_code ignored;
  return std::filesystem::exists(run_dir.path() / kName, ignored);
}

RoundFile::RoundFile(const OwnedDir& directory) {
  try {
    const std::string before = read_file(directory, kName).value_or("");
    file_.emplace(directory, kName, OutputFile::Mode::append);
    // Ends a line that a crash has cut off.
    if (!before.empty() && !before.ends_with('\n')) file_->write("\n");
  } catch (const SystemError& error) {
    warn(error);
  }
}

void RoundFile::begin(const RoundRecord& record, std::int64_t step) {
  append(
      json::serialize(json::object{{"kind", "round"},
                                   {"round", record.round},
                                   {"step", step},
                                   {"time", now()},
                                   {"ranks", json::array(record.ranks.begin(), record.ranks.end())},
                                   {"versions", record.versions},
                                   {"directory", record.directory},
                                   {"commit", record.commit},
                                   {"watch", record.watched},
                                   {"higher_is_better", record.is_higher_better}}));
}

void RoundFile::write_ranks(std::int64_t epoch, std::int64_t step, const RankNumbers& numbers) {
  json::object line{{"kind", "ranks"}, {"epoch", epoch_number(epoch)}, {"step", step}};
  for (const auto& [name, values] : numbers)
    line.emplace(name, finite(values));
  append(json::serialize(line));
}

void RoundFile::write_save(std::int64_t step) {
  append(json::serialize(json::object{{"kind", "save"}, {"step", step}, {"time", now()}}));
}

void RoundFile::append(const std::string& line) {
  if (!file_) return;
  try {
    file_->write(line + "\n");
  } catch (const SystemError& error) {
    warn(error);
    file_.reset();
  }
}

}  // namespace ddp::worker
