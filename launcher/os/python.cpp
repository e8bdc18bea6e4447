#include "launcher/os/python.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <system_error>

#include "common/error.h"
#include "launcher/os/program.h"

namespace ddp::launcher {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUsual = "python3";
constexpr const char* kActive[] = {"VIRTUAL_ENV", "CONDA_PREFIX"};

/// Its Python; empty: it has none that can be executed.
std::string python_in(const fs::path& bin) {
  for (const char* const name : {kUsual, "python"}) {
    std::error_code ignored;
    const fs::path python = bin / name;
    if (fs::is_regular_file(python, ignored) && ::access(python.c_str(), X_OK) == 0) return python;
  }
  return "";
}

/// Whether it belongs to an environment of Python, unlike /usr/bin.
bool is_of_environment(const fs::path& bin) {
  std::error_code ignored;
  const fs::path prefix = bin.parent_path();
  return fs::exists(prefix / "pyvenv.cfg", ignored) || fs::exists(prefix / "conda-meta", ignored);
}

/// The first program of that name on the PATH, or the path itself; empty: there is none.
std::string find(const std::string& name, const Environment& environment) {
  try {
    return find_program(name, find_variable(environment, "PATH").value_or(kDefaultPath));
  } catch (const SystemError&) {
    return "";
  }
}

/// The Python that the first line of a script names, as "#!/usr/bin/env python3.11"; empty: none.
std::string interpreter_of(const std::string& script) {
  std::ifstream file(script);
  std::string line;
  if (!std::getline(file, line) || !line.starts_with("#!")) return "";
  std::istringstream words(line.substr(2));
  std::string word;
  words >> word;
  if (fs::path(word).filename() == "env") {
    while (words >> word && (word.starts_with('-') || word.find('=') != std::string::npos)) {
    }
  }
  const std::string name = fs::path(word).filename();
  return name.starts_with("python") || name.starts_with("pypy") ? word : "";
}

bool is_same_directory(const std::string& left, const std::string& right) {
  std::error_code ignored;
  return fs::equivalent(fs::path(left).parent_path(), fs::path(right).parent_path(), ignored);
}

/// What names a Python before the PATH does. Adds a note for an active environment without one.
PythonChoice find_named(const Environment& environment,
                        const fs::path& self,
                        const std::string& script) {
  PythonChoice choice;
  const fs::path bin = self.parent_path();
  if (is_of_environment(bin)) choice = {python_in(bin), "beside ddp-launch", {}};
  for (const char* const name : kActive) {
    const auto prefix = find_variable(environment, name);
    if (!choice.program.empty() || !prefix) continue;
    choice.program = python_in(fs::path(*prefix) / "bin");
    choice.from = name;
    if (!choice.program.empty()) continue;
    choice.notes.push_back(std::string(name) + "=" + *prefix + " has no Python");
  }
  if (!choice.program.empty() || script.empty()) return choice;
  choice.program = find(interpreter_of(script), environment);
  choice.from = "the first line of " + script;
  return choice;
}

/// Whether torch is in its site-packages, or in those of a distribution.
bool has_torch(const fs::path& prefix) {
  std::error_code error;
  for (const char* const lib : {"lib", "lib64", "local/lib"}) {
    for (fs::directory_iterator at(prefix / lib, error), end; !error && at != end;
         at.increment(error)) {
      if (!at->path().filename().native().starts_with("python3")) continue;
      for (const char* const site : {"site-packages", "dist-packages"}) {
        std::error_code ignored;
        if (fs::exists(at->path() / site / "torch" / "__init__.py", ignored)) return true;
      }
    }
  }
  return false;
}

}  // namespace

PythonChoice choose_python(const Environment& environment,
                           const fs::path& self,
                           const std::string& script) {
  if (const auto named = find_variable(environment, "PYTHON_EXEC"))
    return {*named, "PYTHON_EXEC", {}};
  const std::string usual = find(kUsual, environment);
  PythonChoice choice = find_named(environment, self, script);
  if (choice.program.empty() || is_same_directory(choice.program, usual))
    return {kUsual, "PATH", std::move(choice.notes)};
  choice.notes.push_back("python: " + choice.program + " (" + choice.from + "), not " +
                         (usual.empty() ? "one" : usual) + " of the PATH");
  return choice;
}

std::vector<std::string> pythons_with_torch(const Environment& environment,
                                            const fs::path& self,
                                            const std::string& script) {
  std::vector<fs::path> bins{self.parent_path()};
  for (const char* const name : kActive) {
    if (const auto prefix = find_variable(environment, name))
      bins.push_back(fs::path(*prefix) / "bin");
  }
  std::istringstream path(find_variable(environment, "PATH").value_or(kDefaultPath));
  for (std::string directory; std::getline(path, directory, ':');)
    bins.emplace_back(directory);
  std::error_code ignored;
  const fs::path here = fs::current_path(ignored);
  for (const fs::path& above : {here / fs::path(script).parent_path(), here}) {
    for (const char* const name : {".venv", "venv"})
      bins.push_back(above.lexically_normal() / name / "bin");
  }
  std::vector<std::string> found;
  for (const fs::path& bin : bins) {
    const std::string python = python_in(bin);
    const bool is_known = std::ranges::any_of(
        found, [&](const std::string& one) { return is_same_directory(one, python); });
    if (!python.empty() && !is_known && has_torch(bin.parent_path())) found.push_back(python);
  }
  return found;
}

}  // namespace ddp::launcher
