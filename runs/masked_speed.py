"""Scoring through `ardm.wrap` beside a bare loop of the same forward passes: rows per second of both, and the overhead.

    python runs/masked_speed.py                      # a BERT of 6 layers x 384, 200 sequences of 60 to 128 residues
    python runs/masked_speed.py --tokens 30522       # with the vocabulary of a BERT of English

The bare loop calls the network with the very inputs that it gets from the wrapper, and takes the logarithm of the
probability of every token, as any loop that scores has to; "forward only" leaves that out, too. The three take turns;
the fastest round of each counts, and in brackets is the median over rounds of the ratio within a round. On a CPU these
are seconds of the processor; give it one thread (OMP_NUM_THREADS=1) where others use the machine.
"""

import argparse
import random
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from transformers import BertConfig, BertForMaskedLM

import ardm

AMINO_ACIDS = "ACDEFGHIKLMNPQRSTVWY"
SPECIAL = ["[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]"]
Call = tuple[dict[str, Tensor], Tensor]
"""The arguments of a call of the network, and a token for each of its places."""


def protein_model(layers: int, width: int, tokens: int, device: str) -> ardm.Model:
    """A BERT with random weights for the 20 amino acids, its vocabulary filled up to a number of tokens."""
    names = [*SPECIAL, *AMINO_ACIDS]
    names += [f"word{number}" for number in range(tokens - len(names))]
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(names),
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=width // 64,
        intermediate_size=4 * width,
        max_position_embeddings=160,
    )
    return ardm.wrap(BertForMaskedLM(config), ardm.Vocabulary(names, "letters")).to(device).eval()


def random_sequences(number: int, seed: int = 0) -> list[str]:
    """Sequences of 60 to 128 random residues."""
    letters = random.Random(seed)
    return ["".join(letters.choices(AMINO_ACIDS, k=letters.randint(60, 128))) for _ in range(number)]


def calls_of(network: nn.Module, run: Callable[[], object]) -> list[Call]:
    """What the network is called with while something runs."""
    found = list[Call]()

    def keep(module: nn.Module, args: tuple[Tensor, ...], kwargs: dict[str, Tensor]) -> None:
        arguments = dict(zip(["input_ids"], args, strict=False)) | kwargs
        found.append((arguments, arguments["input_ids"]))

    with network.register_forward_pre_hook(keep, with_kwargs=True):
        run()
    return found


@torch.no_grad()
def bare_loop(network: nn.Module, calls: list[Call], *, scores: bool) -> float:
    """The forward passes of these calls and, if it scores, the sum of log p of a token at each place."""
    total = torch.zeros((), dtype=torch.float64)
    for arguments, tokens in calls:
        logits = network(**arguments).logits
        if scores:
            total = total + logits.log_softmax(-1).gather(-1, tokens[..., None]).double().sum().cpu()
    return float(total)


def seconds(run: Callable[[], object], device: str) -> float:
    """How long a run takes: on a CPU the time of the processor, so that a busy machine counts less."""
    clock = time.process_time if device == "cpu" else time.perf_counter
    begin = clock()
    run()
    if device != "cpu":
        torch.cuda.synchronize()
    return clock() - begin


def measure(title: str, network: nn.Module, run: Callable[[], object], rounds: int, device: str) -> None:
    """Print the speeds of a run through the wrapper and of both bare loops."""
    calls = calls_of(network, run)  # which warms up, too
    rows = sum(len(tokens) for _, tokens in calls)
    runs: list[Callable[[], object]] = [
        run,
        lambda: bare_loop(network, calls, scores=True),
        lambda: bare_loop(network, calls, scores=False),
    ]
    times = [[seconds(one, device) for one in runs] for _ in range(rounds)]
    wrapper, scoring, forward = (min(column) for column in zip(*times, strict=True))
    print(f"{title}: {rows} rows in {len(calls)} batches, best of {rounds} rounds")
    print(f"  wrapper          {rows / wrapper:8.1f} rows/s")
    for name, bare, place in (("bare loop", scoring, 1), ("forward only", forward, 2)):
        median = statistics.median(one[0] / one[place] for one in times) - 1
        print(f"  {name:<16} {rows / bare:8.1f} rows/s, overhead {wrapper / bare - 1:+.1%} ({median:+.1%})")


def main() -> None:
    """Measure the bound, the bits of schedules of 10 calls, and pseudo-log-likelihoods."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for flag, usual in (("layers", 6), ("width", 384), ("tokens", 25), ("sequences", 200), ("rounds", 5)):
        parser.add_argument(f"--{flag}", type=int, default=usual)
    parser.add_argument("--device", default="cpu")
    flags = parser.parse_args()
    model = protein_model(flags.layers, flags.width, flags.tokens, flags.device)
    texts = random_sequences(flags.sequences)
    few, fewest = texts[: max(1, len(texts) // 10)], texts[: max(1, len(texts) // 100)]
    threads = f", {torch.get_num_threads()} threads" if flags.device == "cpu" else ""
    print(f"{flags.layers} layers x {flags.width}, {flags.tokens} tokens, {flags.device}{threads}")
    runs: dict[str, Callable[[], object]] = {
        "bound": lambda: model.score(texts, passes=1),
        "10 calls": lambda: model.score(few, calls=10, schedule="uniform"),
        "pseudo-log-likelihood": lambda: model.pseudo_score(fewest),
    }
    for title, run in runs.items():
        measure(title, model.network, run, flags.rounds, flags.device)


if __name__ == "__main__":
    main()
