"""The codec's GPU kernels pass the test that decides on their use, and faulty ones do not."""

import pytest
import torch

pytest.importorskip("triton")

from ardm.codec import gpu, gpu_kernels, gpu_streams
from ardm.codec.decoder import Streams

DEVICE, CUDA = torch.device("cuda" if torch.cuda.is_available() else "cpu"), torch.device("cuda")


@pytest.mark.parametrize("width", [1, 2, 5, 27, 256, 1024])
def test_kernels_pass_their_test(width):
    assert gpu_streams.kernels_pass_test(DEVICE, width)


def wrong_weights(outputs, first, count, width, table):
    """Weights with an error in a short row, or else in the last row."""
    weights = gpu_kernels.softmax_weights(outputs, first, count, width, table)
    rows = (count < width).nonzero() if (count < width).any() else torch.tensor([[len(weights) - 1]])
    weights[rows[0, 0]] = weights[rows[0, 0]].flip(0)
    return weights


def wrong_symbols(*arguments):
    """Symbols with one error."""
    symbols = gpu_kernels.read(*arguments)
    symbols[40] ^= 1
    return symbols


@pytest.mark.parametrize(("name", "wrong"), [("softmax_weights", wrong_weights), ("read", wrong_symbols)])
def test_faulty_kernels_do_not(name, wrong, monkeypatch):
    class Kernels:
        TILE = gpu_kernels.TILE
        softmax_weights, read = staticmethod(gpu_kernels.softmax_weights), staticmethod(gpu_kernels.read)

    monkeypatch.setattr(gpu_streams, "gpu_kernels", Kernels)
    assert gpu_streams.kernels_pass_test(DEVICE, 4)
    monkeypatch.setattr(Kernels, name, staticmethod(wrong))
    assert not gpu_streams.kernels_pass_test(DEVICE, 4)


@pytest.fixture
def calls(monkeypatch):
    """The arguments of calls of the kernels' test, which passes for even widths and raises an error for 13."""
    calls = []

    def test(device, width):
        calls.append((device, width))
        if width == 13:
            raise RuntimeError("no such\nkernel")
        return width % 2 == 0

    gpu._pass_test.cache_clear()
    monkeypatch.setattr(gpu_streams, "kernels_pass_test", test)
    yield calls
    gpu._pass_test.cache_clear()


def test_kernels_are_used_if_they_pass(calls):
    assert gpu.has_kernels(CUDA, 4)
    assert gpu.has_kernels(CUDA, 4)
    assert calls == [(CUDA, 4)]
    with pytest.warns(UserWarning, match="rows of 27 symbols on cuda are not used .their results differ from a CPU.s"):
        assert not gpu.has_kernels(CUDA, 27)
    with pytest.warns(UserWarning, match="rows of 13 symbols on cuda are not used .RuntimeError: no such kernel"):
        assert not gpu.has_kernels(CUDA, 13)


def test_a_cpu_and_wide_rows_have_none(calls):
    assert not gpu.has_kernels(torch.device("cpu"), 4)
    assert not gpu.has_kernels(CUDA, 2 * gpu.MAX_WIDTH)
    assert not calls


def test_the_decoder_for_a_device(monkeypatch):
    assert type(gpu.streams_for([b"a"], [1], torch.device("cpu"), 4)) is Streams
    monkeypatch.setattr(gpu, "has_kernels", lambda device, width: True)
    assert type(gpu.streams_for([b"a"], [1], DEVICE, 4)) is gpu_streams.GpuStreams
    assert type(gpu.streams_for([b"a"], [1], DEVICE, 0)) is Streams
