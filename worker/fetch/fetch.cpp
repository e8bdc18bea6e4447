#include "worker/fetch/fetch.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <sstream>

#include "common/cli/streams.h"
#include "common/error.h"
#include "common/files/descriptor.h"
#include "common/progress/terminal.h"
#include "common/text/units.h"
#include "worker/data/format/byte_source.h"
#include "worker/fetch/download.h"
#include "worker/fetch/sha256.h"
#include "worker/fetch/tar.h"
#include "worker/save/output_file.h"

namespace ddp::worker {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr const char* kProgram = "ddp-worker fetch";
constexpr std::uint64_t kMaxExtra = 64 << 10;  // a list of names

/// What a person sees of the download.
class Console {
 public:
  Console(std::ostream& out, bool is_terminal) : out_(out), is_terminal_(is_terminal) {}

  void print(const std::string& line) {
    out_ << (has_bar_ ? "\r\033[K" : "") << kProgram << ": " << line << std::endl;
    has_bar_ = false;
  }

  /// On a terminal, rewrites one line several times a second.
  void show(const PublishedFile& file, std::uint64_t done) {
    const Clock::time_point now = Clock::now();
    if (!is_terminal_ || now < next_) return;
    next_ = now + std::chrono::milliseconds(200);
    out_ << "\r\033[K" << kProgram << ": " << file.name << ", " << text(done) << " of "
         << text(file.size) << std::flush;
    has_bar_ = true;
  }

  static std::string text(std::uint64_t bytes) {
    return format_bytes(static_cast<std::int64_t>(bytes));
  }

 private:
  std::ostream& out_;
  bool is_terminal_;
  bool has_bar_ = false;
  Clock::time_point next_{};
};

/// Lets one process at a time work in a directory, by a lock that ends with its process.
class DirectoryLock {
 public:
  DirectoryLock(const fs::path& directory, Console& console) {
    const fs::path path = directory / ".ddp-fetch.lock";
    file_ = Descriptor(check(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666),
                             "open",
                             path.string()));
    if (::flock(file_.fd(), LOCK_EX | LOCK_NB) == 0) return;
    if (errno != EWOULDBLOCK) check(-1, "flock", path.string());
    console.print("another process fetches into " + directory.string() + "; waiting for it");
    // No time limit: the lock ends with its owner, whose own waits have limits.
    while (::flock(file_.fd(), LOCK_EX) != 0) {
      if (errno != EINTR) check(-1, "flock", path.string());
    }
  }

 private:
  Descriptor file_;
};

/// True when the file exists and is the published one. Errors: UsageError when it is another file,
/// which may be the user's: it must not be replaced.
bool is_there(const fs::path& path, const PublishedFile& file) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  if (status.type() == fs::file_type::not_found) return false;
  if (error) throw SystemError("cannot look at " + path.string() + ": " + error.message());
  const std::uint64_t size = fs::file_size(path, error);
  if (!error && file.has_size(size) && sha256_of(path).starts_with(file.sha256)) return true;
  throw UsageError(path.string() +
                   " is there and is not the published file. Remove it, or give another "
                   "directory.");
}

/// Errors: UsageError.
void make_directory(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error)
    throw UsageError("cannot make the directory " + path.string() + ": " + error.message());
}

void get(const PublishedSet& set,
         const FetchOptions& options,
         const PublishedFile& file,
         const fs::path& target,
         Console& console) {
  const std::string url = options.from.value_or(set.address) + file.name;
  console.print("getting " + url + " (" + Console::text(file.size) + ")");
  download({.url = url,
            .target = target,
            .file = file,
            .stall_limit = options.stall_limit,
            .min_rate = options.min_rate,
            .progress = [&](std::uint64_t done) { console.show(file, done); },
            .note = [&](const std::string& line) { console.print(line); }});
}

/// Copies the member into `path`, by way of `path`.part. An empty digest is not checked. Errors:
/// SystemError; nothing of the member is left then.
void unpack_member(TarReader& archive, const fs::path& path, const std::string& sha256) {
  const fs::path part = path.string() + ".part";
  fs::remove(part);
  try {
    OutputFile file(part, OutputFile::Mode::create);
    Sha256 sum;
    std::vector<std::uint8_t> buffer(std::size_t{1} << 20);
    for (;;) {
      const std::size_t size = archive.read(buffer);
      const auto bytes = std::as_bytes(std::span(buffer).first(size));
      file.write(bytes);
      sum.update(bytes);
      if (size < buffer.size()) break;
    }
    file.sync();
    const std::string found = sum.finish();
    if (!sha256.empty() && found != sha256)
      throw SystemError("the SHA-256 of " + path.filename().string() + " is " + found +
                        ", expected " + sha256);
    fs::rename(part, path);
  } catch (const std::exception&) {
    std::error_code ignored;
    fs::remove(part, ignored);
    throw;
  }
}

/// Unpacks the members that belong to the set, and no others: a name in an archive may lead
/// anywhere.
void unpack(const PublishedSet& set, const fs::path& archive_path, const fs::path& folder) {
  TarReader archive(ByteSource::open(archive_path, "a tar archive"));
  std::vector<PublishedFile> missing = set.files;
  while (const std::optional<TarMember> member = archive.next()) {
    if (!member->is_file || !member->name.starts_with(set.folder + "/")) continue;
    const std::string name = member->name.substr(set.folder.size() + 1);
    const auto wanted =
        std::find_if(missing.begin(), missing.end(), [&](const PublishedFile& file) {
          return file.name == name && file.size == member->size;
        });
    if (wanted != missing.end()) {
      if (!is_there(folder / name, *wanted)) unpack_member(archive, folder / name, wanted->sha256);
      missing.erase(wanted);
    } else if (std::count(set.extras.begin(), set.extras.end(), name) > 0 &&
               member->size <= kMaxExtra && !fs::exists(folder / name)) {
      unpack_member(archive, folder / name, "");
    }
  }
  if (!missing.empty())
    throw SystemError("there is no " + set.folder + "/" + missing.front().name + " of " +
                      std::to_string(missing.front().size) + " bytes in it");
}

void get_archive(const PublishedSet& set,
                 const FetchOptions& options,
                 const fs::path& folder,
                 Console& console) {
  const fs::path path = options.directory / set.archive->name;
  // An archive may be left from a run that ended before it had unpacked it.
  if (!is_there(path, *set.archive)) get(set, options, *set.archive, path, console);
  console.print("unpacking " + path.string());
  std::uint64_t size = 0;
  for (const PublishedFile& file : set.files)
    size += file.size;
  try {
    unpack(set, path, folder);
  } catch (const SystemError& error) {
    throw SystemError("cannot unpack " + path.string() + ": " + error.what() + ". The files take " +
                      Console::text(size) +
                      "; the archive is kept, and the same command goes on with it.");
  }
  fs::remove(path);
}

}  // namespace

void fetch(const PublishedSet& set,
           const FetchOptions& options,
           std::ostream& console_stream,
           bool is_terminal) {
  Console console(console_stream, is_terminal);
  const fs::path folder = options.directory / set.folder;
  make_directory(folder);
  const DirectoryLock lock(options.directory, console);
  // Beyond this point nobody else fetches into the directory.
  std::vector<PublishedFile> missing;
  for (const PublishedFile& file : set.files) {
    if (!is_there(folder / file.name, file)) missing.push_back(file);
  }
  if (!missing.empty() && set.archive) {
    get_archive(set, options, folder, console);
  } else {
    for (const PublishedFile& file : missing)
      get(set, options, file, folder / file.name, console);
  }
  const std::string was_there = missing.empty() ? " (they were there already)" : "";
  if (set.is_weights) {
    console.print(set.name + " is " + (folder / set.files[0].name).string() + was_there +
                  ", as torchvision publishes it: BSD-3-Clause; the terms of ImageNet-1K may "
                  "apply, too. Start from it: model.weights=" +
                  (folder / set.files[0].name).string() + " model.strict=false");
    return;
  }
  console.print(set.name + " is in " + folder.string() + ", " + std::to_string(set.files.size()) +
                " files, all as published" + was_there + ". Train on it: data.name=" + set.name +
                " data.root=" + options.directory.string());
}

std::string describe_fetch(const PublishedSet& set, const FetchOptions& options) {
  std::ostringstream text;
  const auto add = [&](const PublishedFile& file, const fs::path& path) {
    text << options.from.value_or(set.address) << file.name << ' ' << file.size << ' '
         << file.sha256 << ' ' << path.string() << '\n';
  };
  if (set.archive) {
    add(*set.archive, options.directory / set.archive->name);
    return text.str();
  }
  for (const PublishedFile& file : set.files)
    add(file, options.directory / set.folder / file.name);
  return text.str();
}

int run_fetch(int argc, const char* const* argv, const std::vector<PublishedSet>& sets) {
  secure_streams();
  std::vector<std::string> names;
  for (const PublishedSet& set : sets)
    names.push_back(set.name);
  try {
    const FetchOptions options = parse_fetch_options({argv + 1, argv + argc}, names);
    if (options.help) {
      std::cout << fetch_help(names) << std::flush;
      return exit_code::kOk;
    }
    const PublishedSet& set = *std::find_if(
        sets.begin(), sets.end(), [&](const PublishedSet& any) { return any.name == options.set; });
    if (options.dry_run)
      std::cout << describe_fetch(set, options) << std::flush;
    else
      fetch(set, options, std::cerr, can_rewrite(STDERR_FILENO));
    return exit_code::kOk;
  } catch (const std::exception& error) {
    return print_error(kProgram, error);
  }
}

}  // namespace ddp::worker
