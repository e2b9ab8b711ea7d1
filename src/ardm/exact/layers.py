"""Layers of exact networks: integers, scales, and the proof that their sums stay in bounds.

Notation: a real value r is held as an integer q with r = q / units. Units of activations are for each channel, those of
the residual stream are one power of two.
"""

import torch
from jaxtyping import Float, Float32, Float64, Int, Int8, Int16, Int32, Shaped
from torch import Tensor, nn

from ardm.errors import ExactError
from ardm.exact.operations import STREAM_LIMIT, Operations

BYTE = 127
WEIGHT = 63
"""Largest weight of a product: without VNNI, x86's products of bytes add pairs in 16 bits and saturate beyond."""
NORM = 2047
"""Largest value of the norm before a depthwise convolution."""
WORD = 32767
"""Largest value and weight of the head, where means of 16-bit sound need them."""
FLOAT32_SUM = 2**24
FLOAT64_SUM = 2**53


class ExactLayer(nn.Module):
    """A layer whose buffers are integers and scales."""

    def check_bounds(self, name: str) -> None:
        """An error that names the layer if a sum could leave its bounds."""


class ExactNorm(ExactLayer):
    """x over its root mean square, in `units`, clamped to +-limit."""

    gain: Float64[Tensor, ""]

    def __init__(self, width: int, *, limit: int, units: float = 1.0) -> None:
        super().__init__()
        self.width, self.limit = width, limit
        self.register_buffer("gain", torch.tensor(units * width**0.5, dtype=torch.float64))

    def forward(self, x: Int32[Tensor, "*N C"], ops: Operations) -> Int16[Tensor, "*N C"]:
        """The normalised rows."""
        return ops.norm(x.reshape(-1, self.width), self.gain, self.limit).view(x.shape)

    def check_bounds(self, name: str) -> None:
        """The sum of squares must fit int64."""
        require(self.width * STREAM_LIMIT**2 < 2**63, name, "its sum of squares may pass 2^63")
        require(0 < float(self.gain) < 2**30, name, f"its gain {float(self.gain)} is out of range")


class ExactProduct(ExactLayer):
    """Sums of bytes times weights, and the scale that takes each to the units of its output."""

    weight: Int8[Tensor, "C K"]
    scale: Float32[Tensor, "C"]

    def __init__(self, num_inputs: int, num_outputs: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros(num_outputs, num_inputs, dtype=torch.int8))
        self.register_buffer("scale", torch.zeros(num_outputs))

    def activations(self, x: Int8[Tensor, "N K"], ops: Operations, *, low: int = -BYTE) -> Int8[Tensor, "N C"]:
        """The products as bytes, clamped to low..127."""
        return ops.activations(x, self.weight, self.scale, low)

    def squared_activations(self, x: Int8[Tensor, "N K"], ops: Operations) -> Int8[Tensor, "N C"]:
        """The squares of the products that are positive, as bytes."""
        return ops.squared_activations(x, self.weight, self.scale)

    def add_to(self, stream: Int32[Tensor, "N C"], x: Int8[Tensor, "N K"], ops: Operations) -> Int32[Tensor, "N C"]:
        """The residual stream with the products added; the stream may be overwritten."""
        return ops.add_product(stream, x, self.weight, self.scale)

    def check_bounds(self, name: str) -> None:
        """Sums must stay below 2^24 (float32 holds them), and in the units of the output below 2^30."""
        largest = BYTE * self.weight.int().abs().sum(1)
        require(int(largest.max()) < FLOAT32_SUM, name, f"a sum may reach {int(largest.max())}, beyond 2^24")
        require(int(self.weight.int().abs().max()) <= WEIGHT, name, f"a weight passes +-{WEIGHT}")
        require_scales(self.scale, largest, name)

    def set_float(self, weight: Float[Tensor, "C K"], input_units: Tensor, output_units: Tensor) -> None:
        """Round the weights of a float layer, for inputs and outputs in these units."""
        rounded, steps = rounded_rows(weight.double() / input_units, WEIGHT)
        self.weight.copy_(rounded)
        self.scale.copy_(steps * output_units)


class ExactDepthwise(ExactLayer):
    """A depthwise convolution from a norm to bytes."""

    weight: Int8[Tensor, "P Q C"]
    scale: Float32[Tensor, "C"]

    def __init__(self, width: int, kernel: tuple[int, int]) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros(*kernel, width, dtype=torch.int8))
        self.register_buffer("scale", torch.zeros(width))

    def forward(self, x: Int16[Tensor, "B H W C"], ops: Operations) -> Int8[Tensor, "B H W C"]:
        """The convolution as bytes."""
        return ops.depthwise(x, self.weight, self.scale)

    def check_bounds(self, name: str) -> None:
        """Sums must stay below 2^24."""
        largest = NORM * self.weight.int().abs().sum((0, 1))
        require(int(largest.max()) < FLOAT32_SUM, name, f"a sum may reach {int(largest.max())}, beyond 2^24")
        require_scales(self.scale, largest, name)

    def set_float(self, weight: Float[Tensor, "C P Q"], input_units: float, output_units: Tensor) -> None:
        """Round the kernels of a float layer, for inputs and outputs in these units."""
        rounded, steps = rounded_rows(weight.double().flatten(1) / input_units, BYTE)
        self.weight.copy_(rounded.view(weight.shape).permute(1, 2, 0))
        self.scale.copy_(steps * output_units)


class ExactHead(ExactLayer):
    """The network's outputs for each of G groups of variables, in the units of `outputs`."""

    weight: Int16[Tensor, "G O C"]
    scale: Float64[Tensor, "G O"]
    bias: Int32[Tensor, "G O"]

    def __init__(self, width: int, num_groups: int, num_outputs: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros(num_groups, num_outputs, width, dtype=torch.int16))
        self.register_buffer("scale", torch.zeros(num_groups, num_outputs, dtype=torch.float64))
        self.register_buffer("bias", torch.zeros(num_groups, num_outputs, dtype=torch.int32))

    def forward(self, x: Int16[Tensor, "N C"], group: Tensor, ops: Operations) -> Int32[Tensor, "N O"]:
        """The outputs of each row for its group."""
        return ops.head(x, group, self.weight, self.scale, self.bias)

    def check_bounds(self, name: str) -> None:
        """Sums must stay below 2^53 (float64 holds them), and outputs below 2^30."""
        largest = WORD * self.weight.long().abs().sum(-1)
        require(int(largest.max()) < FLOAT64_SUM, name, f"a sum may reach {int(largest.max())}, beyond 2^53")
        require(int(self.bias.abs().max()) < 2**29, name, "a bias passes 2^29")
        require_scales(self.scale, largest, name, most=2**29)

    def set_float(
        self,
        weight: Float[Tensor, "G O C"],
        bias: Float[Tensor, "G O"],
        input_units: float,
        units: Float64[Tensor, "O"],
        offset: Float64[Tensor, "O"],
    ) -> None:
        """Round the weights of a float layer, for inputs in these units, and outputs in theirs with an offset."""
        rounded, steps = rounded_rows(weight.double().flatten(0, 1) / input_units, WORD)
        self.weight.copy_(rounded.view(weight.shape))
        self.scale.copy_(steps.view(bias.shape) * units)
        self.bias.copy_((bias.double() * units + offset).round())


def rounded_rows(weight: Float64[Tensor, "C K"], limit: int) -> tuple[Float64[Tensor, "C K"], Float64[Tensor, "C"]]:
    """Each row as integers up to the limit, with the value of one step."""
    steps = weight.abs().amax(1).clamp(min=1e-30) / limit
    return (weight / steps[:, None]).round(), steps


def chosen_rows(x: Shaped[Tensor, "B D *C"], where: Int[Tensor, "B N"]) -> Shaped[Tensor, "B N *C"]:
    """Of each item the rows of these numbers."""
    return x[torch.arange(len(x), device=x.device)[:, None], where]


def check_bounds(network: nn.Module) -> None:
    """Raise an error that names the layer if any sum of an exact network could leave its bounds."""
    for name, module in network.named_modules():
        if isinstance(module, ExactLayer):
            module.check_bounds(name)


def require_scales(scale: Tensor, largest: Tensor, name: str, most: int = 2**30) -> None:
    """An error unless scales are finite numbers from 0 that keep sums up to `largest` below `most`."""
    results = scale.double() * largest
    fine = bool(scale.isfinite().all()) and float(scale.min()) >= 0 and float(results.max()) < most
    require(fine, name, f"a scale is out of range ({float(scale.min())} to {float(scale.max())})")


def require(condition: bool, name: str, reason: str) -> None:
    """An error that names the layer unless the condition holds."""
    if not condition:
        raise ExactError(f"layer {name} cannot be computed exactly: {reason}")
