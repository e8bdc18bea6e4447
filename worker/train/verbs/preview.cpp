#include "worker/train/verbs/preview.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iostream>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/files/files.h"
#include "common/text/join_words.h"
#include "common/text/one_line.h"
#include "worker/data/augment/sample_image.h"
#include "worker/data/reason_list.h"
#include "worker/data/sets/class_names.h"
#include "worker/dist/single_process_group.h"
#include "worker/image/labelled_grid.h"
#include "worker/image/png.h"
#include "worker/plan/shard.h"
#include "worker/train/data_loading.h"
#include "worker/train/registry.h"

namespace ddp::worker {
namespace {

constexpr std::size_t kPreviewed = 32;

/// Augmented samples, each with its objects, or with its class as one object around it.
struct Shown {
  std::vector<Image> images;
  std::vector<LabelledObjects> objects;
};

template <typename Number>
std::vector<Number> numbers_of(const Array& array) {
  std::vector<Number> numbers(array.bytes.size() / sizeof(Number));
  if (!numbers.empty()) std::memcpy(numbers.data(), array.bytes.data(), array.bytes.size());
  return numbers;
}

/// The class, or the two most probable ones of a soft label.
LabelledObject class_of(const Array& target, const DataFacts& data) {
  if (target.type == NumberType::int64) {
    const auto number = static_cast<std::size_t>(numbers_of<std::int64_t>(target).at(0));
    return {{}, number, class_name(number, data)};
  }
  const std::vector<float> probabilities = numbers_of<float>(target);
  std::vector<std::size_t> order(probabilities.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return probabilities[i]; });
  order.resize(std::min<std::size_t>(2, order.size()));
  std::vector<std::string> texts;
  for (const std::size_t number : order) {
    const auto percent = std::lround(probabilities[number] * 100);
    if (percent > 0)
      texts.push_back(class_name(number, data) + " " + std::to_string(percent) + "%");
  }
  return {{}, order.at(0), join_words(texts, " ")};
}

LabelledObjects objects_of(const Sample& sample, const DataFacts& data, ImageSize size) {
  if (sample.targets.empty() || data.classes < 1) return {};
  LabelledObjects objects;
  if (!data.has_boxes) {
    objects.push_back(class_of(sample.targets[0], data));
    objects[0].box = {0, 0, static_cast<float>(size.width), static_cast<float>(size.height)};
    return objects;
  }
  const std::vector<float> rows = numbers_of<float>(sample.targets[0]);
  for (std::size_t i = 0; i + kBoxRow <= rows.size(); i += kBoxRow) {
    const auto number = static_cast<std::size_t>(rows[i]);
    objects.push_back(
        {{rows[i + 1], rows[i + 2], rows[i + 3], rows[i + 4]}, number, class_name(number, data)});
  }
  return objects;
}

/// The samples that one rank would see first.
Shown draw_samples(const RankContext& context, const Job& job, const Source& source) {
  const DataFacts& data = source.facts();
  const std::vector<Augment> augments = make_augments(context.registry, job.data, data, job.epochs);
  const std::vector<std::int64_t> order = permutation(
      {.size = data.count, .seed = job.seed, .shuffle = job.data.sampler != Sampler::sequential},
      0);
  Shown shown;
  for (const std::int64_t index : std::span(order).first(std::min(kPreviewed, order.size()))) {
    Sample sample;
    sample.index = index;
    try {
      Random random(job.seed, 0, static_cast<std::uint64_t>(sample.index));
      read_augmented(source, sample.index, augments, random, sample);
      const Image image = SampleImage(sample).image();
      shown.objects.push_back(objects_of(sample, data, image.size()));
      shown.images.push_back(image);
    } catch (const BadSample& bad) {
      std::cout << one_line(bad.what(), kLongestReason) << ": left out\n";
    }
  }
  return shown;
}

}  // namespace

int preview(const RankContext& context, const std::filesystem::path& path) {
  const Job job = make_job(context.job, context.self.world_size);
  require_known(context.registry, job);
  const std::unique_ptr<Group> alone = single_process_group();
  LoadedData loaded;
  load_data(context.registry, job.data, *alone, context.page, loaded);
  const Sources& data = loaded.sources;
  const Shown shown = draw_samples(context, job, *data.train);
  if (shown.images.empty())
    throw UsageError("none of the first samples can be read: there is nothing to draw.");
  const std::vector<std::uint8_t> png = encode_png(draw_labelled_grid(shown.images, shown.objects));
  try {
    replace_file(path, {reinterpret_cast<const char*>(png.data()), png.size()});
  } catch (const SystemError& error) {
    throw UsageError("cannot write " + path.string() + ": " + error.what() +
                     ". Give another path behind -o.");
  }
  const std::string left_out = describe_left_out(data);
  if (!left_out.empty()) log::info(left_out);
  std::cout << describe_data(data) << path.string() << ": " << shown.images.size()
            << " training samples, as the first epoch augments them" << std::endl;
  return exit_code::kOk;
}

}  // namespace ddp::worker
