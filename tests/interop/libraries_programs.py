"""Small programs on other people's libraries, as their users write them: nothing in them knows of ddp-launch.

LAUNCHER --nproc-per-node 2 libraries_programs.py NAME STEPS
Rank 1 prints "rank 1 is at step 5" on the way; rank 0 prints what was trained, digit by digit, on stdout.
"""

import os
import sys

STEPS = int(sys.argv[2])


def told(rank, step):
    if rank == 1 and step == 5:
        print("rank 1 is at step 5", flush=True)


def sums(model):
    return " ".join(f"{parameter.double().sum().item():.9g}" for parameter in model.parameters())


def bar():
    """A loop under tqdm, as most people's scripts."""
    import torch
    import torch.distributed as dist
    import tqdm

    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in tqdm.tqdm(range(STEPS)):
        loss = model(torch.full((4, 8), 1.0 + dist.get_rank())).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        told(dist.get_rank(), step)
    if dist.get_rank() == 0:
        print("trained", loss.item(), sums(model))
    dist.destroy_process_group()


def lightning():
    import lightning
    import torch

    class Tiny(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(8, 1)

        def training_step(self, batch, index):
            told(self.global_rank, self.global_step)
            loss = self.layer(batch).square().mean()
            self.log("loss", loss, prog_bar=True)
            return loss

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    lightning.seed_everything(0)
    samples = torch.randn(4096, 8)
    trainer = lightning.Trainer(
        accelerator="cpu", strategy="ddp", devices=int(os.environ["LOCAL_WORLD_SIZE"]), max_epochs=-1, max_steps=STEPS,
        logger=False, enable_checkpointing=False,
    )  # fmt: skip
    model = Tiny()
    trainer.fit(model, torch.utils.data.DataLoader(samples, batch_size=4))
    if trainer.global_rank == 0:
        print("under", type(trainer.strategy.cluster_environment).__name__, trainer.world_size)
        print("trained", trainer.callback_metrics["loss"].item(), sums(model))


def trainer():
    """Hugging Face's Trainer on a model that is made from a configuration."""
    import torch
    import transformers

    class Callback(transformers.TrainerCallback):
        def on_step_end(self, args, state, control, **_):
            told(args.process_index, state.global_step)

    transformers.set_seed(0)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=1, n_head=2, n_embd=16, vocab_size=32, n_positions=16))
    lines = torch.randint(0, 32, (256, 16))
    data = [{"input_ids": line, "labels": line} for line in lines]
    arguments = transformers.TrainingArguments(
        "out", use_cpu=True, ddp_backend="gloo", max_steps=STEPS, per_device_train_batch_size=4, learning_rate=1e-2,
        report_to=[], save_strategy="no", logging_steps=10,
    )  # fmt: skip
    one = transformers.Trainer(model=model, args=arguments, train_dataset=data, callbacks=[Callback()])
    result = one.train()
    if one.args.process_index == 0:
        print("trained", result.training_loss, sums(model))


def record():
    """PyTorch's own @record: rank 1 raises after its last step."""
    import torch.distributed as dist
    from torch.distributed.elastic.multiprocessing.errors import record as recorded

    @recorded
    def main():
        dist.init_process_group("gloo")
        for step in range(STEPS):
            dist.barrier()
            told(dist.get_rank(), step)
        if dist.get_rank() == 1:
            raise ValueError("this is what went wrong")
        dist.barrier()

    main()


def ops():
    """accelerate's own test of its collectives, on the CPU."""
    from accelerate import PartialState
    from accelerate.test_utils.scripts import test_ops

    PartialState(cpu=True)
    test_ops.main()


if __name__ == "__main__":
    {"bar": bar, "lightning": lightning, "trainer": trainer, "record": record, "ops": ops}[sys.argv[1]]()
