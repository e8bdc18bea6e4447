#include "worker/train/verbs/preview.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iostream>
#include <span>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/files/files.h"
#include "common/text/one_line.h"
#include "worker/data/class_names.h"
#include "worker/data/reason_list.h"
#include "worker/data/sample_image.h"
#include "worker/dist/alone.h"
#include "worker/image/drawing.h"
#include "worker/image/geometry.h"
#include "worker/image/labelled_box.h"
#include "worker/image/labelled_grid.h"
#include "worker/image/png.h"
#include "worker/image/resize.h"
#include "worker/plan/shard.h"
#include "worker/train/data_loading.h"
#include "worker/train/registry.h"

namespace ddp::worker {
namespace {

constexpr int kColumns = 8;
constexpr std::size_t kCells = 32;
constexpr int kLeastSide = 96;  // smaller images are enlarged, so that people see something
constexpr int kMostSide = 256;
constexpr int kTextScale = 2;
constexpr int kTextHeight = kLetterHeight * kTextScale + 6;
constexpr Color kInk{255, 255, 255};
constexpr Color kPaper{32, 32, 32};

/// One augmented sample with what is written below it.
struct Cell {
  Image image;  // of three channels
  std::string label;
};

template <typename Number>
std::vector<Number> numbers_of(const Array& array) {
  std::vector<Number> numbers(array.bytes.size() / sizeof(Number));
  if (!numbers.empty()) std::memcpy(numbers.data(), array.bytes.data(), array.bytes.size());
  return numbers;
}

/// The class, or the two largest shares of a mixed label.
std::string label_of(const Sample& sample, const DataFacts& data) {
  if (data.classes < 1 || data.has_boxes || sample.targets.empty()) return "";
  const Array& target = sample.targets[0];
  if (target.type == NumberType::int64)
    return class_name(static_cast<std::size_t>(numbers_of<std::int64_t>(target).at(0)), data);
  const std::vector<float> shares = numbers_of<float>(target);
  std::vector<std::size_t> order(shares.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return shares[i]; });
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(2, order.size()); ++i) {
    const auto percent = std::lround(shares[order[i]] * 100);
    if (percent > 0)
      text += (i > 0 ? " " : "") + class_name(order[i], data) + " " + std::to_string(percent) + "%";
  }
  return text;
}

void draw_boxes(const Sample& sample, const DataFacts& data, double scale, Image& image) {
  if (!data.has_boxes || sample.targets.empty()) return;
  const std::vector<float> rows = numbers_of<float>(sample.targets[0]);
  for (std::size_t i = 0; i + kBoxRow <= rows.size(); i += kBoxRow) {
    const auto place = [&](std::size_t k) { return static_cast<float>(rows[i + k] * scale); };
    const auto number = static_cast<std::size_t>(rows[i]);
    const Box box{place(1), place(2), place(3), place(4)};
    draw_labelled_box(image, box, number, class_name(number, data), kTextScale);
  }
}

Cell draw(Sample& sample, const DataFacts& data) {
  Cell cell;
  cell.label = label_of(sample, data);
  Image image;
  {
    SampleImage view(sample);
    image = three_channels(view.image());
  }
  const int largest = std::max(image.height, image.width);
  const double scale = largest < kLeastSide  ? std::ceil(static_cast<double>(kLeastSide) / largest)
                       : largest > kMostSide ? static_cast<double>(kMostSide) / largest
                                             : 1.0;
  const auto scaled = [scale](int side) {
    return std::max(1, static_cast<int>(std::lround(side * scale)));
  };
  Resizer().resize(image, {scaled(image.height), scaled(image.width)}, cell.image);
  draw_boxes(sample, data, scale, cell.image);
  return cell;
}

/// The samples that one rank would see first.
std::vector<Cell> draw_samples(const RankContext& context, const Job& job, const Source& source) {
  const DataFacts& data = source.facts();
  const std::vector<Augment> augments = make_augments(context.registry, job.data, data, job.epochs);
  const std::vector<std::int64_t> order = permutation(
      {.size = data.count, .seed = job.seed, .shuffle = job.data.sampler != Sampler::sequential},
      0);
  std::vector<Cell> cells;
  for (const std::int64_t index : std::span(order).first(std::min(kCells, order.size()))) {
    Sample sample;
    sample.index = index;
    try {
      Random random(job.seed, 0, static_cast<std::uint64_t>(sample.index));
      read_augmented(source, sample.index, augments, random, sample);
      cells.push_back(draw(sample, data));
    } catch (const BadSample& bad) {
      std::cout << one_line(bad.what(), kLongestReason) << ": left out\n";
    }
  }
  return cells;
}

Image grid_of(const std::vector<Cell>& cells) {
  ImageSize cell;
  for (const Cell& one : cells) {
    cell.height = std::max(cell.height, one.image.height + kTextHeight);
    cell.width = std::max(cell.width, one.image.width + 4);
  }
  const int count = static_cast<int>(cells.size());
  const int rows = (count + kColumns - 1) / kColumns;
  Image grid;
  grid.reshape(3, {rows * cell.height, std::min(count, kColumns) * cell.width});
  erase(grid, {0, 0, grid.height, grid.width}, kPaper);
  for (int i = 0; i < count; ++i) {
    const Cell& one = cells[static_cast<std::size_t>(i)];
    const int top = i / kColumns * cell.height;
    const int left = i % kColumns * cell.width;
    paste(one.image, top, left, grid);
    const auto letters = static_cast<std::size_t>(cell.width / (kLetterWidth * kTextScale));
    draw_text(
        grid, top + one.image.height + 3, left, kTextScale, kInk, one.label.substr(0, letters));
  }
  return grid;
}

}  // namespace

int preview(const RankContext& context, const std::filesystem::path& path) {
  const Job job = make_job(context.job, context.self.world_size);
  require_known(context.registry, job);
  const std::unique_ptr<Group> alone = single_process_group();
  LoadedData loaded;
  load_data(context.registry, job.data, *alone, context.page, loaded);
  const Sources& data = loaded.sources;
  const std::vector<Cell> cells = draw_samples(context, job, *data.train);
  if (cells.empty())
    throw UsageError("none of the first samples can be read: there is nothing to draw.");
  const std::vector<std::uint8_t> png = encode_png(grid_of(cells));
  try {
    replace_file(path, {reinterpret_cast<const char*>(png.data()), png.size()});
  } catch (const SystemError& error) {
    throw UsageError("cannot write " + path.string() + ": " + error.what() +
                     ". Give another path behind -o.");
  }
  std::cout << describe_data(data) << path.string() << ": " << cells.size()
            << " training samples, as the first epoch augments them" << std::endl;
  return exit_code::kOk;
}

}  // namespace ddp::worker
