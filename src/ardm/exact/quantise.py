"""From a trained network to an exact one: units of activations from what they reach on real items.

Nothing is trained: weights are rounded for each output, activations for each channel.
"""

import copy
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Float64
from torch import Tensor, nn

from ardm.errors import ExactError
from ardm.exact.layers import BYTE, WORD, ExactNorm, check_bounds, rounded_rows
from ardm.exact.operations import GATE_ONE, STREAM_LIMIT
from ardm.exact.outputs import OutputUnits
from ardm.exact.transformer import ANGLE_ONE, SCORES_PER_NAT, ExactTransformer
from ardm.exact.unet import ExactSubPixelEmbedding, ExactUNet
from ardm.exact.wavenet import GATES_PER_NAT, INPUT_WEIGHT, ExactAudioInput, ExactStep, ExactWaveNet
from ardm.model import ARDM
from ardm.nn.layers import StepEmbedding, rms_norm
from ardm.nn.paper_wavenet import AudioInput, Convolution, GatedBlock, PaperWaveNet
from ardm.nn.transformer import Attention, Depthwise, Transformer
from ardm.nn.transformer import Block as TransformerBlock
from ardm.nn.unet import Block, SubPixelEmbedding, UNet
from ardm.objective import Corrupted

HEADROOM = 2.0
"""How far beyond what was seen the residual stream and the input of the head may go."""
FINEST_STREAM = 8
"""Most binary places of the residual stream."""
NORM_QUANTILE = 0.99995
"""The part of a norm's values that is not clamped."""
CHANNEL_QUANTILE = 0.9999
"""The part of the values of a channel that its peak is not below."""
PARTS = ("query", "key", "value")
QUERY_UNITS = 2.0**16
"""The largest query or key, before it is normalised."""
LEAST_PEAK = 1e-6
"""Peaks of channels that are always zero."""
OBSERVED = (nn.Linear, nn.Conv2d, Block, TransformerBlock, Attention, Depthwise, GatedBlock)


@dataclass
class ActivationRange:
    """What the inputs of a layer reach, on average over calls: the largest ever would grow with their number."""

    calls: int = 0
    peaks: Tensor | float = 0.0
    """What CHANNEL_QUANTILE of each channel's absolute values do not pass."""
    quantile: float = 0.0
    """What NORM_QUANTILE of all absolute values do not pass."""

    def update(self, x: Float[Tensor, "*N C"]) -> None:
        """Take in the inputs of one more call."""
        magnitude = x.detach().abs().flatten(0, -2)
        self.calls += 1
        peaks = upper_quantile(magnitude, CHANNEL_QUANTILE).double().cpu()
        self.peaks = self.peaks + (peaks - self.peaks) / self.calls
        everything = float(upper_quantile(magnitude.view(-1, 1), NORM_QUANTILE))
        self.quantile += (everything - self.quantile) / self.calls


def upper_quantile(x: Float[Tensor, "N C"], part: float) -> Float[Tensor, "C"]:
    """What a part, close to 1, of each column does not pass."""
    return x.topk(max(1, round((1 - part) * len(x))), dim=0).values[-1]


@dataclass
class Observations:
    """What the inputs of each layer of a network reach, by the layer's name."""

    layers: dict[str, ActivationRange] = field(default_factory=dict)
    reach: float = 1.0
    """The part of balanced peaks that bytes reach to; what is beyond is clamped, and what is within is finer."""

    def peaks(self, name: str) -> Tensor:
        """What nearly all values of each input channel of a layer do not pass."""
        return torch.as_tensor(self.layers[name].peaks).clamp(min=LEAST_PEAK)

    def balanced_peaks(self, name: str) -> Tensor:
        """The geometric mean of each channel's peak and the largest one, as far as bytes reach.

        Weights take up the ratios of units: with peaks alone, channels that are large for a few positions would leave
        the weights of all others too few levels; with one unit for all, small activations.
        """
        peaks = self.peaks(name)
        return self.reach * (peaks * peaks.max()).sqrt()

    def quantile(self, name: str) -> float:
        """What nearly all inputs of a layer do not pass."""
        return max(self.layers[name].quantile, LEAST_PEAK)


@torch.no_grad()
def observe(model: ARDM, batches: Iterable[Corrupted]) -> Observations:
    """What the inputs of layers and blocks reach on corrupted items."""
    observations = Observations()
    handles = []
    for name, module in model.network.named_modules():
        if isinstance(module, OBSERVED):
            handles.append(module.register_forward_pre_hook(_observer(observations, name)))
    try:
        for c in batches:
            model.outputs(c.inputs, c.mask, c.stage, c.t)
    finally:
        for handle in handles:
            handle.remove()
    return observations


def _observer(observations: Observations, name: str):  # type: ignore[no-untyped-def]
    seen = observations.layers.setdefault(name, ActivationRange())

    def hook(module: nn.Module, arguments: tuple[Any, ...]) -> None:
        x = arguments[0]
        is_image = isinstance(module, nn.Conv2d) and not isinstance(module, Convolution)
        seen.update(x.movedim(1, -1) if is_image else x)
        if isinstance(module, Attention):
            for part, weight in zip(PARTS, module.query_key_value, strict=True):
                y = F.linear(x, weight)
                observations.layers.setdefault(f"{name}.{part}", ActivationRange()).update(y)
                normal = rms_norm(y.unflatten(-1, (-1, module.head_width)))
                observations.layers.setdefault(f"{name}.{part}.normal", ActivationRange()).update(normal)

    return hook


def quantise(network: nn.Module, exact: nn.Module, seen: Observations, units: OutputUnits) -> None:
    """Fill an exact network with the rounded weights of a trained one, and prove its bounds."""
    if isinstance(network, UNet) and isinstance(exact, ExactUNet):
        _quantise_unet(network, exact, seen, units)
    elif isinstance(network, Transformer) and isinstance(exact, ExactTransformer):
        _quantise_transformer(network, exact, seen, units)
    elif isinstance(network, PaperWaveNet) and isinstance(exact, ExactWaveNet):
        _quantise_wavenet(network, exact, seen, units)
    else:
        raise ExactError(f"a {type(network).__name__} has no exact form")
    check_bounds(exact)


@torch.no_grad()
def _quantise_unet(network: UNet, exact: ExactUNet, seen: Observations, units: OutputUnits) -> None:
    """Fill an exact U-Net with the rounded weights of a trained one."""
    stream = stream_units(max(float(seen.peaks(f"blocks.{i}").max()) for i in range(len(network.blocks))))
    _set_embedding(exact.embedding, network.embedding, stream)
    for i, (block, target) in enumerate(zip(network.blocks, exact.blocks, strict=True)):
        _set_block(target, block, seen, f"blocks.{i}", stream)
    for kind in ("down_blocks", "up_blocks"):
        for i, (layer, resize) in enumerate(zip(getattr(network, kind), getattr(exact, kind), strict=True)):
            input_units = _set_norm(resize.norm, seen.quantile(f"{kind}.{i}"))
            resize.product.set_float(layer.weight, torch.tensor(input_units), torch.tensor(stream))
    shape = (network.head.out_features // exact.head.weight.shape[1], -1)
    weight, bias = network.head.weight.unflatten(0, shape), network.head.bias.view(shape)
    input_units = _set_norm(exact.head_norm, HEADROOM * seen.quantile("head"))
    exact.head.set_float(weight, bias, input_units, units.factor, units.offset)


def _set_block(target: Any, block: Any, seen: Observations, name: str, units: float) -> None:
    norm_units = _set_norm(target.norm, seen.quantile(f"{name}.depthwise"))
    mixed, hidden = (BYTE / seen.balanced_peaks(f"{name}.{layer}") for layer in ("expand", "contract"))
    target.depthwise.set_float(block.depthwise.weight[:, 0], norm_units, mixed)
    target.expand.set_float(block.expand.weight, mixed, hidden)
    target.contract.set_float(block.contract.weight, hidden, torch.tensor(units))


@torch.no_grad()
def _quantise_transformer(
    network: Transformer, exact: ExactTransformer, seen: Observations, units: OutputUnits
) -> None:
    stream = stream_units(max(float(seen.peaks(f"blocks.{i}").max()) for i in range(len(network.blocks))))
    exact.embedding.values.copy_((network.embedding.double() * stream).round()[None])
    if network.state_embedding is not None:
        exact.embedding.states.copy_((network.state_embedding.double() * stream).round()[None])
    for i, (block, target) in enumerate(zip(network.blocks, exact.blocks, strict=True)):
        _set_attention(target.attention, block.attention, seen, f"blocks.{i}.attention", stream)
        _set_feed_forward(target, block, seen, f"blocks.{i}", stream)
    input_units = _set_norm(exact.head_norm, HEADROOM * seen.quantile("head"))
    weight, bias = network.head.weight[None], network.head.bias[None]
    exact.head.set_float(weight, bias, input_units, units.factor, units.offset)


def _set_feed_forward(target: Any, block: Any, seen: Observations, name: str, stream: float) -> None:
    hidden = BYTE / seen.balanced_peaks(f"{name}.contract")  # of squares
    if block.depthwise is None:
        mixed = torch.tensor(_set_norm(target.norm, seen.quantile(f"{name}.expand")))
    else:
        norm_units = _set_norm(target.norm, seen.quantile(f"{name}.depthwise"))
        mixed = BYTE / seen.balanced_peaks(f"{name}.expand")
        target.depthwise.set_float(block.depthwise.weight.t()[:, None], norm_units, mixed)
    target.expand.set_float(block.expand.weight, mixed, hidden.sqrt())
    target.contract.set_float(block.contract.weight, hidden, torch.tensor(stream))


def _set_attention(target: Any, attention: Any, seen: Observations, name: str, stream: float) -> None:
    norm_units = torch.tensor(_set_norm(target.norm, seen.quantile(name)))
    sides = zip(("query", "key"), attention.query_key_value, strict=False)
    turned_units = []
    for i, (part, weight) in enumerate(sides):
        before = QUERY_UNITS / float(seen.peaks(f"{name}.{part}").max())
        getattr(target, part).set_float(weight, norm_units, torch.tensor(before))
        normal_units = _set_norm(getattr(target, f"{part}_norm"), seen.quantile(f"{name}.{part}.normal"))
        turned_units.append(BYTE / seen.quantile(f"{name}.{part}.normal"))
        target.turn_scale[i] = turned_units[i] / (normal_units * ANGLE_ONE)
    nats = attention.head_width**-0.5 / (turned_units[0] * turned_units[1])
    target.score_scale.fill_(SCORES_PER_NAT * nats)
    value, mixed = BYTE / seen.peaks(f"{name}.value"), BYTE / seen.peaks(f"{name}.output")
    target.value.set_float(attention.query_key_value[2], norm_units, value)
    target.mean_scale.copy_((mixed / value).view(target.mean_scale.shape))
    target.output.set_float(attention.output.weight, mixed, torch.tensor(stream))


@torch.no_grad()
def _quantise_wavenet(network: PaperWaveNet, exact: ExactWaveNet, seen: Observations, units: OutputUnits) -> None:
    """Fill an exact WaveNet with the rounded weights of a trained one."""
    blocks = cast(list[GatedBlock], list(network.blocks))
    values, rows = embedded_values(network.input), step_rows(network.step, blocks, exact.step)
    largest = max(float(table.abs().max().clamp(min=LEAST_PEAK)) for table in (values, rows))
    peak = max(float(seen.peaks(f"blocks.{i}").max()) for i in range(len(blocks)))
    stream = min(stream_units(peak), power_of_two(WORD / largest))
    _set_audio_input(exact.input, network.input, values, stream)
    exact.step.rows.copy_((rows * stream).round())
    root = math.sqrt(len(blocks))
    total = power_of_two(WORD / (HEADROOM * root * float(seen.peaks("last").max())))
    for i, (block, target) in enumerate(zip(blocks, exact.blocks, strict=True)):
        _set_gated_block(target, block, seen, f"blocks.{i}", stream, total)
    weight = network.last.weight.double() / root
    skipped = torch.stack([output_biases(block)[1] for block in blocks]).sum(0)
    bias = network.last.bias.double() + weight @ skipped
    hidden = torch.full_like(bias, WORD / (HEADROOM * float(seen.peaks("head").max())))
    exact.last.set_float(weight[None], bias[None], total, hidden, torch.zeros_like(bias))
    weight, bias = network.head.weight[None], network.head.bias[None]
    exact.head.set_float(weight, bias, float(hidden[0]), units.factor, units.offset)


def embedded_values(layer: AudioInput) -> Float64[Tensor, "V C"]:
    """The features of each value that come from its embedding, after the relu."""
    weight, bias = layer.projection.weight.double(), layer.projection.bias.double()
    return (layer.embedding.weight.double() @ weight.t() + bias).relu()


def step_rows(embedding: StepEmbedding, blocks: list[GatedBlock], exact: ExactStep) -> Float64[Tensor, "S L K C"]:
    """What each block adds to the stream for the middle step of each level, and the residual biases before it."""
    (num_stages, num_levels), length = exact.rows.shape[:2], exact.max_length
    bounds = -(-torch.arange(num_levels + 1) * (length + 1) // num_levels)  # the first step of each level
    t = (bounds[:-1] + bounds[1:] - 1) // 2
    embedding = copy.deepcopy(embedding).double()
    embedded = torch.stack([embedding(torch.full_like(t, stage), t, length) for stage in range(num_stages)])
    rows, bias = [], torch.zeros((), dtype=torch.float64)
    for block in blocks:
        assert block.step is not None
        rows.append(embedded @ block.step.weight.double().t() + block.step.bias.double() + bias)
        bias = (bias + output_biases(block)[0]) * math.sqrt(0.5)
    return torch.stack(rows, dim=2)


def output_biases(block: GatedBlock) -> tuple[Float64[Tensor, "C"], Float64[Tensor, "C"]]:
    """Those of the residual and of the skip half."""
    residual, skip = block.output.bias.double().chunk(2)
    return residual, skip


def _set_audio_input(target: ExactAudioInput, layer: AudioInput, values: Tensor, stream: float) -> None:
    target.values.copy_((values * stream).round())
    convolution = layer.convolution
    value, mask, *stages = convolution.weight.double()[:, :, 0].permute(1, 2, 0)  # (3, C) each
    hidden = [stage - value for stage in stages] or [torch.zeros_like(value)]
    revealed = [row + mask for row in hidden] if stages else [mask - value]
    states = [row for pair in zip(hidden, revealed, strict=True) for row in pair]
    weight = torch.stack((value * 2 / layer.num_values, *states), dim=1)  # (3, 1 + 2S, C)
    assert convolution.bias is not None
    columns = torch.cat((weight.flatten(0, 1), convolution.bias.double()[None]))
    rounded, steps = rounded_rows(columns.t(), INPUT_WEIGHT)
    target.weight.copy_(rounded.t()[:-1].view(weight.shape))
    target.bias.copy_(rounded[:, -1])
    target.scale.copy_(steps * stream)


def _set_gated_block(target: Any, block: Any, seen: Observations, name: str, stream: float, total: float) -> None:
    bytes_seen, hidden = (BYTE / seen.balanced_peaks(f"{name}.{layer}") for layer in ("convolution", "output"))
    target.seen_scale.copy_(bytes_seen / stream)
    weight, bias = block.convolution.weight[:, :, 0].mT.flatten(1), block.convolution.bias.double()
    gate_units = torch.full_like(bias, GATES_PER_NAT)
    gate_units[: len(bias) // 2] *= 2
    target.convolution.set_float(weight, bytes_seen.repeat(3), gate_units)
    target.gate_bias.copy_((bias * gate_units).round())
    target.gate_scale.copy_(hidden / GATE_ONE**2)
    residual, skip = block.output.weight.chunk(2)
    target.skip.set_float(skip, hidden, torch.tensor(total))
    if target.residual is not None:
        target.residual.set_float(residual, hidden, torch.tensor(stream))


def _set_norm(norm: ExactNorm, quantile: float) -> float:
    """The units of the norm's output, after setting them."""
    units = norm.limit / quantile
    norm.gain.fill_(units * norm.width**0.5)
    return units


def _set_embedding(target: ExactSubPixelEmbedding, embedding: SubPixelEmbedding, units: float) -> None:
    weight = embedding.weight.double().unflatten(1, (len(target.values), -1)).permute(1, 2, 0)  # (G, J + 2S, C)
    target.set_float(weight, embedding.features.double(), units)


def power_of_two(limit: float) -> float:
    """The largest power of two that does not pass a limit."""
    return 2.0 ** (math.frexp(limit)[1] - 1)


def stream_units(peak: float) -> float:
    """The finest power of two, up to 2^8, in which a stream with this peak has headroom."""
    places = FINEST_STREAM
    while peak * HEADROOM * 2.0**places >= STREAM_LIMIT:
        places -= 1
    return 2.0**places
