// Weights that a job names by their model: model.weights: fetch:resnet34.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

namespace ddp::worker {

/// "resnet34" of "fetch:resnet34"; none: it is a path.
std::optional<std::string> published_model(const std::filesystem::path& weights);

/// ddp-fetch, which lies beside this program; a program of a user's own may have none.
std::filesystem::path fetch_program();

/// The file of the published weights of `model`, in the user's cache. What is not there is got by
/// ddp-fetch, which lies beside this program. Blocks: while its bytes arrive, `limit` at most, as
/// the other ranks wait for them. Errors: UsageError: no such weights, or they cannot be got.
std::filesystem::path fetch_weights(const std::string& model, std::chrono::seconds limit);

}  // namespace ddp::worker
