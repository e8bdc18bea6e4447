#include "worker/train/failure/error_file.h"

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <chrono>

#include "common/error.h"
#include "common/files/files.h"

namespace ddp::worker {

void write_error_file(const std::string& path, int rank, const std::exception& error) {
  if (path.empty()) return;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  boost::json::object extra;
  extra["py_callstack"] = error.what();
  extra["timestamp"] =
      std::to_string(std::chrono::duration_cast<std::chrono::seconds>(now).count());
  if (rank >= 0) extra["rank"] = rank;
  const std::string text = error.what();
  boost::json::object message;
  message["message"] = text.substr(0, text.find("\nException raised from"));
  message["extraInfo"] = std::move(extra);
  boost::json::object file;
  file["message"] = std::move(message);
  try {
    replace_file(path, boost::json::serialize(file));
  } catch (const SystemError&) {
    return;  // the disk may be the cause of the error
  }
}

}  // namespace ddp::worker
