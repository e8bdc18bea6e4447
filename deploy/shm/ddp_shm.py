"""Sums of tensors on CPUs through memory that the ranks of a node share: DDP without a network. Between nodes they go by Gloo.

    import ddp_shm
    torch.distributed.init_process_group("ddp_shm")    # or "cpu:ddp_shm,cuda:nccl"

All else goes by Gloo, as before. Works under ddp-launch and torchrun.
"""

import logging
import os
import pathlib

import torch
import torch.distributed as dist


def _find_library():
    """The library for this torch: DDP_SHM_LIBRARY, or of the package ddp_worker, of an installed prefix, of a checkout."""
    chosen = os.environ.get("DDP_SHM_LIBRARY")
    if chosen:
        return chosen
    minor = ".".join(torch.__version__.split(".")[:2])
    here = pathlib.Path(__file__).resolve().parent
    above = here.parent.parent
    folders = ((here / "ddp_worker", "torch-*/lib"), (above, "lib"), (above, "build/*"))
    found = [library for folder, inside in folders for library in sorted(folder.glob(inside + "/libddp-shm-*.so"))]
    for library in found:
        if library.stem == f"libddp-shm-{minor}":
            return str(library)
    served = ", ".join(library.stem.removeprefix("libddp-shm-") for library in found)
    raise ImportError(
        f"ddp_shm: no libddp-shm-{minor}.so for torch {torch.__version__} near {here}; "
        + (f"there is one for torch {served}" if served else "DDP_SHM_LIBRARY names one that is elsewhere")
    )


def _load(library):
    """Its function that adds a backend. An ImportError: the library is of another release than this file, or of another torch."""
    try:
        torch.ops.load_library(library)
        return torch.ops.ddp_shm.add_backend
    except (AttributeError, OSError) as error:
        raise ImportError(
            f"ddp_shm: {library} does not fit this module and torch {torch.__version__}: {str(error.__cause__ or error).splitlines()[0]}. "
            "Install the package again: pip install --force-reinstall --no-deps ddp_worker"
        ) from None


_add_backend = _load(_find_library())


def _make_backend(store, rank, world_size, timeout):
    if torch.cuda.device_count() == 0:  # it would change NCCL, too
        os.environ.setdefault("DDP_DISABLE_COMM_MEM", "0")  # torch 2.15: DDP has its buckets where they are summed
    group = dist.ProcessGroup(store, rank, world_size)
    why_not = _add_backend(group.boxed(), int(timeout.total_seconds() * 1000))
    logging.getLogger("ddp_shm").info("%d ranks: %s", world_size, f"sums go by Gloo: {why_not}" if why_not else "sums go through the shared memory of nodes")
    return group._get_backend(torch.device("cpu"))


dist.Backend.register_backend("ddp_shm", _make_backend, devices=["cpu"])
