// ddp-fetch with a set that a test makes up: its first argument is a file of the set's words, in
// lines: set NAME ADDRESS FOLDER, file NAME SIZE SHA256 [SIZE_TOLERANCE], archive NAME SIZE SHA256,
// extra NAME.
#include <fstream>
#include <sstream>
#include <string>

#include "worker/fetch/fetch.h"

int main(int argc, char** argv) {
  ddp::worker::PublishedSet set;
  std::ifstream table(argc > 1 ? argv[1] : "");
  for (std::string text; std::getline(table, text);) {
    std::istringstream line(text);
    std::string kind;
    line >> kind;
    ddp::worker::PublishedFile file;
    if (kind == "set") {
      line >> set.name >> set.address >> set.folder;
      continue;
    }
    line >> file.name >> file.size >> file.sha256 >> file.size_tolerance;
    if (kind == "file") set.files.push_back(file);
    if (kind == "archive") set.archive = file;
    if (kind == "extra") set.extras.push_back(file.name);
  }
  return ddp::worker::run_fetch(argc - 1, argv + 1, {set});
}
