#include "launcher/run/job_end.h"

#include "common/error.h"
#include "common/files.h"
#include "common/run_dir.h"
#include "launcher/plan/error_file.h"

namespace ddp::launcher {

int report(const JobEnd& end,
           const std::vector<const OwnedDir*>& directories,
           const Environment& environment,
           Console& console) {
  console.print(end.report);
  try {
    for (const OwnedDir* const directory : directories) {
      if (directory != nullptr) write_result(*directory, end.exit_code, end.members, end.state);
    }
    const auto above = find_variable(environment, "TORCHELASTIC_ERROR_FILE");
    if (above && !end.error_text.empty()) {
      replace_file(*above, with_error_code(end.error_text, end.exit_code));
    }
  } catch (const SystemError& error) {
    console.warning(error.what());  // the verdict's code stands
  }
  return end.exit_code;
}

}  // namespace ddp::launcher
