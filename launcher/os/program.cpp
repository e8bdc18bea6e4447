#include "launcher/os/program.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <string_view>
#include <system_error>
#include <vector>

#include "common/error.h"
#include "common/files/similar_file.h"
#include "common/text/spelling.h"
#include "launcher/plan/command_line/verbs.h"

namespace ddp::launcher {
namespace {

bool is_directory(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

constexpr std::array<std::string_view, 7> kWorkersVerbs{
    "eval", "val", "predict", "inspect", "export", "preview", "fetch"};

/// ", did you mean ddp-launch status?", or ".".
std::string suggest_verb(const std::string& name) {
  std::vector<std::string_view> own;
  for (const Verb& verb : verbs())
    own.push_back(verb.name);
  if (const auto near = did_you_mean(name, own)) return ", did you mean ddp-launch " + *near + "?";
  const std::vector<std::string_view> workers(kWorkersVerbs.begin(), kWorkersVerbs.end());
  const auto near = did_you_mean(name, workers);
  return near ? ", did you mean ddp-worker " + *near + "?" : ".";
}

/// " put its interpreter before it, as python3 -u app.".
std::string by_interpreter(const std::string& path) {
  return " put its interpreter before it, as " +
         std::string(path.ends_with(".sh") ? "bash " : "python3 -u ") + path + ".";
}

/// What to do with a directory: Python runs one that has a __main__.py.
std::string start_directory(const std::string& path) {
  const bool is_of_python = ::access((path + "/__main__.py").c_str(), F_OK) == 0;
  return is_of_python ? "it is a directory;" + by_interpreter(path) : "it is a directory.";
}

/// How what is here is started, as it is not on PATH.
std::string start_here(const std::string& name) {
  if (is_directory(name)) return " Here " + start_directory(name);
  if (::access(name.c_str(), X_OK) == 0) return " The file here is started as ./" + name + ".";
  return " The file here is not executable:" + by_interpreter(name);
}

[[noreturn]] void refuse(const std::string& path, int error) {
  const std::string head = "cannot start " + path + ": ";
  if (error == ENOENT || error == ENOTDIR) {
    throw SystemError(
        head + "no such file" + suggest_file(path) + " Give a path that exists, or a name on PATH.",
        exit_code::kNotFound);
  }
  if (is_directory(path))
    throw SystemError(head + start_directory(path), exit_code::kCannotExecute);
  throw SystemError(
      head + std::strerror(error) + ". Make it executable (chmod +x), or" + by_interpreter(path),
      exit_code::kCannotExecute);
}

}  // namespace

std::string find_program(const std::string& name, const std::string& search_path) {
  if (name.find('/') != std::string::npos) {
    // F_OK before X_OK: a shell tells "not found" (127) from "not executable" (126), and so do
    // we. access(2) asks for the real user, who is the effective one here: nothing of ours is
    // set-user-ID.
    if (::access(name.c_str(), F_OK) != 0) refuse(name, errno);
    if (is_directory(name)) refuse(name, EISDIR);
    if (::access(name.c_str(), X_OK) != 0) refuse(name, errno);
    return name;
  }
  if (name.empty()) {
    throw SystemError(
        "cannot start a program without a name: the first word that is not a flag is empty. A "
        "variable that is not set, perhaps?",
        exit_code::kNotFound);
  }
  std::string found_unusable;
  std::istringstream directories(search_path);
  for (std::string directory; std::getline(directories, directory, ':');) {
    // An empty entry means the current directory (environ(7)).
    const std::string path = (directory.empty() ? "." : directory) + "/" + name;
    // Like execvp(3): a file that cannot be executed does not end the search, but is named if
    // nothing else is found. A directory passes X_OK, which means search permission there.
    if (::access(path.c_str(), F_OK) != 0 || is_directory(path)) continue;
    if (::access(path.c_str(), X_OK) == 0) return path;
    found_unusable = path;
  }
  if (!found_unusable.empty()) refuse(found_unusable, EACCES);
  const bool is_here = ::access(name.c_str(), F_OK) == 0;
  for (const std::string_view verb : kWorkersVerbs) {
    if (name == verb && !is_here)
      throw SystemError("cannot start " + name +
                            ": there is no such program on PATH. Type ddp-worker " + name +
                            " ..., which needs no ddp-launch.",
                        exit_code::kNotFound);
  }
  const std::string verb = is_here ? "." : suggest_verb(name);
  throw SystemError(
      "cannot start " + name + ": there is no such program on PATH" +
          (verb == "." ? suggest_file(name) : verb) +
          (is_here ? start_here(name) : " Give a path that exists, or a name on PATH."),
      exit_code::kNotFound);
}

void check_script(const std::string& path) {
  if (::access(path.c_str(), F_OK) != 0) refuse(path, errno);
  if (::access(path.c_str(), R_OK) == 0) return;
  throw SystemError("cannot start " + path + ": " + std::strerror(errno) + ". Make it readable.",
                    exit_code::kCannotExecute);
}

std::filesystem::path own_file() {
  std::error_code ignored;
  // argv[0] may be any text; this link is the file that runs (proc(5)).
  return std::filesystem::read_symlink("/proc/self/exe", ignored);
}

std::string beside_this_program(const std::string& name) {
  const std::filesystem::path self = own_file();
  const std::filesystem::path path = self.parent_path() / name;
  return !self.empty() && ::access(path.c_str(), X_OK) == 0 ? path.string() : "";
}

}  // namespace ddp::launcher
