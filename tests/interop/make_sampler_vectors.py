"""What Python's DistributedSampler chooses, as lines for tests/unit/shard_test.cpp.

Each line: size world_size rank seed epoch shuffle drop_last | count hash | the first samples, at most 16.
Run by hand, with a Python that imports torch: python3 tests/interop/make_sampler_vectors.py > tests/unit/sampler_vectors.txt
"""

from torch.utils.data.distributed import DistributedSampler

# (size, world_size, seed, epoch): more ranks than samples, one short of a full round, seeds above 32 bits, MNIST.
CASES = [
    (1, 1, 0, 0),
    (1, 4, 1, 0),
    (2, 7, 3, 1),
    (3, 8, 5, 2),
    (10, 1, 0, 0),
    (10, 2, 1, 0),
    (10, 3, 1, 1),
    (10, 4, 42, 7),
    (11, 4, 42, 7),
    (12, 4, 42, 7),
    (100, 3, 2**32 + 5, 11),
    (101, 8, 2**40, 3),
    (1000, 7, 123456789, 100),
    (12000, 2, 1, 0),
    (12000, 5, 1, 4),
    (60000, 2, 1, 0),
    (60000, 2, 1, 1),
    (60000, 7, 0, 9),
    (100003, 4, 2, 5),
]


def hash_of(samples) -> int:
    """Changes with every sample and with their order."""
    value = 0
    for sample in samples:
        value = (value * 1000003 + sample + 1) % 2**64
    return value


def lines():
    for size, world_size, seed, epoch in CASES:
        for shuffle in (True, False):
            for drop_last in (True, False):
                for rank in range(world_size):
                    sampler = DistributedSampler(
                        range(size), num_replicas=world_size, rank=rank, seed=seed, shuffle=shuffle, drop_last=drop_last
                    )
                    sampler.set_epoch(epoch)
                    samples = list(sampler)
                    assert len(sampler) == len(samples)
                    head = " ".join(str(sample) for sample in samples[:16])
                    request = f"{size} {world_size} {rank} {seed} {epoch} {int(shuffle)} {int(drop_last)}"
                    yield f"{request} | {len(samples)} {hash_of(samples)} | {head}".rstrip()


if __name__ == "__main__":
    for line in lines():
        print(line)
