#include "worker/train/loader_choice.h"

#include <optional>
#include <span>
#include <string>
#include <utility>

#include "common/error.h"
#include "common/program/log.h"
#include "common/text/units.h"
#include "worker/data/loading/resident_loader.h"
#include "worker/dist/device.h"

namespace ddp::worker {
namespace {

// A set takes at most this part of the free memory by itself: activations, which take the most,
// come later, and they are to find room for the same batch as without it.
constexpr std::int64_t kFreeShare = 10;

/// Why only a Loader makes these batches; no value: it is not so.
std::optional<std::string> why_only_loaded(const DataJob& job,
                                           const Source& source,
                                           std::span<const Augment> augments) {
  if (dynamic_cast<const MemorySource*>(&source) == nullptr)
    return "it is not a set of images that lives in memory";
  if (source.facts().mean.empty()) return "its bytes are not normalised";
  const std::optional<std::size_t> other = ResidentLoader::find_other(augments);
  if (!other) return {};
  return "data.augment has " + job.augment.at(*other).name +
         ", and a device makes center-crop, crop, cutout (" + std::to_string(PixelMap::kMaxErased) +
         " squares at most), flip and flip-vertical";
}

std::optional<std::string> why_no_room(const DataFacts& facts,
                                       at::Device device,
                                       DataJob::Resident wanted) {
  if (device.is_cpu()) return {};
  const std::int64_t bytes = ResidentLoader::bytes_of(facts);
  const std::int64_t free = free_bytes(device);
  const std::int64_t part = wanted == DataJob::Resident::always ? 1 : kFreeShare;
  if (bytes <= free / part) return {};
  return "it takes " + format_bytes(bytes) + ", more than " +
         (part > 1 ? "a tenth of the " : "the ") + format_bytes(free) + " that are free there";
}

}  // namespace

std::unique_ptr<BatchLoader> make_loader(const LoaderChoice& choice,
                                         std::shared_ptr<const Source> source,
                                         LoaderRequest request) {
  const DataJob::Resident wanted = choice.job.resident;
  const bool is_for_gpus = wanted == DataJob::Resident::automatic && choice.device.is_cpu();
  if (wanted == DataJob::Resident::never || is_for_gpus)
    return std::make_unique<Loader>(std::move(source), std::move(request));
  const DataFacts& facts = source->facts();
  std::optional<std::string> why = why_only_loaded(choice.job, *source, request.augments);
  if (!why) why = why_no_room(facts, choice.device, wanted);
  if (!why) {
    if (choice.speaks)
      log::info("data.resident: " + facts.name + " lies on " + choice.device.str());
    return std::make_unique<ResidentLoader>(
        std::dynamic_pointer_cast<const MemorySource>(source), request, choice.device);
  }
  const std::string text =
      facts.name + " cannot lie on " + choice.device.str() + ": " + *why + ". ";
  if (wanted == DataJob::Resident::always)
    throw UsageError("data.resident: " + text + "Take auto or false.");
  if (choice.speaks) log::info("data.resident: auto: " + text + "Its batches are loaded.");
  return std::make_unique<Loader>(std::move(source), std::move(request));
}

}  // namespace ddp::worker
