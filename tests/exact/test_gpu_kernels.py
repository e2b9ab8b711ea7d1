"""The GPU kernels of exact networks against plain PyTorch: on a GPU, or on the CPU by Triton's interpreter."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("triton")

from ardm.exact import gpu_kernels
from ardm.exact.operations import STREAM_LIMIT, TorchOperations, float_product

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
REFERENCE = TorchOperations(float_product(torch.float64), torch.float64)


def integers(limit: int, shape: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Random integers, a fifth of them at the limit."""
    x = torch.randint(-limit, limit + 1, shape, generator=generator)
    return torch.where(torch.rand(shape, generator=generator) < 0.2, x.sign() * limit, x).to(dtype)


def check(ours: torch.Tensor, reference: torch.Tensor) -> None:
    torch.testing.assert_close(ours.cpu(), reference, rtol=0, atol=0)


@pytest.mark.parametrize(("rows", "inner", "columns"), [(1, 8, 32), (5, 12, 7), (130, 192, 64), (200, 100, 130)])
@pytest.mark.parametrize("scale", [2e-4, 2e-2, "halves"])
def test_products(rows, inner, columns, scale, generator):
    """Halves make every second result a tie."""
    x, weight = (
        integers(127, (rows, inner), torch.int8, generator),
        integers(63, (columns, inner), torch.int8, generator),
    )
    scales = torch.full((columns,), 0.5) if scale == "halves" else torch.rand(columns, generator=generator) * scale
    x = x // 64 if scale == "halves" else x
    sums, arguments = REFERENCE.product(x, weight), [t.to(DEVICE) for t in (x, weight, scales)]
    for low in (0, -127):
        check(gpu_kernels.rescaled_product(*arguments, low), REFERENCE.rescale(sums, scales, low))
    check(gpu_kernels.squared_product(*arguments), REFERENCE.rescale_squared(sums, scales))
    stream = integers(STREAM_LIMIT, (rows, columns), torch.int32, generator)
    added = gpu_kernels.added_product(stream.to(DEVICE), *arguments, STREAM_LIMIT)
    check(added, REFERENCE.add_rescaled(stream, sums, scales))


def test_sums_beyond_the_stream(generator):
    """The largest products within bounds, scaled to 2^30."""
    x, weight = integers(127, (40, 2000), torch.int8, generator), integers(63, (40, 2000), torch.int8, generator)
    x[0], weight[0] = 127, 63
    scales = torch.full((40,), 2**30 / (127 * 63 * 2000 + 1.0))
    stream = integers(STREAM_LIMIT, (40, 40), torch.int32, generator)
    added = gpu_kernels.added_product(*(t.to(DEVICE) for t in (stream, x, weight, scales)), STREAM_LIMIT)
    check(added, REFERENCE.add_rescaled(stream, REFERENCE.product(x, weight), scales))


@pytest.mark.parametrize("shape", [(2, 5, 7, 12), (3, 1, 40, 70), (1, 8, 8, 64)])
@pytest.mark.parametrize("kernel", [(1, 1), (3, 3), (1, 9), (5, 5)])
def test_depthwise(shape, kernel, generator):
    x, weight = integers(2047, shape, torch.int16, generator), integers(127, (*kernel, shape[3]), torch.int8, generator)
    scale = torch.rand(shape[3], generator=generator) * 1e-3
    ours = gpu_kernels.depthwise(*(t.to(DEVICE) for t in (x, weight, scale)))
    check(ours, REFERENCE.depthwise(x, weight, scale))


def test_embed(generator):
    index = torch.randint(10, (50, 3), generator=generator)
    table = integers(10**6, (3, 10, 70), torch.int32, generator)
    check(gpu_kernels.embed(index.to(DEVICE), table.to(DEVICE)), REFERENCE.embed(index, table))


@pytest.mark.parametrize("capability", [80, 90])
def test_kernels_compile_for_gpus(capability, tmp_path):
    """Also without a GPU, because the compiler may reject code that the interpreter accepts."""
    command = [sys.executable, str(Path(__file__).parents[1] / "helpers" / "compile_kernels.py"), str(capability)]
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    result = subprocess.run(
        command, env=environment | {"TRITON_CACHE_DIR": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("bytes for") == 15
