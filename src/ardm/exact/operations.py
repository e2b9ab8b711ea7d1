"""The operations of exact networks and their backends: the same integers on every machine.

    product          sums of 8-bit integers, each proved below 2^24 when the network is built: any order of summation,
                     in int32, float32 or float64, gives the same result
    norm             one sum of squares in int64; sqrt, division and rounding to float32, each correctly rounded
    rescale          one float32 product, rounded to the nearest integer (ties to even), clamped

No product is followed by a floating-point sum, so that no compiler may contract them; TF32 is never used. Every
`Operations` is tested against stored integers before use (`network.choose_operations`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float32, Float64, Int, Int8, Int16, Int32, Int64, Shaped
from torch import Tensor

from ardm.exact import kernels

STREAM_LIMIT = 2**23
"""Values of the residual stream are clamped to this: float32 holds them, and sums of squares fit int64."""
GATE_RANGE = 2048
"""The table of the logistic function has arguments from -GATE_RANGE to GATE_RANGE - 1."""
GATE_ONE = 2**12
"""The logistic function in units of 2^-12, so that float32 holds the product of two values."""
MAX_SUMS = 2**21
"""Sums of a product that a CPU computes before it rescales them; the caches would not hold more."""
QUERY_ROWS = 64
"""Rows of an item whose attention is computed together; the scores of more would leave a CPU's caches."""
SQRT_HALF = float(np.float32(0.5**0.5))
"""1 / sqrt 2 rounded to float32."""

Bytes = Int8[Tensor, "N K"]
Weight = Int8[Tensor, "C K"]
Sums = Int32[Tensor, "N C"]
Stream = Int32[Tensor, "N C"]
Scale = Float32[Tensor, "C"]
Activations = Int8[Tensor, "N C"]
Pixels = Int16[Tensor, "B H W C"]
Taps = Int8[Tensor, "P Q C"]
MixedPixels = Int8[Tensor, "B H W C"]
Angles = Int16[Tensor, "D F"]
Heads = Int8[Tensor, "B D H C"]
Queries = Int8[Tensor, "B M H C"]
Number = Float64[Tensor, ""]
Table = Int32[Tensor, "L"]
ScoreScale = Float32[Tensor, ""]
MeanScale = Float64[Tensor, "H C"]
Bias = Int32[Tensor, "C"]
Logistic = Int16[Tensor, "L"]
GateScale = Float32[Tensor, "C1"]
Gated = Int8[Tensor, "N C1"]
Words = Int16[Tensor, "N C"]
Groups = Int[Tensor, "N"]
HeadWeight = Int16[Tensor, "G O C"]
HeadScale = Float64[Tensor, "G O"]
HeadBias = Int32[Tensor, "G O"]
HeadOutputs = Int32[Tensor, "N O"]
ChosenOutputs = Int32[Tensor, "B N O"]
NewHeads = Int8[Tensor, "R H C"]
Keys = Int8[Tensor, "B H C M"]
KeptValues = Int8[Tensor, "B H M C1"]
Seen = Int16[Tensor, "B M F"]


@dataclass(frozen=True)
class Places:
    """Where new rows stand in the memories of their items; those of an item are neighbours, by rising number."""

    item: Int[Tensor, "R"]
    number: Int[Tensor, "R"]
    """Their numbers among the rows of their item. A row sees those up to its own."""
    taps: Int[Tensor, "R K"]
    """The rows that the convolution sees, the row itself last; -1 where there is none."""

    @cached_property
    def blocks(self) -> Int64[np.ndarray, "N 4"]:
        """Runs of up to `QUERY_ROWS` rows of an item: the item, first row, end, and the rows that the last one sees."""
        items, counts = self.item.unique_consecutive(return_counts=True)
        numbers, ends = self.number.tolist(), counts.cumsum(0).tolist()
        blocks = []
        for item, first, last in zip(items.tolist(), [0, *ends], ends, strict=False):
            for start in range(first, last, QUERY_ROWS):
                end = min(start + QUERY_ROWS, last)
                blocks.append((item, start, end, numbers[end - 1] + 1))
        return np.array(blocks, dtype=np.int64)


class Operations(ABC):
    """A backend: abstract products and attention; all other operations in plain PyTorch, for any device."""

    @abstractmethod
    def product(self, x: Bytes, weight: Weight) -> Sums:
        """x weight^T."""

    @abstractmethod
    def attend(
        self, query: Queries, key: Heads, value: Heads, exponential: Table, score_scale: ScoreScale, scale: MeanScale
    ) -> Queries:
        """Means of values rescaled to +-127, weighted by a table of each score's distance to the largest score."""

    @abstractmethod
    def attend_visible(
        self,
        query: NewHeads,
        keys: Keys,
        values: KeptValues,
        places: Places,
        exponential: Table,
        score_scale: ScoreScale,
        scale: MeanScale,
    ) -> NewHeads:
        """`attend` for rows that see those of their item up to their own number in its memory."""

    def remember(self, keys: Keys, values: KeptValues, places: Places, key: NewHeads, value: NewHeads) -> None:
        """Write the keys and values of new rows to the memories of their items, whose values may have more channels."""
        keys[places.item, :, :, places.number] = key
        values[places.item, :, places.number, : value.shape[2]] = value

    def depthwise_before(self, seen: Seen, places: Places, weight: Taps, scale: Scale) -> Activations:
        """The convolution of each row's taps, rows of its item's memory, rescaled to +-127; a tap of -1 is zero."""
        rows = F.pad(seen, (0, 0, 0, 1))[places.item[:, None], places.taps].int()
        return self.rescale((rows * weight[0].int()).sum(1, dtype=torch.int32), scale, -127)

    def activations(self, x: Bytes, weight: Weight, scale: Scale, low: int) -> Activations:
        """x weight^T times the scale of each channel, clamped to low..127."""
        return self.rescale(self.product(x, weight), scale, low)

    def squared_activations(self, x: Bytes, weight: Weight, scale: Scale) -> Activations:
        """The square of x weight^T times the scale of each channel, clamped to 0..127; 0 where it is negative."""
        return self.rescale_squared(self.product(x, weight), scale)

    def add_product(self, stream: Stream, x: Bytes, weight: Weight, scale: Scale) -> Stream:
        """stream + x weight^T times the scale of each channel, clamped to +-STREAM_LIMIT; may overwrite `stream`."""
        return self.add_rescaled(stream, self.product(x, weight), scale)

    def norm(self, x: Stream, gain: Number, limit: int) -> Words:
        """x divided by its Euclidean length, times the gain, clamped to +-limit."""
        total = x.long().square().sum(-1, keepdim=True).clamp(min=1)
        scale = (gain / total.double().sqrt()).float()
        return (x.float() * scale).round().clamp(-limit, limit).to(torch.int16)

    def depthwise(self, x: Pixels, weight: Taps, scale: Scale) -> MixedPixels:
        """The depthwise convolution of x padded with zeros, rescaled to +-127; here a sum of shifted products."""
        (_, height, width, _), (rows, columns, _) = x.shape, weight.shape
        padded = F.pad(x, (0, 0, columns // 2, columns // 2, rows // 2, rows // 2)).int()
        total = torch.zeros_like(x, dtype=torch.int32)
        for p in range(rows):
            for q in range(columns):
                total += padded[:, p : p + height, q : q + width] * weight[p, q].int()
        return (total.float() * scale).round().clamp(-127, 127).to(torch.int8)

    def rescale(self, x: Sums, scale: Scale, low: int) -> Activations:
        """x times the scale of each channel, clamped to low..127."""
        return (x.float() * scale).round().clamp(low, 127).to(torch.int8)

    def add_rescaled(self, x: Stream, y: Sums, scale: Scale) -> Stream:
        """x + y times the scale of each channel, clamped to +-STREAM_LIMIT; x may be overwritten."""
        return (x + (y.float() * scale).round().int()).clamp(-STREAM_LIMIT, STREAM_LIMIT)

    def rescale_squared(self, x: Sums, scale: Scale) -> Activations:
        """The square of x times the scale of each channel, clamped to 0..127; 0 where x is negative."""
        return (x.float() * scale).clamp(min=0).square().round().clamp(max=127).to(torch.int8)

    def gate(self, x: Sums, scale: Scale, bias: Bias, logistic: Logistic, out_scale: GateScale) -> Gated:
        """tanh(u) sigmoid(v) rescaled to +-127; u and v are the halves of x times the scale, plus the bias.

        Both come from a table of the logistic function: tanh(u) = 2 logistic(2u) - 1.
        """
        index = ((x.float() * scale).round().int() + bias).clamp(-GATE_RANGE, GATE_RANGE - 1) + GATE_RANGE
        signal, gate = logistic.int()[index.long()].chunk(2, dim=-1)
        return self.rescale((2 * signal - GATE_ONE) * gate, out_scale, -127)

    def halve_power(self, x: Stream) -> Stream:
        """x / sqrt 2; x may be overwritten."""
        return (x.float() * SQRT_HALF).round().int()

    def rotate(self, x: Int16[Tensor, "B D H C"], cos: Angles, sin: Angles, scale: Number, limit: int = 127) -> Heads:
        """Pairs (first half, second half of the channels) turned by the angles of their position, within +-limit."""
        first, second = x.int().chunk(2, dim=-1)
        cos, sin = cos.int()[:, None], sin.int()[:, None]
        turned = torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1)
        return (turned.double() * scale).round().clamp(-limit, limit).to(torch.int8)

    def embed(self, index: Int[Tensor, "N G"], table: Int32[Tensor, "G V C"]) -> Stream:
        """The sum over groups g of row index[:, g] of table[g]."""
        return torch.stack([rows[i] for rows, i in zip(table, index.unbind(1), strict=True)]).sum(0, dtype=torch.int32)

    def head(self, x: Words, group: Groups, weight: HeadWeight, scale: HeadScale, bias: HeadBias) -> HeadOutputs:
        """weight[group] x times the scale of each output, rounded, plus the bias; in float64 for all groups."""
        total = (x.double() @ weight.flatten(0, 1).double().t()).unflatten(1, weight.shape[:2])
        chosen = total[torch.arange(len(x), device=x.device), group]
        return (chosen * scale[group]).round().int() + bias[group]


class TorchOperations(Operations):
    """The reference backend, in plain PyTorch, with a choice of `product` and of the `dtype` of attention."""

    def __init__(self, product: Callable[[Tensor, Tensor], Tensor], dtype: torch.dtype = torch.float32) -> None:
        self._product, self._dtype = product, dtype

    def product(self, x: Bytes, weight: Weight) -> Sums:
        return self._product(x, weight)

    def attend(
        self, query: Queries, key: Heads, value: Heads, exponential: Table, score_scale: ScoreScale, scale: MeanScale
    ) -> Queries:
        """See `Operations`; weights of 12 bits are multiplied in two halves, so that float32 holds the sums."""
        query, key, value = (x.transpose(1, 2).to(self._dtype) for x in (query, key, value))  # (B, H, D, C)
        weights = self._attention_weights(query @ key.mT, exponential, score_scale)
        high, low = ((part.to(self._dtype) @ value).double() for part in (weights >> 6, weights & 63))
        mean = (high * 64 + low) / weights.sum(-1, keepdim=True).double()
        return (mean * scale[:, None]).round().clamp(-127, 127).to(torch.int8).transpose(1, 2)

    def attend_visible(
        self,
        query: NewHeads,
        keys: Keys,
        values: KeptValues,
        places: Places,
        exponential: Table,
        score_scale: ScoreScale,
        scale: MeanScale,
    ) -> NewHeads:
        """See `Operations`; one block of an item's rows after another."""
        out, channels = torch.empty_like(query), query.shape[2]
        for item, start, end, length in places.blocks.tolist():
            number = places.number[start:end]
            hidden = torch.arange(length, device=number.device) > number[:, None]
            key, value = (x.to(self._dtype) for x in (keys[item, ..., :length], values[item, :, :length, :channels]))
            scores = query[start:end].transpose(0, 1).to(self._dtype) @ key  # (H, N, M)
            scores = scores.masked_fill(hidden, -(2.0**24))
            weights = self._attention_weights(scores, exponential, score_scale).masked_fill(hidden, 0)
            high, low = ((part.to(self._dtype) @ value).double() for part in (weights >> 6, weights & 63))
            mean = (high * 64 + low) / weights.sum(-1, keepdim=True).double()
            out[start:end] = (mean * scale[:, None]).round().clamp(-127, 127).to(torch.int8).transpose(0, 1)
        return out

    def _attention_weights(self, scores: Tensor, exponential: Tensor, score_scale: Tensor) -> Int32[Tensor, "*B D E"]:
        distance = (scores.amax(-1, keepdim=True) - scores).float() * score_scale
        return exponential[distance.round().clamp(max=len(exponential) - 1).long()]


class FusedOperations(TorchOperations):
    """The fastest backend on a GPU: Triton kernels for the heaviest operations, `torch.compile` for the others."""

    def __init__(self) -> None:
        super().__init__(int8_product)
        for name in ("norm", "gate", "halve_power", "rotate", "attend"):
            setattr(self, name, torch.compile(getattr(self, name), dynamic=True))

    def activations(self, x: Bytes, weight: Weight, scale: Scale, low: int) -> Activations:
        return self._kernels.rescaled_product(x, weight, scale, low)

    def squared_activations(self, x: Bytes, weight: Weight, scale: Scale) -> Activations:
        return self._kernels.squared_product(x, weight, scale)

    def add_product(self, stream: Stream, x: Bytes, weight: Weight, scale: Scale) -> Stream:
        return self._kernels.added_product(stream, x, weight, scale, STREAM_LIMIT)

    def depthwise(self, x: Pixels, weight: Taps, scale: Scale) -> MixedPixels:
        return self._kernels.depthwise(x, weight, scale)

    def embed(self, index: Int[Tensor, "N G"], table: Int32[Tensor, "G V C"]) -> Stream:
        return self._kernels.embed(index, table)

    @cached_property
    def _kernels(self) -> ModuleType:
        """The Triton kernels, imported on first use: only PyTorch for GPUs includes Triton."""
        from ardm.exact import gpu_kernels

        return gpu_kernels


class CompiledOperations(Operations):
    """The fastest backend on a CPU: products by PyTorch, everything else by Numba."""

    def product(self, x: Bytes, weight: Weight) -> Sums:
        return torch._int_mm(x, weight.t())

    def activations(self, x: Bytes, weight: Weight, scale: Scale, low: int) -> Activations:
        parts = [super(CompiledOperations, self).activations(part, weight, scale, low) for part in _parts(x, weight)]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def squared_activations(self, x: Bytes, weight: Weight, scale: Scale) -> Activations:
        parts = [super(CompiledOperations, self).squared_activations(part, weight, scale) for part in _parts(x, weight)]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def add_product(self, stream: Stream, x: Bytes, weight: Weight, scale: Scale) -> Stream:
        parts = _parts(x, weight)
        if len(parts) == 1:
            return self.add_rescaled(stream, self.product(x, weight), scale)
        for rows, part in zip(stream.split(len(parts[0])), parts, strict=True):
            self.add_rescaled(rows, self.product(part, weight), scale)
        return stream

    def norm(self, x: Stream, gain: Number, limit: int) -> Words:
        return _filled(torch.empty_like(x, dtype=torch.int16), kernels.norm, x, float(gain), np.float32(limit))

    def depthwise(self, x: Pixels, weight: Taps, scale: Scale) -> MixedPixels:
        return _filled(torch.empty_like(x, dtype=torch.int8), kernels.depthwise, x, weight, scale)

    def rescale(self, x: Sums, scale: Scale, low: int) -> Activations:
        return _filled(torch.empty_like(x, dtype=torch.int8), kernels.rescale, x, scale, np.float32(low))

    def add_rescaled(self, x: Stream, y: Sums, scale: Scale) -> Stream:
        kernels.add_rescaled(x.numpy(), y.numpy(), scale.numpy(), np.int32(STREAM_LIMIT))
        return x

    def rescale_squared(self, x: Sums, scale: Scale) -> Activations:
        return _filled(torch.empty_like(x, dtype=torch.int8), kernels.rescale_squared, x, scale)

    def gate(self, x: Sums, scale: Scale, bias: Bias, logistic: Logistic, out_scale: GateScale) -> Gated:
        out = x.new_empty((len(x), len(out_scale)), dtype=torch.int8)
        return _filled(out, kernels.gate, x, scale, bias, logistic, out_scale, np.int32(GATE_ONE))

    def halve_power(self, x: Stream) -> Stream:
        kernels.multiply(x.numpy(), np.float32(SQRT_HALF))
        return x

    def rotate(self, x: Int16[Tensor, "B D H C"], cos: Angles, sin: Angles, scale: Number, limit: int = 127) -> Heads:
        return _filled(torch.empty_like(x, dtype=torch.int8), kernels.rotate, x, cos, sin, float(scale), float(limit))

    def attend(
        self, query: Queries, key: Heads, value: Heads, exponential: Table, score_scale: ScoreScale, scale: MeanScale
    ) -> Queries:
        queries, keys = (x.transpose(1, 2).contiguous().float() for x in (query, key))  # (B, H, D, C)
        scores = queries @ keys.mT
        batch, heads, rows, length = scores.shape
        halves = torch.empty(batch, heads, 2 * rows, length, dtype=torch.int8)
        totals = torch.empty(batch, heads, rows, dtype=torch.float64)
        flat = [x.flatten(0, 1).numpy() for x in (scores, halves, totals)]
        kernels.attention_weights(flat[0], exponential.numpy(), np.float32(score_scale), *flat[1:])
        values, out = value.permute(0, 2, 3, 1).contiguous(), torch.empty_like(query)
        for b, h in np.ndindex(batch, heads):
            # The weights, below 64, come second: see `layers.WEIGHT`.
            sums = torch._int_mm(values[b, h], halves[b, h].t()).numpy()
            kernels.attention_means(sums, totals[b, h].numpy(), scale[h].numpy(), out[b, :, h].numpy())
        return out

    def remember(self, keys: Keys, values: KeptValues, places: Places, key: NewHeads, value: NewHeads) -> None:
        arrays = (x.numpy() for x in (places.number, key, value, keys, values))
        kernels.remember(places.blocks, *arrays)

    def depthwise_before(self, seen: Seen, places: Places, weight: Taps, scale: Scale) -> Activations:
        out = seen.new_empty((len(places.item), seen.shape[-1]), dtype=torch.int8)
        return _filled(out, kernels.depthwise_before, seen, places.item, places.taps, weight[0], scale)

    def attend_visible(
        self,
        query: NewHeads,
        keys: Keys,
        values: KeptValues,
        places: Places,
        exponential: Table,
        score_scale: ScoreScale,
        scale: MeanScale,
    ) -> NewHeads:
        out, constants = torch.empty_like(query), (exponential.numpy(), np.float32(score_scale), scale.numpy())
        arrays = query.numpy(), keys.numpy(), values.numpy(), places.blocks, places.number.numpy()
        kernels.attend_visible(*arrays, *constants, out.numpy())
        return out

    def embed(self, index: Int[Tensor, "N G"], table: Int32[Tensor, "G V C"]) -> Stream:
        return _filled(table.new_empty((len(index), table.shape[-1])), kernels.embed, index, table)

    def head(self, x: Words, group: Groups, weight: HeadWeight, scale: HeadScale, bias: HeadBias) -> HeadOutputs:
        out = x.new_empty((len(x), weight.shape[1]), dtype=torch.int32)
        return _filled(out, kernels.head, x, group, weight, scale, bias)


def _filled(out: Tensor, kernel: Callable[..., None], *arguments: object) -> Tensor:
    """The tensor `out`, filled by a kernel that takes it last."""
    kernel(*(x.numpy() if isinstance(x, Tensor) else x for x in (*arguments, out)))
    return out


def _parts(x: Bytes, weight: Weight) -> tuple[Tensor, ...]:
    """The rows in parts whose sums stay in a CPU's caches."""
    size = max(1, MAX_SUMS // len(weight))
    return (x,) if len(x) <= size else x.split(size)


def int8_product(x: Bytes, weight: Weight) -> Sums:
    """x weight^T by PyTorch's product of bytes, padded on CUDA to sizes that it supports."""
    if not x.is_cuda:
        return torch._int_mm(x, weight.t())
    rows, columns = x.shape[0], weight.shape[0]
    inner, more_rows, more_columns = -x.shape[1] % 8, max(17 - rows, 0), -columns % 8
    if inner or more_rows or more_columns:
        x, weight = F.pad(x, (0, inner, 0, more_rows)), F.pad(weight, (0, inner, 0, more_columns))
    return torch._int_mm(x, weight.t())[:rows, :columns]


def chosen_rows(x: Shaped[Tensor, "B D *C"], where: Int[Tensor, "B N"]) -> Shaped[Tensor, "B N *C"]:
    """The rows of each item at its indices `where`."""
    return x[torch.arange(len(x), device=x.device)[:, None], where]


def float_product(dtype: torch.dtype) -> Callable[[Tensor, Tensor], Tensor]:
    """A function for x weight^T in floating point: exact while sums stay below 2^24 (float32) or 2^53 (float64)."""
    return lambda x, weight: (x.to(dtype) @ weight.to(dtype).t()).int()


def available_operations(device: torch.device) -> dict[str, Operations]:
    """The backends for a device by name, fastest first."""
    plain: dict[str, Operations] = {
        "int8": TorchOperations(int8_product),
        "float32": TorchOperations(float_product(torch.float32)),
        "float64": TorchOperations(float_product(torch.float64), torch.float64),
    }
    return {"compiled": CompiledOperations() if device.type == "cpu" else FusedOperations(), **plain}
