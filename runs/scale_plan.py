"""The cost of training on ImageNet-64 and enwik9 with 8 to 512 GPUs: `python runs/scale_plan.py` (docs/scale.md).

Measured on one H200: the share of its matrix rate that training reaches, and the memory of a network's activations.
From data sheets: the links between GPUs and between machines. Everything else is computed.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from torch import nn

from ardm.apps.bench.training import flops_per_item
from ardm.build import build_ardm
from ardm.config import DepthConfig, ImageData, RunConfig, TextData, TransformerConfig, UNetConfig
from ardm.presets import PRESETS
from ardm.runtime.device import Runtime
from ardm.train.optim import NEWTON_SCHULZ, is_hidden_matrix

MATRIX_TERAFLOPS = 663
"""Rate of one H200 in large bfloat16 products over seconds."""
GPU_GIB = 139
GPUS_PER_MACHINE = 8
NVLINK = 450e9
"""Bytes per second from a GPU to others of its machine."""
NETWORK = 50e9
"""Bytes per second from a GPU to other machines: a card of 400 Gbit/s per GPU."""
BATCH_SIZES = {8: 1024, 64: 1024, 512: 8192}
"""Items per step by the number of GPUs: with fewer than 16 items per GPU, a step waits for kernels to start."""
MUON_SHARE = 0.5
"""Share of the matrix rate in Muon's products, which are smaller; assumed."""
BYTES_PER_PARAMETER = 20
"""Weight, gradient, average and two momenta in float32; matrices under Muon have one momentum and take 16."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A planned training."""

    title: str
    config: RunConfig
    num_items: int
    """Items of the data set."""
    epochs: int
    share: float
    """Share of the matrix rate, measured on the most similar network."""
    bytes_per_unit: float
    """Memory of activations per unit (see `activation_units`), measured on the most similar network."""
    file_bytes: int


def imagenet64() -> Plan:
    """An upscale model of 64 x 64 images: the preset cifar10, wider by a third and with a third resolution."""
    network = UNetConfig(widths=(256, 512, 1024), depths=(6, 6, 8), kernel=3)
    data = ImageData(kind="images", height=64, width=64)
    return Plan(
        title="ImageNet-64, upscale 4",
        config=replace(PRESETS["cifar10"](), data=data, network=network, depth=DepthConfig(base=4)),
        num_items=1_281_149,
        epochs=200,
        share=0.35,
        bytes_per_unit=13.6 * 2**30 / 256 / activation_units(PRESETS["cifar10"]()),
        file_bytes=1_281_149 * 64 * 64 * 3,
    )


def enwik9() -> Plan:
    """A model of raw bytes: 24 layers of width 1024, items of 512 bytes."""
    network = TransformerConfig(num_layers=24, width=1024, head_width=128)
    data = TextData(kind="bytes", num_variables=512)
    return Plan(
        title="enwik9, order-agnostic",
        config=replace(PRESETS["text8"](), data=data, network=network),
        num_items=10**9 // 512,
        epochs=100,
        share=0.54,
        bytes_per_unit=34,
        file_bytes=10**9,
    )


def activation_units(config: RunConfig) -> int:
    """Channels of all blocks at all positions of an item, to which the activations of a step are proportional."""
    network = config.network
    if isinstance(network, UNetConfig):
        pixels = config.data.shape[0] * config.data.shape[1]
        levels = list(zip(network.widths, network.depths, strict=True))
        passes = [2] * (len(levels) - 1) + [1]
        return sum(
            n * depth * width * pixels // 4**i for i, ((width, depth), n) in enumerate(zip(levels, passes, strict=True))
        )
    assert isinstance(network, TransformerConfig)
    return network.num_layers * network.width * config.data.num_variables


def seconds_of_muon(model: nn.Module, num_gpus: int) -> float:
    """Seconds of a step in Muon: each GPU orthogonalises its share of the matrices, then all gather (bf16)."""
    shapes = Counter(p.shape for n, p in model.named_parameters() if is_hidden_matrix(n, p))
    flops, num_bytes = 0.0, 0
    for shape, count in shapes.items():
        num_matrices, (short, long) = count * math.prod(shape[:-2]), sorted(shape[-2:])
        flops += math.ceil(num_matrices / num_gpus) * len(NEWTON_SCHULZ) * 2 * (2 * short**2 * long + short**3)
        num_bytes += 2 * num_matrices * short * long
    return flops / (MUON_SHARE * MATRIX_TERAFLOPS * 1e12) + seconds_of_sum(num_bytes, num_gpus) / 2


def flops_of_attention(config: RunConfig) -> float:
    """Operations of attention, which PyTorch does not count on a CPU."""
    network, length = config.network, config.data.num_variables
    return 3 * 4 * network.num_layers * network.width * length**2 if isinstance(network, TransformerConfig) else 0


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """The cost of a training on a number of GPUs."""

    num_gpus: int
    batch_size: int
    compute: float
    """Seconds per step in the network."""
    muon: float
    """Seconds per step in which Muon orthogonalises and gathers its updates."""
    gradients: float
    """Seconds per step in which gradients are summed over GPUs, mostly during the backward pass."""
    hours: float
    """Hours of the whole training if no communication overlaps with computing."""
    memory: float
    """GiB per GPU."""
    sharded_memory: float
    """GiB per GPU with --fsdp."""


def estimate(plan: Plan, model: nn.Module, flops: float, num_gpus: int, batch_size: int) -> Estimate:
    """The cost of data-parallel training, with gradients summed by rings."""
    items, num_parameters = batch_size / num_gpus, sum(p.numel() for p in model.parameters())
    muon = seconds_of_muon(model, num_gpus)
    compute = items * flops / (plan.share * MATRIX_TERAFLOPS * 1e12)
    gradients = seconds_of_sum(4 * num_parameters, num_gpus)
    steps = plan.epochs * plan.num_items / batch_size
    activations = items * activation_units(plan.config) * plan.bytes_per_unit
    states = BYTES_PER_PARAMETER * num_parameters
    return Estimate(
        num_gpus=num_gpus,
        batch_size=batch_size,
        compute=compute,
        muon=muon,
        gradients=gradients,
        hours=steps * (compute + muon + gradients) / 3600,
        memory=(states + activations) / 2**30,
        sharded_memory=(states / num_gpus + activations) / 2**30,
    )


def seconds_of_sum(num_bytes: float, num_gpus: int) -> float:
    """Seconds to sum over all GPUs: within machines, then between them, then back, which takes half of the time."""
    machines = math.ceil(num_gpus / GPUS_PER_MACHINE)
    within = 2 * num_bytes * (GPUS_PER_MACHINE - 1) / GPUS_PER_MACHINE / NVLINK
    between = 2 * num_bytes / GPUS_PER_MACHINE * (machines - 1) / machines / NETWORK
    return within + between


COLUMNS = ("GPUs", "batch", "compute per step", "Muon", "gradients", "total", "memory", "with --fsdp", "loader")


def report(plan: Plan) -> Iterator[str]:
    """The plan in Markdown."""
    model = build_ardm(plan.config, 256)
    num_parameters = sum(p.numel() for p in model.parameters())
    flops = flops_per_item(plan.config, Runtime.choose("cpu")) + flops_of_attention(plan.config)
    yield (
        f"**{plan.title}**: {num_parameters / 1e6:.0f}M parameters, {flops / 1e9:.0f} GFLOP per item and step, "
        f"{plan.epochs} passes over {plan.num_items:,} items: {plan.epochs * plan.num_items * flops / 1e18:.0f} EFLOP, "
        f"at {plan.share:.0%} of the matrix rate."
    )
    yield ""
    yield _line(COLUMNS)
    yield "|---" * len(COLUMNS) + "|"
    for num_gpus, batch_size in BATCH_SIZES.items():
        one = estimate(plan, model, flops, num_gpus, batch_size)
        read = batch_size / (one.compute + one.muon + one.gradients) * plan.file_bytes / plan.num_items
        yield _line(
            (
                f"{num_gpus}",
                f"{batch_size}",
                f"{1000 * one.compute:.0f} ms",
                f"{1000 * one.muon:.1f} ms",
                f"{1000 * one.gradients:.1f} ms",
                f"{one.hours:.1f} h",
                f"{one.memory:.1f} GiB",
                f"{one.sharded_memory:.1f} GiB",
                f"{read / math.ceil(num_gpus / GPUS_PER_MACHINE) / 1e6:.1f} MB/s per machine",
            )
        )
    yield ""


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    for plan in (imagenet64(), enwik9()):
        print("\n".join(report(plan)))
