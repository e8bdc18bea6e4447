#include "launcher/run/compare.h"

#include <iostream>
#include <vector>

#include "common/error.h"
#include "common/files/files.h"
#include "common/report/run_comparison.h"
#include "common/report/run_reader.h"
#include "common/text/one_line.h"

namespace ddp::launcher {

std::string compare_runs(const Options& options) {
  std::vector<RunRecord> runs;
  std::vector<std::string> problems;
  for (const std::string& path : options.compared) {
    try {
      runs.push_back(read_run(std::filesystem::path(path)));
    } catch (const UsageError& error) {
      problems.emplace_back(error.what());
    }
  }
  if (!problems.empty()) throw UsageError(problems);
  for (const RunRecord& run : runs)
    for (const std::string& problem : run.problems)
      std::cerr << "ddp-launch: " << one_line(run.name + ": " + problem) << "\n";
  if (options.html) replace_file(std::filesystem::path(*options.html), comparison_page(runs));
  return comparison_text(runs);
}

}  // namespace ddp::launcher
