#include "worker/task/batch_pictures.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "worker/data/augment/sample_image.h"
#include "worker/data/sets/class_names.h"
#include "worker/task/suppression.h"

namespace ddp::worker {
namespace {

/// `numbers` as [C, 1, 1], or `otherwise` for all channels if there are none.
at::Tensor by_channel(const std::vector<float>& numbers, float otherwise, const at::Tensor& like) {
  const std::vector<float> all = numbers.empty() ? std::vector<float>{otherwise} : numbers;
  return at::tensor(all, at::kFloat).to(like.device()).reshape({-1, 1, 1});
}

}  // namespace

std::vector<Image> shown_images(const at::Tensor& input,
                                const std::vector<float>& mean,
                                const std::vector<float>& deviation) {
  if (input.dim() != 4 || (input.size(1) != 1 && input.size(1) != 3)) return {};
  const at::Tensor some = input.detach().narrow(0, 0, std::min(input.size(0), kShownImages));
  at::Tensor bytes = some;
  if (some.is_floating_point()) {
    const at::Tensor numbers = some.to(at::kFloat);
    bytes = (numbers * by_channel(deviation, 1, numbers) + by_channel(mean, 0, numbers))
                .mul_(255)
                .round_()
                .clamp_(0, 255);
  }
  bytes = bytes.to(at::kByte).to(at::kCPU).contiguous();
  std::vector<Image> images(static_cast<std::size_t>(bytes.size(0)));
  for (std::size_t i = 0; i < images.size(); ++i) {
    const at::Tensor one = bytes[static_cast<std::int64_t>(i)];
    images[i].reshape(static_cast<int>(one.size(0)),
                      {static_cast<int>(one.size(1)), static_cast<int>(one.size(2))});
    std::memcpy(images[i].bytes.data(), one.const_data_ptr(), images[i].bytes.size());
  }
  return images;
}

std::vector<LabelledObjects> shown_labels(const at::Tensor& labels,
                                          const std::vector<Image>& images,
                                          const std::vector<std::string>& names) {
  const at::Tensor likeliest = labels.is_floating_point() ? labels.argmax(1) : labels;
  const at::Tensor numbers = likeliest.to(at::kCPU, at::kLong).contiguous();
  std::vector<LabelledObjects> all;
  for (std::size_t i = 0; i < images.size(); ++i) {
    const auto number = static_cast<std::size_t>(numbers.const_data_ptr<std::int64_t>()[i]);
    const ImageSize size = images[i].size();
    const Box whole{0, 0, static_cast<float>(size.width), static_cast<float>(size.height)};
    all.push_back({{whole, number, class_name(number, names)}});
  }
  return all;
}

std::vector<LabelledObjects> shown_objects(const Target& target,
                                           std::size_t count,
                                           const std::vector<std::string>& names) {
  const at::Tensor rows = target.rows.to(at::kCPU, at::kLong).contiguous();
  const at::Tensor values = target.values.to(at::kCPU, at::kFloat).contiguous();
  const float* row = values.const_data_ptr<float>();
  std::vector<LabelledObjects> all(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t objects = rows.const_data_ptr<std::int64_t>()[i];
    for (std::int64_t k = 0; k < objects; ++k, row += kBoxRow) {
      const auto number = static_cast<std::size_t>(row[0]);
      all[i].push_back({{row[1], row[2], row[3], row[4]}, number, class_name(number, names)});
    }
  }
  return all;
}

std::vector<LabelledObjects> shown_predictions(const Outputs& outputs,
                                               std::size_t count,
                                               const std::vector<std::string>& names) {
  const auto images = static_cast<std::int64_t>(count);
  const Suppressed found =
      suppress(outputs.at(0).narrow(0, 0, images), outputs.at(1).narrow(0, 0, images), {});
  std::vector<LabelledObjects> all(count);
  for (std::size_t i = 0; i < count; ++i) {
    const at::Tensor rows = found.detections[i].contiguous();
    // The detection with the highest score is drawn last, above the others.
    for (std::int64_t k = rows.size(0); k-- > 0;) {
      const float* const row = rows[k].const_data_ptr<float>();
      const auto number = static_cast<std::size_t>(row[5]);
      all[i].push_back({{row[0], row[1], row[2], row[3]},
                        number,
                        fmt::format("{} {:.2f}", class_name(number, names), row[4])});
    }
  }
  return all;
}

}  // namespace ddp::worker
