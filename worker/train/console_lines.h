// Formats the lines that a training prints on the console. Pure: nothing is printed here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/job/batch_plan.h"
#include "worker/dist/ddp.h"
#include "worker/plan/job.h"
#include "worker/plan/schedule.h"
#include "worker/save/records/metrics_writer.h"

namespace ddp::worker {

/// One row per rank; `ranks` are their descriptions, by rank: "host, device, threads, pid".
std::string rank_table(const std::vector<std::string>& ranks);

/// "batch: 64 per rank x 2 ranks x 1 accumulate = 128"; and with how many ranks the run began, if
/// that has changed.
std::string batch_line(const BatchPlan& batch, int world_size, int first_world_size);

/// "epoch 1/2 | train loss 0.2104 accuracy 93.61 % | test loss ... | 10234 images/s | 5.9 s, data
/// wait 0.1 %". Leaves out the rate, the time or the data wait if the line would be longer than
/// `width` columns: a line that wraps is hard to compare with the one above it.
std::string epoch_line(const EpochRecord& record,
                       std::int64_t epochs,
                       std::optional<std::size_t> width = {});

/// "step 500 | test loss 0.1234 accuracy 97.50 %"
std::string evaluation_line(const EvaluationRecord& record);

/// For a resumed run that was planned for another number of steps: how its learning rate changes
/// after `step` steps. The two schedules differ only in their number of steps.
std::string other_length_line(const Schedule& before, const Schedule& now, std::int64_t step);

/// For a run that has done all its epochs; `epochs` is how many it has done.
std::string nothing_left_line(const Job& job, std::int64_t epochs);

/// "per step: forward 1.2 ms, backward 3.4 ms, communication 0.9 ms (0.7 ms of it during backward)"
std::string timings_line(const DdpTimings& timings);

/// A header and one row per epoch: its number, training and test values, images/s. Marks the epoch
/// whose last step is `best_step` as the best.
std::string final_table(const std::vector<EpochRecord>& records,
                        std::optional<std::int64_t> best_step = {});

}  // namespace ddp::worker
