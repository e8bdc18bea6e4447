#include "worker/train/loader_choice.h"

#include <c10/util/Exception.h>

#include <optional>
#include <span>
#include <string>
#include <utility>

#include "common/cli/log.h"
#include "common/error.h"
#include "common/text/units.h"
#include "worker/data/augment/sample_image.h"
#include "worker/data/loading/resident_loader.h"
#include "worker/dist/device.h"
#include "worker/dist/peer_call.h"
#include "worker/train/failure/lack_of_memory.h"

namespace ddp::worker {
namespace {

// With data.resident: auto a set may take at most 1 / kMaxFreePart of the free memory. Activations,
// which need most of the memory, are allocated later, and the same batch must still fit.
constexpr std::int64_t kMaxFreePart = 10;

/// Why a ResidentLoader cannot make these batches; no value: it can.
std::optional<std::string> why_not_resident(const DataJob& job,
                                            const Source& source,
                                            std::span<const Augment> augments) {
  const DataFacts& facts = source.facts();
  if (dynamic_cast<const MemorySource*>(&source) == nullptr)
    return "its images do not all lie in memory as bytes";
  if (facts.mean.empty()) return "its bytes are not normalised";
  if (!augments.empty() && !is_image(facts.shape)) {
    return "data.augment is for images of 1 or 3 channels, and a sample is " +
           shape_text(facts.shape);
  }
  const std::optional<std::size_t> other = ResidentLoader::first_unsupported(augments);
  if (!other) return {};
  return "data.augment has " + job.augment.at(*other).name +
         ", and a device makes center-crop, crop, cutout (" + std::to_string(PixelMap::kMaxErased) +
         " squares at most), flip and flip-vertical";
}

std::optional<std::string> why_no_room(const LoaderChoice& choice, const DataFacts& facts) {
  if (choice.device.is_cpu()) return {};
  const std::int64_t bytes = ResidentLoader::bytes_of(facts);
  const std::int64_t free = free_bytes(choice.device);
  const std::int64_t part = choice.job.resident == DataJob::Resident::always ? 1 : kMaxFreePart;
  if (bytes <= free / part) return {};
  return "it takes " + format_bytes(bytes) + ", more than " +
         (part > 1 ? "a tenth of the " : "the ") + format_bytes(free) + " that are free there";
}

std::optional<std::string> why_not(const LoaderChoice& choice,
                                   const Source& source,
                                   std::span<const Augment> augments) {
  std::optional<std::string> why = why_not_resident(choice.job, source, augments);
  return why ? why : why_no_room(choice, source.facts());
}

std::string describe_refusal(const LoaderChoice& choice,
                             const DataFacts& facts,
                             const std::string& why) {
  return facts.name + " cannot lie on " + choice.device.str() + ": " + why;
}

UsageError refusal(const LoaderChoice& choice, const DataFacts& facts, const std::string& why) {
  return UsageError(
      with_advice("data.resident: " + describe_refusal(choice, facts, why), "Take auto or false."));
}

}  // namespace

void require_residence(const LoaderChoice& choice,
                       const Source& source,
                       std::span<const Augment> augments) {
  if (choice.job.resident != DataJob::Resident::always) return;
  if (const std::optional<std::string> why = why_not(choice, source, augments))
    throw refusal(choice, source.facts(), *why);
}

std::unique_ptr<BatchLoader> make_loader(const LoaderChoice& choice,
                                         std::shared_ptr<const Source> source,
                                         LoaderOptions options) {
  const DataJob::Resident wanted = choice.job.resident;
  const bool is_default_on_cpu = wanted == DataJob::Resident::automatic && choice.device.is_cpu();
  if (wanted == DataJob::Resident::never || is_default_on_cpu)
    return std::make_unique<Loader>(std::move(source), std::move(options));
  const DataFacts& facts = source->facts();
  std::optional<std::string> why = why_not(choice, *source, options.augments);
  bool logs = choice.logs;
  if (!why) {
    try {
      auto loader = std::make_unique<ResidentLoader>(
          std::dynamic_pointer_cast<const MemorySource>(source), options, choice.device);
      if (logs) log::info("data.resident: " + facts.name + " lies on " + choice.device.str());
      return loader;
    } catch (const c10::Error& error) {
      // Other ranks on the same GPU may have taken the memory meanwhile.
      if (!is_lack_of_memory(error)) throw;
      why = message_of(error);
      logs = true;  // other ranks may have had enough memory
    }
  }
  if (wanted == DataJob::Resident::always) throw refusal(choice, facts, *why);
  if (logs)
    log::info(with_advice("data.resident: auto: " + describe_refusal(choice, facts, *why),
                          "Its batches are loaded."));
  return std::make_unique<Loader>(std::move(source), std::move(options));
}

}  // namespace ddp::worker
