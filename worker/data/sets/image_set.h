// An image set in memory as plain bytes, and the request by which a job asks for a data set.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "worker/plan/args.h"
#include "worker/plan/tracked.h"

namespace ddp::worker {

inline constexpr int kImageSize = 224;  // the default of data.image_size

struct ImageSet {
  std::string name;  // "mnist train"
  std::int64_t count = 0;
  std::int64_t channels = 1;
  std::int64_t height = 0;
  std::int64_t width = 0;
  int classes = 0;
  std::vector<std::uint8_t> pixels;       // [count, channels, height, width]
  std::vector<std::uint8_t> labels;       // [count], each below classes
  std::vector<float> mean;                // [channels], of pixel / 255
  std::vector<float> standard_deviation;  // [channels], of pixel / 255

  bool operator==(const ImageSet&) const = default;
};

struct DataSet {
  ImageSet train;
  ImageSet test;
};

/// How a set uses its label cache. One process of a node uses `write` (and reads it, too), the
/// others `read`.
enum class LabelCacheUse { none, read, write };

/// The arguments of a data set's factory. A Tracked field that the job sets and the factory never
/// reads is reported to the user.
struct DataRequest {
  std::string name = "digits";               // one of built_in_sets(), or a program's own
  Tracked<std::filesystem::path> root{};     // where the files are; not used by digits
  Tracked<std::uint64_t> seed = 1U;          // digits are drawn from it
  std::optional<std::int64_t> train_size{};  // the first N of the files; digits: how many are drawn
  std::optional<std::int64_t> test_size{};
  Args args{};                           // data.args, for the sets of a program's own
  Tracked<int> image_size = kImageSize;  // images of varying size are fitted to it
  Tracked<std::optional<std::array<std::uint8_t, 3>>> background{};  // of transparent images
  double max_bad = 0.01;   // the share of a set's samples that may be bad
  int train_at_least = 0;  // training images may be decoded down to this side; 0: full size only
  LabelCacheUse label_cache = LabelCacheUse::none;
};

/// The keys of the job that were set but never read: "data.root". Never train_size or test_size: a
/// set that ignores those is refused.
std::vector<std::string> ignored_keys(const DataRequest& request);

inline constexpr std::int64_t kDigitsTrainSize = 12000;
inline constexpr std::int64_t kDigitsTestSize = 2000;

/// `key` is train_size or test_size; the set `name` has `count` images. Errors: UsageError when
/// these are fewer than `wanted`.
void require_part(const std::string& key,
                  std::int64_t wanted,
                  std::int64_t count,
                  const std::string& name);

/// A built-in set that is kept in memory as a whole.
struct BuiltInSet {
  std::string_view name;
  DataSet (*load)(const DataRequest& request);
  std::string_view classes{};  // the names in the order of the numbers; empty: numbers
  char mark = ' ';             // separates the names
};

std::span<const BuiltInSet> built_in_sets();

/// Reads or draws a built-in set by its name. Its files are the published ones, under their own
/// names, plain, .gz or .xz: MNIST's four (also with a dot before idx), CIFAR's binary version.
/// They lie in `root` or in torchvision's folder below it. Errors: UsageError for an unknown name,
/// a missing root or file (with what was expected where), broken contents, and a train_size or
/// test_size above what there is.
DataSet load_data_set(const DataRequest& request);

}  // namespace ddp::worker
