"""Speed of an exact coding model on a CPU: texts known as a whole, and texts restored call by call.

    python runs/coding_speed.py MODEL TEXT --length 250 --calls 50 --items 1 8 64 --threads 1

Prints characters per second of wall-clock and of processor time, and the share of each operation. The outputs of calls
are checked against those of one pass. TEXT is a file of bytes or of the model's characters, read from --offset.
"""

import argparse
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ardm.checkpoint import TrainedCoding, load_any
from ardm.exact.coding_network import ExactCodingNetwork, in_calls
from ardm.exact.operations import Operations
from ardm.strands import characters_before, uniform_layout

OPERATIONS = (
    "activations",
    "squared_activations",
    "add_product",
    "norm",
    "rotate",
    "remember",
    "attend_visible",
    "depthwise_before",
    "embed",
    "head",
)


def main(options: argparse.Namespace) -> None:
    """Measure and print."""
    torch.set_num_threads(options.threads)
    trained = load_any(options.model)
    assert isinstance(trained, TrainedCoding)
    assert trained.exact is not None
    assert trained.alphabet is not None
    network, num_items = trained.exact.network, max(options.items)
    content = options.text.read_bytes()[options.offset : options.offset + num_items * options.length]
    x = torch.tensor(trained.alphabet.encode(content, str(options.text))).long().view(num_items, options.length)
    ops = network.operations(x.device)
    seconds = watched(ops)
    for count in options.items:
        texts = x[:count]
        known = measured("one pass", lambda texts=texts: one_pass(network, texts, options.calls), texts, seconds)
        name = f"{options.calls} calls"
        found = measured(name, lambda texts=texts: in_calls(network.core, texts, options.calls, ops), texts, seconds)
        if not torch.equal(known, found):
            raise SystemExit("the integers of the calls differ from those of one pass")


def one_pass(network: ExactCodingNetwork, x: Tensor, calls: int) -> Tensor:
    """The outputs of all characters at once."""
    layout = uniform_layout(*x.shape, x.shape[1], min(calls, x.shape[1]), x.device)
    return network.integers(characters_before(x, layout.num_before, network.core.start), layout)


def measured(name: str, function: Callable[[], Tensor], x: Tensor, seconds: "Counter[str]") -> Tensor:
    """The function's second result, after printing its speed."""
    function()
    seconds.clear()
    start, start_busy = time.perf_counter(), time.process_time()
    result = function()
    wall, busy = time.perf_counter() - start, time.process_time() - start_busy
    shares = ", ".join(f"{key} {100 * value / wall:.0f}%" for key, value in seconds.most_common(6))
    rates = f"{x.numel() / wall:.0f} characters/s ({x.numel() / busy:.0f} per second of processor time)"
    print(f"{len(x)} x {x.shape[1]}, {name}: {rates}; {shares}", flush=True)
    return result


def watched(ops: Operations) -> "Counter[str]":
    """Seconds spent in each operation from now on."""
    seconds: Counter[str] = Counter()

    def wrap(name: str) -> None:
        function = getattr(ops, name)

        def timed(*arguments: Any) -> Any:
            start = time.perf_counter()
            result = function(*arguments)
            seconds[name] += time.perf_counter() - start
            return result

        setattr(ops, name, timed)

    for name in OPERATIONS:
        wrap(name)
    return seconds


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--offset", type=int, default=0)
    for name, value in (("length", 250), ("calls", 50), ("threads", 1)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--items", type=int, nargs="+", default=[1, 8, 64])
    main(parser.parse_args())
