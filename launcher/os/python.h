// Which Python runs a script or a module: the one of the environment that this program is in, or
// that is active, before the first one of the PATH.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/node/environment.h"

namespace ddp::launcher {

struct PythonChoice {
  std::string program;             // a path, or a name that is searched on PATH
  std::string from;                // what names it: "PATH", "VIRTUAL_ENV"
  std::vector<std::string> notes;  // for the user; none: it is the first of the PATH
};

/// The first that is there: PYTHON_EXEC; the one beside `self`, our own file, in an environment of
/// venv or conda; those of VIRTUAL_ENV and CONDA_PREFIX; the one that the first line of `script`
/// names (empty: a module); python3 of the PATH.
PythonChoice choose_python(const Environment& environment,
                           const std::filesystem::path& self,
                           const std::string& script);

/// The Pythons that have torch, by their files: beside `self`, of the active environments and of
/// the PATH, and in .venv and venv beside the script and here.
std::vector<std::string> pythons_with_torch(const Environment& environment,
                                            const std::filesystem::path& self,
                                            const std::string& script);

}  // namespace ddp::launcher
