#include "worker/data/loading/resident_loader.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "worker/data/loading/pixel_table.h"

namespace ddp::worker {
namespace {

using Clock = std::chrono::steady_clock;

// Images go to the device in parts of this size, so that a copy in another layout is small.
constexpr std::int64_t kPartBytes = 16 << 20;

/// So many images go to the device at once.
std::int64_t part_of(const DataFacts& facts) {
  const std::int64_t part =
      std::max<std::int64_t>(1, kPartBytes / c10::multiply_integers(facts.shape));
  return std::min(part, facts.count);
}

/// Bytes of the host, which are only read.
at::Tensor view_bytes(std::span<const std::uint8_t> bytes, at::IntArrayRef shape) {
  return at::from_blob(const_cast<std::uint8_t*>(bytes.data()), shape, at::kByte);
}

/// Numbers that the host writes and the device reads.
class Numbers {
 public:
  Numbers(std::int64_t count, at::Device device)
      : device_(device),
        host_(at::empty({count}, at::TensorOptions(at::kLong).pinned_memory(!device.is_cpu()))) {}

  std::int64_t* begin() { return host_.data_ptr<std::int64_t>(); }
  /// LibTorch keeps pinned memory until the copy is done.
  [[nodiscard]] at::Tensor send() const { return host_.to(device_, /*non_blocking=*/true); }

 private:
  at::Device device_;
  at::Tensor host_;
};

}  // namespace

std::optional<std::size_t> ResidentLoader::first_unsupported(std::span<const Augment> augments) {
  PixelMap map;
  map.reset({1, 1});
  Random random(0, 0, 0);
  for (std::size_t i = 0; i < augments.size(); ++i) {
    const auto* const move = augments[i].target<PixelMove>();
    if (move == nullptr) return i;
    move->move(map, random);
    if (map.erased() > PixelMap::kMaxErased) return i;
  }
  return {};
}

std::int64_t ResidentLoader::bytes_of(const DataFacts& facts) {
  const std::int64_t pixels = facts.shape.at(0) * (facts.shape.at(1) + 1) * (facts.shape.at(2) + 1);
  // While a part is copied, the device also holds it once without borders.
  return facts.count * (pixels + static_cast<std::int64_t>(sizeof(std::int64_t))) +
         part_of(facts) * c10::multiply_integers(facts.shape);
}

ResidentLoader::ResidentLoader(std::shared_ptr<const MemorySource> source,
                               const LoaderOptions& options,
                               at::Device device)
    : source_(std::move(source)),
      seed_(options.seed),
      repeats_(options.repeats),
      layout_(options.layout),
      device_(device) {
  if (first_unsupported(options.augments))
    throw std::logic_error("a device cannot make these batches");
  for (const Augment& augment : options.augments)
    moves_.push_back(*augment.target<PixelMove>());
  const DataFacts& facts = source_->facts();
  image_ = {static_cast<int>(facts.shape.at(1)), static_cast<int>(facts.shape.at(2))};
  // All samples get the same size and number of rectangles, so drawing one tells both.
  PixelMap map;
  draw(0, 0, map);
  moved_ = map.size();
  has_erased_ = map.erased() > 0;
  const at::AutoDispatchBelowADInplaceOrView plain;
  pixels_ = place_pixels();
  labels_ = view_bytes(source_->labels(), {facts.count}).to(at::kLong).to(device_);
  pixel_table_ = PixelTable(facts.mean, facts.standard_deviation, options.type)
                     .numbers()
                     .flatten()
                     .to(device_);
  const std::int64_t channels = facts.shape.at(0);
  channel_offsets_ = at::arange(channels, at::kInt)
                         .mul_(pixel_table_.size(0) / channels)
                         .expand({moved_.height, moved_.width, channels})
                         .flatten()
                         .to(device_);
}

at::Tensor ResidentLoader::place_pixels() const {
  const std::vector<std::int64_t>& shape = source_->facts().shape;
  const std::int64_t count = source_->facts().count;
  const std::int64_t border = moves_.empty() ? 0 : 1;
  const at::Tensor there =
      at::zeros({count, image_.height + border, image_.width + border, shape[0]},
                at::TensorOptions(at::kByte).device(device_));
  const at::Tensor images = there.narrow(1, 0, image_.height).narrow(2, 0, image_.width);
  const at::Tensor here =
      view_bytes(source_->pixels(), {count, shape[0], shape[1], shape[2]}).permute({0, 2, 3, 1});
  const std::int64_t part = part_of(source_->facts());
  for (std::int64_t first = 0; first < count; first += part) {
    const std::int64_t size = std::min(part, count - first);
    images.narrow(0, first, size).copy_(here.narrow(0, first, size).contiguous());
  }
  return moves_.empty() ? there.view({count, -1}) : there.view({-1, shape[0]});
}

void ResidentLoader::draw(std::int64_t index, std::int64_t epoch, PixelMap& map) const {
  Random random(seed_, static_cast<std::uint64_t>(epoch), static_cast<std::uint64_t>(index));
  map.reset(image_);
  for (const PixelMove& move : moves_)
    move.move(map, random);
}

std::int64_t ResidentLoader::lines_of(std::int64_t samples) const {
  if (moves_.empty()) return 0;
  return samples * (moved_.height + moved_.width) * (has_erased_ ? 2 : 1);
}

void ResidentLoader::write_lines(std::span<const std::int64_t> indices,
                                 std::int64_t epoch,
                                 std::int64_t* into) const {
  const auto samples = static_cast<std::int64_t>(indices.size());
  const std::int64_t stride = image_.width + 1;
  const std::int64_t black_row = image_.height * stride;
  std::int64_t* row = into;
  std::int64_t* column = row + samples * moved_.height;
  std::int64_t* erased_row = column + samples * moved_.width;
  std::int64_t* erased_column = erased_row + samples * moved_.height;
  PixelMap map;
  for (const std::int64_t index : indices) {
    draw(index, epoch, map);
    const std::int64_t first = index % source_->facts().count * (black_row + stride);
    for (const PixelMap::Line& line : map.rows())
      *row++ = first + (line.source == kOutside ? black_row : line.source * stride);
    for (const PixelMap::Line& line : map.columns())
      *column++ = line.source == kOutside ? image_.width : line.source;
    if (!has_erased_) continue;
    for (const PixelMap::Line& line : map.rows())
      *erased_row++ = static_cast<std::int64_t>(line.erased);
    for (const PixelMap::Line& line : map.columns())
      *erased_column++ = static_cast<std::int64_t>(line.erased);
  }
}

at::Tensor ResidentLoader::find_pixels(const at::Tensor& lines, std::int64_t samples) const {
  const std::int64_t height = moved_.height;
  const std::int64_t width = moved_.width;
  std::int64_t next = 0;
  const auto take = [&](at::IntArrayRef shape) {
    const std::int64_t count = c10::multiply_integers(shape);
    return lines.narrow(0, std::exchange(next, next + count), count).view(shape);
  };
  const at::Tensor rows = take({samples, height, 1});
  const at::Tensor columns = take({samples, 1, width});
  const at::Tensor pixels = rows + columns;
  if (has_erased_) {
    const at::Tensor erased_rows = take({samples, height, 1});
    const at::Tensor erased_columns = take({samples, 1, width});
    const std::int64_t black = image_.height * (image_.width + 1);
    pixels.masked_fill_(erased_rows.bitwise_and(erased_columns).ne(0), black);
  }
  return pixels.flatten();
}

Batch ResidentLoader::load(std::span<const std::int64_t> indices, std::int64_t epoch) const {
  const at::AutoDispatchBelowADInplaceOrView plain;
  const DataFacts& facts = source_->facts();
  const auto samples = static_cast<std::int64_t>(indices.size());
  Batch batch;
  Numbers numbers(samples + lines_of(samples), device_);
  for (const std::int64_t index : indices) {
    if (index < 0 || index >= facts.count * repeats_)
      throw std::out_of_range("sample index outside " + facts.name);
    batch.indices.push_back(index % facts.count);
  }
  std::ranges::copy(batch.indices, numbers.begin());
  if (!moves_.empty()) write_lines(indices, epoch, numbers.begin() + samples);
  const at::Tensor there = numbers.send();
  const at::Tensor places = there.narrow(0, 0, samples);
  const at::Tensor lines = there.narrow(0, samples, lines_of(samples));
  const at::Tensor bytes =
      pixels_.index_select(0, moves_.empty() ? places : find_pixels(lines, samples));
  const std::int64_t channels = facts.shape[0];
  // On a CPU a sum of two types takes twice as long as a change of type.
  const at::Tensor looked_up =
      channels == 1 ? bytes.to(at::kInt) : bytes.view({samples, -1}).add(channel_offsets_);
  const at::Tensor input = pixel_table_.index_select(0, looked_up.flatten());
  const std::int64_t height = moved_.height;
  const std::int64_t width = moved_.width;
  if (layout_ == at::MemoryFormat::Contiguous) {
    batch.input = input.view({samples, -1, channels})
                      .transpose(1, 2)
                      .contiguous()
                      .view({samples, channels, height, width});
  } else {
    batch.input = input.view({samples, height, width, channels}).permute({0, 3, 1, 2});
  }
  batch.targets = {{labels_.index_select(0, places), {}}};
  return batch;
}

Batch ResidentLoader::next() {
  const Clock::time_point start = Clock::now();
  const std::optional<MicroBatch> plan = plans_ ? plans_() : std::nullopt;
  if (!plan) throw std::logic_error("a loader was asked for more than was planned");
  Batch batch = load(plan->indices, plan->epoch);
  waited_ += Clock::now() - start;
  return batch;
}

}  // namespace ddp::worker
