"""Layers of exact networks: integers, scales, and proofs that their sums stay in bounds.

Notation: an integer q stands for the real value r = q / units. Activations have units per channel; the residual stream
has a single power of two.
"""

import torch
from jaxtyping import Float, Float32, Float64, Int8, Int16, Int32
from torch import Tensor, nn

from ardm.errors import ExactError
from ardm.exact.operations import STREAM_LIMIT, Operations
from ardm.exact.outputs import OutputUnits

BYTE = 127
WEIGHT = 63
"""Largest weight of a product: without VNNI, x86 adds pairs of byte products in 16 bits, which larger ones saturate."""
NORM = 2047
"""Largest value of the norm before a depthwise convolution."""
WORD = 32767
"""Largest value and weight of the head; means of 16-bit sound need this precision."""


class ExactLayer(nn.Module):
    """A layer whose buffers are integers and scales."""

    def check_bounds(self, name: str) -> None:
        """Raise an error that names the layer if a sum could leave its bounds."""


class ExactNorm(ExactLayer):
    """x divided by its root mean square, in `units`, clamped to +-limit."""

    gain: Float64[Tensor, ""]

    def __init__(self, width: int, *, limit: int, units: float = 1.0) -> None:
        super().__init__()
        self.width, self.limit = width, limit
        self.register_buffer("gain", torch.tensor(units * width**0.5, dtype=torch.float64))

    def forward(self, x: Int32[Tensor, "*N C"], ops: Operations) -> Int16[Tensor, "*N C"]:
        """The normalised rows."""
        return ops.norm(x.reshape(-1, self.width), self.gain, self.limit).view(x.shape)

    def check_bounds(self, name: str) -> None:
        """Check that the sum of squares fits int64."""
        require(self.width * STREAM_LIMIT**2 < 2**63, name, "its sum of squares may exceed 2^63")
        require(0 < float(self.gain) < 2**30, name, f"its gain {float(self.gain)} is out of range")


class ExactProduct(ExactLayer):
    """A linear layer: sums of bytes times weights, each with a scale to the units of its output."""

    weight: Int8[Tensor, "C K"]
    scale: Float32[Tensor, "C"]

    def __init__(self, num_inputs: int, num_outputs: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros(num_outputs, num_inputs, dtype=torch.int8))
        self.register_buffer("scale", torch.zeros(num_outputs))

    def new_stream(self, x: Int8[Tensor, "N K"], ops: Operations) -> Int32[Tensor, "N C"]:
        """The outputs as a new residual stream."""
        return self.add_to(x.new_zeros(len(x), len(self.weight), dtype=torch.int32), x, ops)

    def add_to(self, stream: Int32[Tensor, "N C"], x: Int8[Tensor, "N K"], ops: Operations) -> Int32[Tensor, "N C"]:
        """The residual stream plus the outputs; the stream may be overwritten."""
        return ops.add_product(stream, x, self.weight, self.scale)

    def check_bounds(self, name: str) -> None:
        """Check that sums stay below 2^24 (float32 holds them), and below 2^30 in the units of the output."""
        largest = BYTE * self.weight.int().abs().sum(1)
        require_sums(largest, 24, self.scale, name)
        require(int(self.weight.int().abs().max()) <= WEIGHT, name, f"a weight exceeds +-{WEIGHT}")

    def set_float(self, weight: Float[Tensor, "C K"], input_units: Tensor, output_units: Tensor) -> None:
        """Set the weights by rounding those of a float layer, for these units of inputs and outputs."""
        rounded, steps = rounded_rows(weight.double() / input_units, WEIGHT)
        self.weight.copy_(rounded)
        self.scale.copy_(steps * output_units)


class ExactDepthwise(ExactLayer):
    """A depthwise convolution of a norm's output."""

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
        """Check that sums stay below 2^24."""
        largest = NORM * self.weight.int().abs().sum((0, 1))
        require_sums(largest, 24, self.scale, name)

    def set_float(self, weight: Float[Tensor, "C P Q"], input_units: float, output_units: Tensor) -> None:
        """Set the kernels by rounding those of a float layer, for these units of inputs and outputs."""
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
        """Check that sums stay below 2^53 (float64 holds them), and outputs below 2^30."""
        largest = WORD * self.weight.long().abs().sum(-1)
        require_sums(largest, 53, self.scale, name, limit=2**29)
        require(int(self.bias.abs().max()) < 2**29, name, "a bias exceeds 2^29")

    def set_float(
        self, weight: Float[Tensor, "G O C"], bias: Float[Tensor, "G O"], input_units: float, outputs: OutputUnits
    ) -> None:
        """Set the weights by rounding those of a float layer, for these units of inputs and outputs."""
        rounded, steps = rounded_rows(weight.double().flatten(0, 1) / input_units, WORD)
        self.weight.copy_(rounded.view(weight.shape))
        self.scale.copy_(steps.view(bias.shape) * outputs.factor)
        self.bias.copy_(outputs.to_integers(bias))


def rounded_rows(weight: Float64[Tensor, "C K"], limit: int) -> tuple[Float64[Tensor, "C K"], Float64[Tensor, "C"]]:
    """Each row rounded to integers within +-limit, and the real value of one integer step for each."""
    steps = weight.abs().amax(1).clamp(min=1e-30) / limit
    return (weight / steps[:, None]).round(), steps


def check_bounds(network: nn.Module) -> None:
    """Raise an error that names the layer if any sum of an exact network could leave its bounds."""
    for name, module in network.named_modules():
        if isinstance(module, ExactLayer):
            module.check_bounds(name)


def require_sums(largest: Tensor, bits: int, scale: Tensor, name: str, limit: int = 2**30) -> None:
    """Raise an error unless sums stay below 2^bits, and non-negative, finite scales keep them below `limit`."""
    require(int(largest.max()) < 2**bits, name, f"a sum may reach {int(largest.max())}, beyond 2^{bits}")
    results = scale.double() * largest
    is_fine = bool(scale.isfinite().all()) and float(scale.min()) >= 0 and float(results.max()) < limit
    require(is_fine, name, f"a scale is out of range ({float(scale.min())} to {float(scale.max())})")


def require(condition: bool, name: str, reason: str) -> None:
    """Raise an error that names the layer unless the condition holds."""
    if not condition:
        raise ExactError(f"layer {name} cannot be computed exactly: {reason}")
