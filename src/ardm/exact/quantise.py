"""Quantisation of a trained network: rounded weights, and units of activations calibrated on real items.

Nothing is trained: weights are rounded per output, activations per channel.
"""

import copy
import itertools
import math
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Float64
from torch import Tensor, nn

from ardm.coding import CodingModel
from ardm.errors import ExactError
from ardm.exact.coding_transformer import ExactCodingTransformer
from ardm.exact.layers import BYTE, WORD, ExactNorm, check_bounds, rounded_rows
from ardm.exact.operations import GATE_ONE, STREAM_LIMIT
from ardm.exact.outputs import OutputUnits
from ardm.exact.transformer import ANGLE_ONE, SCORES_PER_NAT, ExactTransformer
from ardm.exact.unet import ExactUNet
from ardm.exact.wavenet import GATES_PER_NAT, INPUT_WEIGHT, ExactSoundInput, ExactStep, ExactWaveNet
from ardm.model import ARDM
from ardm.nn.coding_transformer import CodingTransformer
from ardm.nn.layers import StepEmbedding, rms_norm
from ardm.nn.paper_wavenet import Convolution, GatedBlock, PaperWaveNet, SoundInput
from ardm.nn.transformer import Attention, Depthwise, Transformer
from ardm.nn.transformer import Block as TransformerBlock
from ardm.nn.unet import Block, UNet
from ardm.objective import Corrupted
from ardm.strands import StrandLayout

HEADROOM = 2.0
"""Room for the residual stream and the head's input, as a multiple of their calibrated ranges."""
MAX_STREAM_BITS = 8
"""Maximum number of fractional bits of the residual stream."""
NORM_QUANTILE = 0.99995
"""Fraction of a norm's values that are not clamped."""
CHANNEL_QUANTILE = 0.9999
"""Fraction of a channel's values that do not exceed its peak."""
PARTS = ("query", "key", "value")
QUERY_UNITS = 2.0**16
"""The integer for the largest query or key before normalisation."""
MIN_PEAK = 1e-6
"""The least peak, used for channels that are always zero."""
CALIBRATED_LAYERS = (nn.Linear, nn.Conv2d, Block, TransformerBlock, Attention, Depthwise, GatedBlock)


@dataclass
class ActivationRange:
    """The range of a layer's inputs, averaged over calls because a maximum would grow with their number."""

    calls: int = 0
    peaks: Tensor | float = 0.0
    """The CHANNEL_QUANTILE of each channel's absolute values."""
    quantile: float = 0.0
    """The NORM_QUANTILE of all absolute values."""

    def update(self, x: Float[Tensor, "*N C"]) -> None:
        """Update the averages with the inputs of one more call."""
        magnitude = x.detach().abs().flatten(0, -2)
        self.calls += 1
        peaks = upper_quantile(magnitude, CHANNEL_QUANTILE).double().cpu()
        self.peaks = self.peaks + (peaks - self.peaks) / self.calls
        everything = float(upper_quantile(magnitude.view(-1, 1), NORM_QUANTILE))
        self.quantile += (everything - self.quantile) / self.calls


def upper_quantile(x: Float[Tensor, "N C"], part: float) -> Float[Tensor, "C"]:
    """The quantile of each column at `part`, which should be close to 1."""
    return x.topk(max(1, round((1 - part) * len(x))), dim=0).values[-1]


@dataclass
class Calibration:
    """The activation ranges of a network's layers, by name."""

    layers: dict[str, ActivationRange] = field(default_factory=dict)
    clip: float = 1.0
    """The fraction of balanced peaks at which bytes are clamped; a smaller one resolves other values more finely."""

    def peaks(self, name: str) -> Tensor:
        """The peak of each input channel of a layer."""
        return torch.as_tensor(self.layers[name].peaks).clamp(min=MIN_PEAK)

    def balanced_peaks(self, name: str) -> Tensor:
        """The geometric mean of each channel's peak and the largest peak, times `clip`.

        The weights absorb the ratios of units. With each channel's own peak, channels that are large at a few positions
        would leave too few levels for the weights of the others; with one common peak, too few for small activations.
        """
        peaks = self.peaks(name)
        return self.clip * (peaks * peaks.max()).sqrt()

    def quantile(self, name: str) -> float:
        """The NORM_QUANTILE of a layer's inputs."""
        return max(self.layers[name].quantile, MIN_PEAK)

    def block_peak(self) -> float:
        """The largest peak of the inputs of all blocks, which are the residual stream."""
        return max(float(self.peaks(name).max()) for name in self.layers if re.fullmatch(r"blocks\.\d+", name))


@torch.no_grad()
def calibrate(model: ARDM, batches: Iterable[Corrupted]) -> Calibration:
    """The activation ranges of a network's layers and blocks on corrupted items."""
    with observed(model.network) as calibration:
        for c in batches:
            model.outputs(c.inputs, c.mask, c.stage, c.t)
    return calibration


@torch.no_grad()
def calibrate_coding(model: CodingModel, batches: Iterable[tuple[Tensor, StrandLayout]]) -> Calibration:
    """The activation ranges of a coding network's layers and blocks on texts in strands."""
    with observed(model.network) as calibration:
        for x, layout in batches:
            model.outputs(x, layout)
    return calibration


@contextmanager
def observed(network: nn.Module) -> Iterator[Calibration]:
    """The activation ranges of a network's layers and blocks in the calls inside the context."""
    calibration = Calibration()
    handles = []
    for name, module in network.named_modules():
        if isinstance(module, CALIBRATED_LAYERS):
            handles.append(module.register_forward_pre_hook(_range_hook(calibration, name)))
    try:
        yield calibration
    finally:
        for handle in handles:
            handle.remove()


def _range_hook(calibration: Calibration, name: str):  # type: ignore[no-untyped-def]
    inputs = calibration.layers.setdefault(name, ActivationRange())

    def hook(module: nn.Module, arguments: tuple[Any, ...]) -> None:
        x = arguments[0]
        is_image = isinstance(module, nn.Conv2d) and not isinstance(module, Convolution)
        inputs.update(x.movedim(1, -1) if is_image else x)
        if isinstance(module, Attention):
            for part, weight in zip(PARTS, module.query_key_value, strict=True):
                y = F.linear(x, weight)
                calibration.layers.setdefault(f"{name}.{part}", ActivationRange()).update(y)
                normal = rms_norm(y.unflatten(-1, (-1, module.head_width)))
                calibration.layers.setdefault(f"{name}.{part}.normal", ActivationRange()).update(normal)

    return hook


@torch.no_grad()
def quantise(network: nn.Module, exact: nn.Module, ranges: Calibration, units: OutputUnits) -> None:
    """Fill an exact network with the rounded weights of a trained one, and check its bounds."""
    match network, exact:
        case UNet(), ExactUNet():
            _quantise_unet(network, exact, ranges, units)
        case Transformer(), ExactTransformer():
            _quantise_transformer(network, exact, ranges, units)
        case CodingTransformer(), ExactCodingTransformer():
            _quantise_transformer(network, exact, ranges, units)
        case PaperWaveNet(), ExactWaveNet():
            _quantise_wavenet(network, exact, ranges, units)
        case _:
            raise ExactError(f"a {type(network).__name__} has no exact form")
    check_bounds(exact)


def _quantise_unet(network: UNet, exact: ExactUNet, ranges: Calibration, units: OutputUnits) -> None:
    stream = stream_units(ranges.block_peak())
    weight = network.embedding.weight.double().unflatten(1, (len(exact.embedding.values), -1))
    exact.embedding.set_float(weight.permute(1, 2, 0), network.embedding.features.double(), stream)  # (G, J + 2S, C)
    for i, (block, target) in enumerate(zip(network.blocks, exact.blocks, strict=True)):
        _set_block(target, block, ranges, f"blocks.{i}", stream)
    for kind in ("down_blocks", "up_blocks"):
        for i, (layer, resize) in enumerate(zip(getattr(network, kind), getattr(exact, kind), strict=True)):
            input_units = _set_norm(resize.norm, ranges.quantile(f"{kind}.{i}"))
            resize.product.set_float(layer.weight, torch.tensor(input_units), torch.tensor(stream))
    shape = (network.head.out_features // exact.head.weight.shape[1], -1)
    weight, bias = network.head.weight.unflatten(0, shape), network.head.bias.view(shape)
    input_units = _set_norm(exact.head_norm, HEADROOM * ranges.quantile("head"))
    exact.head.set_float(weight, bias, input_units, units)


def _set_block(target: Any, block: Any, ranges: Calibration, name: str, units: float) -> None:
    norm_units = _set_norm(target.norm, ranges.quantile(f"{name}.depthwise"))
    mixed, hidden = (BYTE / ranges.balanced_peaks(f"{name}.{layer}") for layer in ("expand", "contract"))
    target.depthwise.set_float(block.depthwise.weight[:, 0], norm_units, mixed)
    target.expand.set_float(block.expand.weight, mixed, hidden)
    target.contract.set_float(block.contract.weight, hidden, torch.tensor(units))


def _quantise_transformer(
    network: Transformer | CodingTransformer,
    exact: ExactTransformer | ExactCodingTransformer,
    ranges: Calibration,
    units: OutputUnits,
) -> None:
    stream = stream_units(ranges.block_peak())
    exact.embedding.values.copy_((network.embedding.double() * stream).round()[None])
    if isinstance(network, Transformer) and network.state_embedding is not None:
        exact.embedding.states.copy_((network.state_embedding.double() * stream).round()[None])
    for i, (block, target) in enumerate(zip(network.blocks, exact.blocks, strict=True)):
        _set_attention(target.attention, block.attention, ranges, f"blocks.{i}.attention", stream)
        _set_feed_forward(target, block, ranges, f"blocks.{i}", stream)
    input_units = _set_norm(exact.head_norm, HEADROOM * ranges.quantile("head"))
    exact.head.set_float(network.head.weight[None], network.head.bias[None], input_units, units)


def _set_feed_forward(target: Any, block: Any, ranges: Calibration, name: str, stream: float) -> None:
    hidden = BYTE / ranges.balanced_peaks(f"{name}.contract")  # units of the squares
    if block.depthwise is None:
        mixed = torch.tensor(_set_norm(target.norm, ranges.quantile(f"{name}.expand")))
    else:
        norm_units = _set_norm(target.norm, ranges.quantile(f"{name}.depthwise"))
        mixed = BYTE / ranges.balanced_peaks(f"{name}.expand")
        target.depthwise.set_float(block.depthwise.weight.t()[:, None], norm_units, mixed)
    target.expand.set_float(block.expand.weight, mixed, hidden.sqrt())
    target.contract.set_float(block.contract.weight, hidden, torch.tensor(stream))


def _set_attention(target: Any, attention: Any, ranges: Calibration, name: str, stream: float) -> None:
    norm_units = torch.tensor(_set_norm(target.norm, ranges.quantile(name)))
    sides = zip(("query", "key"), attention.query_key_value, strict=False)
    turned_units = []
    for i, (part, weight) in enumerate(sides):
        units = QUERY_UNITS / float(ranges.peaks(f"{name}.{part}").max())
        getattr(target, part).set_float(weight, norm_units, torch.tensor(units))
        normal_units = _set_norm(getattr(target, f"{part}_norm"), ranges.quantile(f"{name}.{part}.normal"))
        turned_units.append(target.turn_limits[i] / ranges.quantile(f"{name}.{part}.normal"))
        target.turn_scale[i] = turned_units[i] / (normal_units * ANGLE_ONE)
    nats = attention.head_width**-0.5 / (turned_units[0] * turned_units[1])
    target.score_scale.fill_(SCORES_PER_NAT * nats)
    value, mixed = BYTE / ranges.peaks(f"{name}.value"), BYTE / ranges.peaks(f"{name}.output")
    target.value.set_float(attention.query_key_value[2], norm_units, value)
    target.mean_scale.copy_((mixed / value).view(target.mean_scale.shape))
    target.output.set_float(attention.output.weight, mixed, torch.tensor(stream))


def _quantise_wavenet(network: PaperWaveNet, exact: ExactWaveNet, ranges: Calibration, units: OutputUnits) -> None:
    blocks = cast(list[GatedBlock], list(network.blocks))
    values, rows = embedded_values(network.input), step_rows(network.step, blocks, exact.step)
    largest = max(float(table.abs().max().clamp(min=MIN_PEAK)) for table in (values, rows))
    stream = min(stream_units(ranges.block_peak()), power_of_two(WORD / largest))
    _set_sound_input(exact.input, network.input, values, stream)
    exact.step.rows.copy_((rows * stream).round())
    root = math.sqrt(len(blocks))
    total = power_of_two(WORD / (HEADROOM * root * float(ranges.peaks("last").max())))
    for i, (block, target) in enumerate(zip(blocks, exact.blocks, strict=True)):
        _set_gated_block(target, block, ranges, f"blocks.{i}", stream, total)
    weight = network.last.weight.double() / root
    skipped = torch.stack([block.output.bias.double().chunk(2)[1] for block in blocks]).sum(0)
    bias = network.last.bias.double() + weight @ skipped
    hidden = torch.full_like(bias, WORD / (HEADROOM * float(ranges.peaks("head").max())))
    exact.last.set_float(weight[None], bias[None], total, OutputUnits(factor=hidden, offset=torch.zeros_like(bias)))
    exact.head.set_float(network.head.weight[None], network.head.bias[None], float(hidden[0]), units)


def embedded_values(layer: SoundInput) -> Float64[Tensor, "V C"]:
    """The part of each value's features that comes from its embedding, after the ReLU."""
    weight, bias = layer.projection.weight.double(), layer.projection.bias.double()
    return (layer.embedding.weight.double() @ weight.t() + bias).relu()


def step_rows(embedding: StepEmbedding, blocks: list[GatedBlock], exact: ExactStep) -> Float64[Tensor, "S L K C"]:
    """Rows that the middle step of each level adds to the stream before each block, with the residual biases so far."""
    (num_stages, num_levels), length = exact.rows.shape[:2], exact.max_length
    bounds = -(-torch.arange(num_levels + 1) * (length + 1) // num_levels)  # the first step of each level
    t = (bounds[:-1] + bounds[1:] - 1) // 2
    embedding = copy.deepcopy(embedding).double()
    embedded = torch.stack([embedding(torch.full_like(t, stage), t, length) for stage in range(num_stages)])
    rows, bias = [], torch.zeros((), dtype=torch.float64)
    for block in blocks:
        assert block.step is not None
        rows.append(embedded @ block.step.weight.double().t() + block.step.bias.double() + bias)
        bias = (bias + block.output.bias.double().chunk(2)[0]) * math.sqrt(0.5)
    return torch.stack(rows, dim=2)


def _set_sound_input(target: ExactSoundInput, layer: SoundInput, values: Tensor, stream: float) -> None:
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


def _set_gated_block(target: Any, block: Any, ranges: Calibration, name: str, stream: float, total: float) -> None:
    inputs, hidden = (BYTE / ranges.balanced_peaks(f"{name}.{layer}") for layer in ("convolution", "output"))
    target.seen_scale.copy_(inputs / stream)
    weight, bias = block.convolution.weight[:, :, 0].mT.flatten(1), block.convolution.bias.double()
    gate_units = torch.full_like(bias, GATES_PER_NAT)
    gate_units[: len(bias) // 2] *= 2
    target.convolution.set_float(weight, inputs.repeat(3), gate_units)
    target.gate_bias.copy_((bias * gate_units).round())
    target.gate_scale.copy_(hidden / GATE_ONE**2)
    residual, skip = block.output.weight.chunk(2)
    target.skip.set_float(skip, hidden, torch.tensor(total))
    if target.residual is not None:
        target.residual.set_float(residual, hidden, torch.tensor(stream))


def _set_norm(norm: ExactNorm, quantile: float) -> float:
    """Set the units of the norm's output so that the quantile reaches its limit, and return them."""
    units = norm.limit / quantile
    norm.gain.fill_(units * norm.width**0.5)
    return units


def power_of_two(limit: float) -> float:
    """The largest power of two up to a limit."""
    return 2.0 ** (math.frexp(limit)[1] - 1)


def stream_units(peak: float) -> float:
    """The largest power of two, up to 2^8, that leaves a stream with this peak its headroom."""
    units = (2.0**bits for bits in itertools.count(MAX_STREAM_BITS, -1))
    return next(unit for unit in units if peak * HEADROOM * unit < STREAM_LIMIT)
