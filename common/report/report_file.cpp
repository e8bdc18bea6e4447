#include "common/report/report_file.h"

#include <exception>
#include <string>

#include "common/files/files.h"
#include "common/program/log.h"
#include "common/report/run_page.h"
#include "common/report/run_reader.h"

namespace ddp {

void write_run_page(const OwnedDir& directory) {
  try {
    replace_file(directory, kReportName, run_page(read_run(directory)));
  } catch (const std::exception& error) {
    log::warning(std::string("cannot write ") + kReportName + ": " + error.what());
  }
}

}  // namespace ddp
