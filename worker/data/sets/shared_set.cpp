#include "worker/data/sets/shared_set.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <boost/json.hpp>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "common/files/write_all.h"
#include "worker/data/sets/class_names.h"
#include "worker/data/sets/memory_source.h"

namespace ddp::worker {
namespace {

namespace json = boost::json;

// Sizes of the description and of the four blocks after it: pixels and labels of both splits.
using Sizes = std::array<std::uint64_t, 5>;

void append(int fd, std::span<const std::uint8_t> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  check(write_all(fd, text) ? 0 : -1, "write", "the data set that the ranks of this node share");
}

std::span<const std::uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

json::object describe(const ImageSet& set) {
  return {{"name", set.name},
          {"count", set.count},
          {"shape", json::array{set.channels, set.height, set.width}},
          {"classes", set.classes},
          {"mean", json::value_from(set.mean)},
          {"deviation", json::value_from(set.standard_deviation)}};
}

DataFacts facts_of(const json::object& text) {
  DataFacts facts;
  facts.name = text.at("name").as_string();
  facts.count = json::value_to<std::int64_t>(text.at("count"));
  facts.shape = json::value_to<std::vector<std::int64_t>>(text.at("shape"));
  facts.classes = json::value_to<int>(text.at("classes"));
  facts.mean = json::value_to<std::vector<float>>(text.at("mean"));
  facts.standard_deviation = json::value_to<std::vector<float>>(text.at("deviation"));
  facts.class_names = published_classes(facts.name);
  return facts;
}

/// A file that is mapped into memory. The sources that read from it share it; the last one ends it.
class Mapping {
 public:
  explicit Mapping(const std::filesystem::path& path) {
    const std::string what = "the data set that another rank of this node holds";
    const Descriptor file(check(::open(path.c_str(), O_RDONLY | O_CLOEXEC), "open", what));
    struct stat status {};
    const bool is_known = ::fstat(file.fd(), &status) == 0 && status.st_size > 0;
    const auto size = static_cast<std::size_t>(status.st_size);
    void* const start =
        is_known ? ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.fd(), 0) : MAP_FAILED;
    if (start == MAP_FAILED) throw SystemError("cannot map " + what);
    bytes_ = {static_cast<const std::uint8_t*>(start), size};
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() { ::munmap(const_cast<std::uint8_t*>(bytes_.data()), bytes_.size()); }

  /// The next `size` bytes. Errors: SystemError.
  std::span<const std::uint8_t> take(std::uint64_t size) {
    if (size > bytes_.size() - place_) throw SystemError("a shared data set is too short");
    place_ += size;
    return bytes_.subspan(place_ - size, size);
  }

 private:
  std::span<const std::uint8_t> bytes_;
  std::size_t place_ = 0;
};

}  // namespace

SharedSet::SharedSet(const DataSet& data)
    : file_(check(::memfd_create("ddp-data", MFD_CLOEXEC | MFD_ALLOW_SEALING),
                  "memfd_create",
                  "the data set that the ranks of this node share")) {
  const std::string text = json::serialize(json::array{describe(data.train), describe(data.test)});
  const Sizes sizes{text.size(),
                    data.train.pixels.size(),
                    data.train.labels.size(),
                    data.test.pixels.size(),
                    data.test.labels.size()};
  append(file_.fd(), {reinterpret_cast<const std::uint8_t*>(sizes.data()), sizeof sizes});
  append(file_.fd(), bytes_of(text));
  for (const ImageSet* const split : {&data.train, &data.test}) {
    append(file_.fd(), split->pixels);
    append(file_.fd(), split->labels);
  }
  constexpr int kForGood = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
  check(::fcntl(file_.fd(), F_ADD_SEALS, kForGood), "F_ADD_SEALS", "a shared data set");
}

SharedSet::SharedSet(const std::filesystem::path& path)
    : file_(check(::open(path.c_str(), O_RDONLY | O_CLOEXEC),
                  "open",
                  "the data set that another rank of this node holds")) {}

std::filesystem::path SharedSet::path() const {
  return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(file_.fd());
}

Sources map_shared_set(const std::filesystem::path& path) {
  const auto mapping = std::make_shared<Mapping>(path);
  Sizes sizes{};
  std::memcpy(sizes.data(), mapping->take(sizeof sizes).data(), sizeof sizes);
  const std::span<const std::uint8_t> text = mapping->take(sizes[0]);
  const json::value halves = json::parse({reinterpret_cast<const char*>(text.data()), text.size()});
  std::array<std::shared_ptr<const Source>, 2> sources;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const auto pixels = mapping->take(sizes[1 + 2 * i]);
    const auto labels = mapping->take(sizes[2 + 2 * i]);
    sources[i] = std::make_shared<MemorySource>(
        facts_of(halves.as_array().at(i).as_object()), pixels, labels, mapping);
  }
  return {sources[0], sources[1]};
}

}  // namespace ddp::worker
