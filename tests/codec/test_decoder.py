"""Streams read together against the `constriction` decoder, one stream at a time: the same symbols, or damage."""

import constriction
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_encoder import decoded, encoded, random_group

from ardm.codec.decoder import Streams
from ardm.codec.encoder import NUM_LAST, coarse_weights, pop_last
from ardm.codec.frequencies import TOTAL_WEIGHT

try:
    from ardm.codec.gpu_streams import GpuStreams
except ImportError:  # Triton is for Linux
    GpuStreams = None

NEEDS_TRITON = pytest.mark.skipif(GpuStreams is None, reason="needs Triton")
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
FAMILY = constriction.stream.model.Categorical(perfect=False)


class LibraryDecoder:
    """Reads one payload that is neither empty nor ends in a zero byte; None stands for damage."""

    def __init__(self, payload, num_symbols):
        words = np.frombuffer(payload + bytes(-len(payload) % 4), "<u4").astype(np.uint32)
        self.coder = constriction.stream.stack.AnsCoder(words)
        self.num_others = max(0, num_symbols - NUM_LAST)
        self.number = None

    def read(self, weights):
        cut = min(len(weights), self.num_others)
        self.num_others -= cut
        symbols = np.zeros(len(weights), np.int64)
        reachable = (weights[:cut] > 0).sum(1)
        for number in range(2, weights.shape[1] + 1):
            for row in np.flatnonzero(reachable == number):
                symbols[row] = self.coder.decode(FAMILY, weights[row : row + 1, :number] - 1.0)[0]
        if self.coder.is_empty():
            return None
        if cut < len(weights):
            self.number, symbols[cut:] = pop_last(self.last_number(), coarse_weights(weights[cut:]))
        return symbols.tolist()

    def last_number(self):
        if self.number is None:
            self.number = int.from_bytes(self.coder.get_compressed().astype("<u4").tobytes(), "little")
        return self.number

    def check(self):
        check = self.last_number() - 1
        return check if 0 <= check < 2**16 else None


def expected(payload, groups):
    """The symbols of each group and the check; None at the first damage, and nothing after it."""
    if not payload or payload[-1] == 0:
        return [None]
    decoder, found = LibraryDecoder(payload, sum(len(weights) for _, weights in groups)), []
    for _, weights in groups:
        found.append(decoder.read(weights))
        if found[-1] is None:
            return found
    return [*found, decoder.check()]


def read_in_step(payloads, groups_of, num_together, device=None):
    """The results of `expected` for each stream, from turns of up to `num_together` groups of each stream.

    On a device, by the decoder for GPUs.
    """
    num_symbols = [sum(len(weights) for _, weights in groups) for groups in groups_of]
    streams = Streams(payloads, num_symbols) if device is None else GpuStreams(payloads, num_symbols, device)
    found = [[None] if stream in streams.damaged else [] for stream in range(len(payloads))]
    for begin in range(0, max(map(len, groups_of), default=0), num_together):
        turn = [
            (stream, weights)
            for stream, groups in enumerate(groups_of)
            for _, weights in groups[begin : begin + num_together]
        ]
        ends = np.cumsum([len(weights) for _, weights in turn])
        numbers = np.array([stream for stream, _ in turn])
        bounds = np.stack([np.append(0, ends[:-1]), ends], axis=1)
        rows = torch.from_numpy(np.concatenate([weights for _, weights in turn])).to(device)
        symbols = streams.read(rows, bounds, numbers).cpu()
        for stream, (first, end) in zip(numbers, bounds, strict=True):
            found[stream].append(symbols[first:end].tolist())
    return [[*found[stream], streams.check(stream)] for stream in range(len(payloads))], streams.damaged


def assert_same(payloads, groups_of, num_together=1):
    found, damaged = read_in_step(payloads, groups_of, num_together)
    for stream, (payload, groups) in enumerate(zip(payloads, groups_of, strict=True)):
        wanted = expected(payload, groups)
        assert (stream in damaged) == (wanted[-1] is None)
        num_intact = len(wanted) - (stream in damaged)
        assert found[stream][:num_intact] == wanted[:num_intact]


def random_groups(rng, sizes, counts, width):
    return [random_group(rng, size, counts, width) for size in sizes]


@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.lists(st.integers(1, 60), max_size=5), min_size=1, max_size=6),
    st.sampled_from([[1], [2], [1, 2], [4], [1, 2, 3, 4], [16], [3, 27], [5, 17, 256]]),
    st.integers(1, 3),
)
@settings(max_examples=60)
def test_many_streams_come_back_in_step(seed, sizes, counts, num_together):
    rng = np.random.default_rng(seed)
    width = max(counts) + int(rng.integers(2))
    groups_of = [random_groups(rng, own, counts, width) for own in sizes]
    checks = rng.integers(0, 2**16, len(sizes)).tolist()
    payloads = [encoded(groups, check) for groups, check in zip(groups_of, checks, strict=True)]
    found, damaged = read_in_step(payloads, groups_of, num_together)
    assert damaged == {}
    assert [own[-1] for own in found] == checks
    assert [own[:-1] for own in found] == [[symbols.tolist() for symbols, _ in groups] for groups in groups_of]
    assert_same(payloads, groups_of, num_together)


@pytest.mark.parametrize("counts", [[4], [1, 2, 3, 4]])
def test_the_last_symbols_may_begin_anywhere(counts):
    rng = np.random.default_rng(0)
    sizes = [(first, second) for first in range(1, 2 * NUM_LAST + 2) for second in (1, 7, NUM_LAST, 20)]
    groups_of = [random_groups(rng, own, counts, 4) for own in sizes]
    payloads = [encoded(groups, 0) for groups in groups_of]
    assert_same(payloads, groups_of)
    assert not read_in_step(payloads, groups_of, 2)[1]


def mutant(rng, payload):
    match rng.integers(4):
        case 0:
            place = rng.integers(len(payload))
            return payload[:place] + bytes([payload[place] ^ (1 << rng.integers(8))]) + payload[place + 1 :]
        case 1:
            return payload[: rng.integers(len(payload))]
        case 2:
            return payload + rng.bytes(rng.integers(1, 9))
        case _:
            return rng.bytes(rng.integers(0, 60))


@given(st.integers(0, 2**32 - 1), st.sampled_from([[2], [1, 2, 3], [27], [1, 5, 27]]), st.integers(1, 3))
@settings(max_examples=60)
def test_damage_is_found_where_the_library_finds_it_and_spares_other_streams(seed, counts, num_together):
    rng = np.random.default_rng(seed)
    groups_of = [random_groups(rng, [20, 1, 30], counts, 27) for _ in range(20)]
    payloads = [encoded(groups) for groups in groups_of]
    payloads[::2] = [mutant(rng, payload) for payload in payloads[::2]]
    assert_same(payloads, groups_of, num_together)


@given(st.binary(max_size=200), st.integers(0, 2**32 - 1))
def test_any_bytes_give_reachable_symbols_or_are_damaged(payload, seed):
    groups = random_groups(np.random.default_rng(seed), [20, 20, 20], [1, 2, 5, 27], 27)
    symbols, streams = decoded(payload, groups)
    check = streams.check(0)
    assert_same([payload], [groups])
    if check is not None:  # a payload that decodes is the payload of what it decodes to
        again = [(np.array(part), weights) for part, (_, weights) in zip(symbols, groups, strict=True)]
        assert encoded(again, check) == payload


def test_truncated_and_extended_payloads_are_found():
    groups = random_groups(np.random.default_rng(3), [50] * 4, [27], 27)
    payload = encoded(groups, 0xBEEF)
    others = [payload[:n] for n in range(len(payload))] + [payload + bytes([n]) for n in range(256)]
    checks = [decoded(other, groups)[1].check(0) for other in others]
    assert 0xBEEF not in checks
    assert checks.count(None) > 0.9 * len(checks)


def test_errors_of_damaged_streams():
    groups = random_groups(np.random.default_rng(4), [30], [27], 27)
    unlikely = [(np.zeros(40, int), np.array([[1, TOTAL_WEIGHT - 1]] * 40, np.int32))]
    cases = [(payload, groups, "the payload is empty or ends in a zero byte") for payload in (b"", b"\0", b"abc\0")]
    cases += [
        (b"\xff" * 100, groups, "does not end where its symbols do"),
        (b"\1", unlikely, "ends before its symbols"),
    ]
    for payload, groups, message in cases:
        _, streams = decoded(payload, groups)
        assert streams.check(0) is None
        assert message in streams.damaged[0]


@NEEDS_TRITON
@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.lists(st.integers(1, 60), max_size=4), min_size=1, max_size=40),
    st.sampled_from([1, 2, 4, 5, 16, 27, 256]),
    st.integers(1, 3),
)
@settings(max_examples=20)
def test_a_gpu_reads_what_a_cpu_reads(seed, sizes, width, num_together):
    """Also of damaged streams, whose damage is found at their end."""
    rng = np.random.default_rng(seed)
    groups_of = [random_groups(rng, own, [width], width) for own in sizes]
    payloads = [encoded(groups, int(rng.integers(2**16))) for groups in groups_of]
    payloads[::3] = [mutant(rng, payload) for payload in payloads[::3]]
    found, damaged = read_in_step(payloads, groups_of, num_together)
    assert read_in_step(payloads, groups_of, num_together, DEVICE) == (found, damaged)


@NEEDS_TRITON
def test_errors_of_damaged_streams_on_a_gpu():
    unlikely = (np.zeros(40, int), np.array([[1, TOTAL_WEIGHT - 1]] * 40, np.int32))
    payloads, groups_of = [b"", encoded([unlikely], 7), b"\1", b"\xff" * 100], [[unlikely]] * 4
    found, damaged = read_in_step(payloads, groups_of, 1, DEVICE)
    assert (found, damaged) == read_in_step(payloads, groups_of, 1)
    assert found[1] == [[0] * 40, 7]
    messages = {0: "is empty or ends in a zero byte", 2: "ends before its symbols", 3: "does not end where"}
    assert damaged.keys() == messages.keys()
    assert all(message in damaged[stream] for stream, message in messages.items())


def test_invalid_arguments_are_rejected():
    with pytest.raises(ValueError, match="expected 2 payloads, got 1"):
        Streams([b"a"], [1, 1])
