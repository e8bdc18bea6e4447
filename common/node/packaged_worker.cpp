#include "common/node/packaged_worker.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string_view>
#include <system_error>
#include <vector>

#include "common/error.h"
#include "common/text/join_words.h"
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

/// The site-packages with the package; empty: there is none. pip writes PREFIX/lib/python3.N, some
/// distributions lib64 or dist-packages, and pip install --target PREFIX itself.
fs::path site_of_package(const fs::path& prefix) {
  std::error_code ignored;
  for (const char* lib : {"lib", "lib64", "local/lib"}) {
    for (const fs::path& python : entries(prefix / lib)) {
      for (const char* site : {"site-packages", "dist-packages"})
        if (fs::is_directory(python / site / kPackage, ignored)) return python / site;
    }
  }
  return fs::is_directory(prefix / kPackage, ignored) ? prefix : fs::path();
}

/// The directory that holds torch/, as the environment's Python finds it; empty: it finds none.
fs::path site_of_torch_by_python(const fs::path& prefix, const fs::path& site) {
  std::error_code ignored;
  const std::string version = site.parent_path().filename();  // python3.11
  const std::string beside = prefix / "bin" / "python3";
  const std::string python = fs::exists(beside, ignored)     ? beside
                             : version.starts_with("python") ? version
                                                             : "python3";
  const std::string command =
      in_quotes(python) +
      " -c 'import importlib.util as u; s = u.find_spec(\"torch\"); print(s.origin if s else \"\")'"
      " 2>/dev/null";
  const auto close = [](FILE* pipe) { ::pclose(pipe); };
  const std::unique_ptr<FILE, decltype(close)> pipe(::popen(command.c_str(), "re"), close);
  if (!pipe) return {};
  std::array<char, 4096> line{};
  if (std::fgets(line.data(), line.size(), pipe.get()) == nullptr) return {};
  std::string origin = line.data();
  while (!origin.empty() && origin.back() == '\n')
    origin.pop_back();
  return fs::path(origin).parent_path().parent_path();
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

/// "2.11" and so on, of the workers in the package.
std::vector<std::string> served(const fs::path& package) {
  std::vector<std::string> releases;
  for (const fs::path& one : entries(package)) {
    const std::string name = one.filename();
    if (name.starts_with(kWorkerOf)) releases.push_back(name.substr(kWorkerOf.size()));
  }
  return releases;
}

/// As libtorch_cpu.so names them: torch/lib, and the wheels of NVIDIA beside torch.
std::string library_path(const fs::path& site) {
  std::string path = site / "torch" / "lib";
  std::error_code ignored;
  for (const fs::path& wheel : entries(site / "nvidia"))
    if (fs::is_directory(wheel / "lib", ignored)) path += ":" + (wheel / "lib").string();
  return path;
}

}  // namespace

PackagedWorker find_packaged_worker(const fs::path& self) {
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
  const fs::path torch = is_beside ? site : site_of_torch_by_python(prefix, site);
  const std::string all = join_words(served(package), ", ");
  if (torch.empty()) {
    throw UsageError("there is no torch in the Python environment " + prefix.string() +
                     ". Install one that is served (" + all + "): pip install torch");
  }
  const std::string version = version_of(torch);
  const fs::path worker =
      package / (std::string(kWorkerOf) + minor_release(version)) / "bin" / "ddp-worker";
  if (version.empty() || !fs::exists(worker, ignored)) {
    throw UsageError("torch " + (version.empty() ? "of an unknown version" : version) + " is in " +
                     torch.string() + ", served are " + all +
                     ". Install one of these, or a ddp_worker that serves it.");
  }
  return {worker, is_beside ? "" : library_path(torch)};
}

}  // namespace ddp
