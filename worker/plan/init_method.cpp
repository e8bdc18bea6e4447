#include "worker/plan/init_method.h"

#include "common/error.h"
#include "common/node/platform_ranks.h"

namespace ddp::worker {
namespace {

constexpr const char* kExample =
    "ddp-worker JOB.yaml --init-method tcp://HOST:29500 --rank 0 --world-size 2";

struct Endpoint {
  std::string host;
  std::string port;
};

/// Splits "tcp://host:29500" and "tcp://[::1]:29500". The identity checks the port.
Endpoint read_endpoint(const std::string& url) {
  const std::string rest = url.substr(6);
  const std::size_t colon = rest.rfind(':');
  Endpoint endpoint;
  if (colon != std::string::npos) endpoint = {rest.substr(0, colon), rest.substr(colon + 1)};
  if (endpoint.host.starts_with('[') && endpoint.host.ends_with(']'))
    endpoint.host = endpoint.host.substr(1, endpoint.host.size() - 2);
  if (endpoint.host.empty() || endpoint.port.empty()) {
    throw UsageError("--init-method " + url +
                     ": not tcp://HOST:PORT, of the node of rank 0. Type: " + kExample);
  }
  return endpoint;
}

void lay_endpoint(const std::string& url, Environment& environment) {
  if (url == "env://") return;
  if (url.starts_with("tcp://")) {
    const Endpoint endpoint = read_endpoint(url);
    environment["MASTER_ADDR"] = endpoint.host;
    environment["MASTER_PORT"] = endpoint.port;
    environment["TORCHELASTIC_USE_AGENT_STORE"] = "False";  // rank 0 serves
    return;
  }
  const std::string why = url.starts_with("file://")
                              ? ": a file is not a meeting place here (locks of network disks fail)"
                              : ": neither env:// nor tcp://HOST:PORT";
  throw UsageError("--init-method " + url + why + ". Type: " + kExample);
}

}  // namespace

Environment with_init_method(const Environment& given, const InitMethod& method) {
  if (method == InitMethod{}) return given;
  if (method.rank.has_value() != method.world_size.has_value()) {
    throw UsageError(
        std::string(method.rank ? "--rank without --world-size" : "--world-size without --rank") +
        ": an incomplete rank environment. Type: " + kExample);
  }
  Environment environment = given;
  if (method.rank) environment["RANK"] = *method.rank;
  if (method.world_size) environment["WORLD_SIZE"] = *method.world_size;
  if (method.url) lay_endpoint(*method.url, environment);
  const bool has_rank =
      find_variable(environment, "RANK") || find_variable(environment, "WORLD_SIZE");
  if (!has_rank && read_platform_ranks(environment).platform.empty()) {
    throw UsageError(
        "--init-method " + method.url.value_or("env://") +
        ": no rank is known: RANK and WORLD_SIZE are not set. Type, for each rank: " + kExample);
  }
  return environment;
}

}  // namespace ddp::worker
