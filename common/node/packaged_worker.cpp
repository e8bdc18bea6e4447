#include "common/node/packaged_worker.h"

#include <algorithm>
#include <fstream>
#include <string_view>
#include <system_error>
#include <vector>

#include "common/error.h"
#include "common/node/helper_process.h"
#include "common/text/join_words.h"
#include "common/text/parse_whole.h"
#include "common/text/shell_quotes.h"

namespace ddp {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPackage = "ddp_worker";
constexpr std::string_view kWorkerOf = "torch-";  // then the minor release: torch-2.15

/// Sorted, and nothing where the directory cannot be read.
std::vector<fs::path> entries(const fs::path& directory) {
  std::error_code error;
  std::vector<fs::path> found;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error))
    found.push_back(at->path());
  std::ranges::sort(found);
  return found;
}

/// "2.11" and so on, of the workers in the package.
std::vector<std::string> served(const fs::path& package) {
  std::vector<std::string> releases;
  for (const fs::path& one : entries(package)) {
    const std::string name = one.filename();
    if (name.starts_with(kWorkerOf)) releases.push_back(name.substr(kWorkerOf.size()));
  }
  return releases;
}

/// The site-packages with the package; empty: there is none. pip writes PREFIX/lib/python3.N, some
/// distributions lib64 or dist-packages, and pip install --target PREFIX itself. Of several the one
/// of the newest Python: what an older one has is left of an environment that was upgraded.
fs::path site_of_package(const fs::path& prefix) {
  fs::path newest;
  int newest_minor = -1;
  for (const char* lib : {"lib", "lib64", "local/lib"}) {
    for (const fs::path& python : entries(prefix / lib)) {
      const std::string name = python.filename();
      const int minor = parse_whole<int>(name.substr(name.find('.') + 1)).value_or(0);
      for (const char* site : {"site-packages", "dist-packages"}) {
        if (minor <= newest_minor || served(python / site / kPackage).empty()) continue;
        newest = python / site;
        newest_minor = minor;
      }
    }
  }
  return newest.empty() && !served(prefix / kPackage).empty() ? prefix : newest;
}

/// The directory that holds torch/, as the environment's Python finds it; empty: it finds none.
/// Blocks: at most `patience`. Errors: SystemError(kTimeout): it does not answer.
fs::path site_of_torch_by_python(const fs::path& prefix,
                                 const fs::path& site,
                                 std::chrono::seconds patience) {
  std::error_code ignored;
  const std::string version = site.parent_path().filename();  // python3.11
  const std::string beside = prefix / "bin" / "python3";
  const std::string python = fs::exists(beside, ignored)     ? beside
                             : version.starts_with("python") ? version
                                                             : "python3";
  const PythonQuestion question{
      .statements = "import importlib.util as u; s = u.find_spec(\"torch\")",
      .mark = "torch is ",
      .expression = "s.origin or \"\" if s else \"\""};
  const PythonAnswer answer = ask_python(python, question, patience);
  if (answer.text) return fs::path(*answer.text).parent_path().parent_path();
  if (!answer.is_whole) {
    throw SystemError(python + " was asked where its torch is, and did not answer within " +
                          std::to_string(patience.count()) +
                          " s. What holds it up? Try: " + in_quotes(python) + " -c 'import torch'",
                      exit_code::kTimeout);
  }
  return {};
}

/// "2.15.0+cu132"; empty: the file does not tell.
std::string version_of(const fs::path& site) {
  std::ifstream file(site / "torch" / "version.py");
  constexpr std::string_view kBegin = "__version__ = '";
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(kBegin)) continue;
    const std::size_t end = line.find('\'', kBegin.size());
    return end == std::string::npos ? "" : line.substr(kBegin.size(), end - kBegin.size());
  }
  return "";
}

/// "2.15.0+cu132" is "2.15".
std::string minor_release(const std::string& version) {
  return version.substr(0, version.find('.', version.find('.') + 1));
}

/// As libtorch_cpu.so names them: torch/lib, and the wheels of NVIDIA beside torch. Errors:
/// UsageError: no list of directories can hold them (ld.so(8)).
std::string library_path(const fs::path& site) {
  if (site.native().find_first_of(":;") != std::string::npos) {
    throw UsageError(
        "torch is in " + site.string() +
        ", and LD_LIBRARY_PATH, which has to name that directory, cannot hold a ':' or "
        "';'. Move the environment to a path without them.");
  }
  std::string path = site / "torch" / "lib";
  std::error_code ignored;
  for (const fs::path& wheel : entries(site / "nvidia"))
    if (fs::is_directory(wheel / "lib", ignored)) path += ":" + (wheel / "lib").string();
  return path;
}

}  // namespace

bool has_packaged_worker(const fs::path& self) {
  return !site_of_package(self.parent_path().parent_path()).empty();
}

PackagedWorker find_packaged_worker(const fs::path& self, std::chrono::seconds patience) {
  const fs::path prefix = self.parent_path().parent_path();
  const fs::path site = site_of_package(prefix);
  if (site.empty()) {
    throw UsageError("there is no package " + std::string(kPackage) + " in the site-packages of " +
                     prefix.string() +
                     ". Install it again: pip install --force-reinstall --no-deps ddp_worker");
  }
  const fs::path package = site / kPackage;
  std::error_code ignored;
  const bool is_beside = fs::exists(site / "torch" / "version.py", ignored);
  const fs::path torch = is_beside ? site : site_of_torch_by_python(prefix, site, patience);
  const std::string all = join_words(served(package), ", ");
  if (torch.empty()) {
    throw UsageError("there is no torch in the Python environment " + prefix.string() +
                     ". Install one that is served (" + all + "): pip install torch");
  }
  const std::string version = version_of(torch);
  const fs::path own = package / (std::string(kWorkerOf) + minor_release(version));
  const fs::path worker = own / "bin" / "ddp-worker";
  if (!version.empty() && fs::exists(own, ignored) && !fs::exists(worker, ignored)) {
    throw UsageError(worker.string() +
                     " is missing. Install the package again: pip install "
                     "--force-reinstall --no-deps ddp_worker");
  }
  if (version.empty() || !fs::exists(worker, ignored)) {
    throw UsageError("torch " + (version.empty() ? "of an unknown version" : version) + " is in " +
                     torch.string() + ", served are " + all +
                     ". Install one of these, or a ddp_worker that serves it.");
  }
  const fs::path library = torch / "torch" / "lib" / "libtorch_cpu.so";
  if (!fs::exists(library, ignored)) {
    throw UsageError("torch " + version + " in " + torch.string() +
                     " is not whole: " + library.filename().string() +
                     " is missing. Install it again: pip install "
                     "--force-reinstall --no-deps torch==" +
                     version.substr(0, version.find('+')));
  }
  // Behind a link, as uv makes one on request, its RPATH leads beside what the link leads to.
  const fs::path place = fs::canonical(site, ignored) / worker.lexically_relative(site);
  const bool is_in_place = fs::canonical(worker, ignored) == place;
  return {worker, is_beside && is_in_place ? "" : library_path(torch)};
}

}  // namespace ddp
