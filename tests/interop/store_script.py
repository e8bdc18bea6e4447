"""A script as people write it for torchrun; also for torch 1.x."""

import os

import torch
import torch.distributed as dist


def main():
    dist.init_process_group("gloo")
    value = torch.tensor([float(dist.get_rank() + 1)])
    dist.all_reduce(value)
    print(f"rank {dist.get_rank()} sum {value.item()} agent store {os.environ['TORCHELASTIC_USE_AGENT_STORE']}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
