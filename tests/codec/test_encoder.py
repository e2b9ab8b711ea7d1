"""The entropy coder against its written description in Python's unbounded integers, byte for byte."""

import math

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from ardm.codec import encoder
from ardm.codec.decoder import Streams
from ardm.codec.encoder import CHECK_BITS, NUM_LAST, Encoder
from ardm.codec.frequencies import TOTAL_WEIGHT, softmax_weights


def coarse(row):
    reachable = [weight for weight in row if weight]
    values = [weight * (2**16 - len(reachable)) // 2**24 + 1 for weight in reachable]
    values[reachable.index(max(reachable))] += 2**16 - sum(values)
    return values


def pushed(state, row, symbol, bits):
    weight = row[symbol]
    return (state // weight << bits) + sum(row[:symbol]) + state % weight


def reference_payload(groups, check):
    """The description in the module's docstring, word by word."""
    rows = [(int(s), row.tolist()) for symbols, weights in groups for s, row in zip(symbols, weights, strict=True)]
    number = 1 + check
    for symbol, row in rows[-NUM_LAST:][::-1]:
        number = pushed(number, coarse(row), symbol, 16)
    words = []
    while number >= 2**64:
        words.append(number % 2**32)
        number >>= 32
    for symbol, row in reference_sequence(groups, len(rows) - NUM_LAST)[::-1]:
        if number >= row[symbol] << 40:
            words.append(number % 2**32)
            number >>= 32
        number = pushed(number, row, symbol, 24)
    payload = b"".join(word.to_bytes(4, "little") for word in words) + number.to_bytes(8, "little")
    return payload.rstrip(b"\0")


def reference_sequence(groups, num_others):
    """All but the last symbols: in each group those with few alternatives first."""
    sequence = []
    for symbols, weights in groups:
        part = [(int(s), [w for w in row.tolist() if w]) for s, row in zip(symbols, weights, strict=True)]
        part = part[: max(0, num_others)]
        num_others -= len(part)
        sequence += sorted(part, key=lambda pair: len(pair[1]))
    return sequence


def encoded(groups, check=0xBEEF):
    encoder = Encoder()
    for symbols, weights in groups:
        encoder.write(symbols, weights)
    return encoder.finish(check)


def decoded(payload, groups):
    """The symbols of each group of a payload, and its decoder."""
    streams = Streams([payload], [sum(len(weights) for _, weights in groups)])
    bounds = (np.array([[0, len(weights)]]) for _, weights in groups)
    reads = (streams.read(torch.from_numpy(w), own, np.array([0])) for (_, w), own in zip(groups, bounds, strict=True))
    return [symbols.tolist() for symbols in reads], streams


def check_round_trip(groups, check):
    payload = encoded(groups, check)
    assert payload == reference_payload(groups, check)
    symbols, streams = decoded(payload, groups)
    assert symbols == [own.tolist() for own, _ in groups]
    assert streams.check(0) == check
    assert streams.damaged == {}


def random_group(rng, size, counts, width, spread=300):
    logits = rng.normal(0, spread, (size, width)).astype(np.int32)
    count = rng.choice(counts, size)
    weights = softmax_weights(logits, np.zeros(size, int), count, width)
    quantile = rng.integers(0, TOTAL_WEIGHT, size)
    symbols = (weights.cumsum(1) <= quantile[:, None]).sum(1)
    rare = rng.random(size) < 0.05
    return np.where(rare, rng.integers(0, count), symbols), weights


@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.tuples(st.integers(1, 40), st.sampled_from([1, 2, 3, 4, 16, 27, 256])), max_size=6),
    st.booleans(),
    st.integers(0, 2**CHECK_BITS - 1),
)
@example(0, [], False, 0)
@example(0, [(40, 1), (40, 2)], False, 0)
@example(0, [(16, 256)], False, 2**CHECK_BITS - 1)
@example(0, [(17, 256)], True, 0)
def test_payloads_are_those_of_the_description(seed, shapes, is_ragged, check):
    rng = np.random.default_rng(seed)
    width = max((count for _, count in shapes), default=1)
    groups = [
        random_group(rng, size, np.arange(1, count + 1) if is_ragged else [count], width) for size, count in shapes
    ]
    check_round_trip(groups, check)


@pytest.mark.parametrize("width", [2, 3, 256])
@pytest.mark.parametrize("place", ["first", "last", "likeliest"])
def test_symbols_of_weight_one_and_of_nearly_all_weight(width, place):
    weights = np.ones((50, width), np.int32)
    heavy = np.arange(50) % width
    weights[np.arange(50), heavy] += TOTAL_WEIGHT - width
    symbols = {"first": np.zeros(50, int), "last": np.full(50, width - 1), "likeliest": heavy}[place]
    check_round_trip([(symbols, weights)], 12345)


def test_every_symbol_of_a_row():
    rng = np.random.default_rng(1)
    _, weights = random_group(rng, 1, [256], 256)
    check_round_trip([(np.arange(256), weights.repeat(256, axis=0))], 1)


def test_symbols_without_alternative_cost_nothing():
    certain = np.full((1000, 1), TOTAL_WEIGHT, np.int32)
    assert encoded([(np.zeros(1000, int), certain)], 7) == bytes([8])


def test_payloads_never_change():
    """Files of every release must decode: if this fails, the format has changed."""
    logits = (np.arange(40 * 5, dtype=np.int32).reshape(40, 5) * 7919) % 701
    weights = softmax_weights(logits, np.zeros(40, int), np.arange(40) % 5 + 1, 5)
    symbols = np.arange(40) * 3 % (np.arange(40) % 5 + 1)
    payload = encoded([(symbols[:25], weights[:25]), (symbols[25:], weights[25:])], 0xC0DE)
    assert payload.hex() == "dac4f5684598f3d277d1c31fcddaf866d1ee8a0b"


def extra_bits(width, spread):
    """The bits of 200 payloads of 60 likely symbols above those of their weights."""
    rng = np.random.default_rng(2)
    extra = []
    for _ in range(200):
        _, weights = random_group(rng, 60, [width], width, spread)
        symbols = (weights.cumsum(1) <= rng.integers(0, TOTAL_WEIGHT, 60)[:, None]).sum(1)
        bits = 60 * 24 - np.log2(weights[np.arange(60), symbols]).sum()
        extra.append(8 * len(encoded([(symbols, weights)], int(rng.integers(0, 2**16)))) - bits)
    return np.array(extra)


@pytest.mark.parametrize(("width", "spread"), [(2, 100), (4, 150), (27, 200), (256, 200)])
def test_a_payload_costs_19_bits_above_its_weights_on_average(width, spread):
    """Nearly 15 for the check and 4 for whole bytes."""
    extra = extra_bits(width, spread)
    assert extra.mean() < 19.5
    assert extra.max() < 24.5


def test_the_number_of_the_last_symbols_saves_about_5_bits(monkeypatch):
    with_number = extra_bits(27, 200).mean()
    monkeypatch.setattr(encoder, "NUM_LAST", 0)
    assert 4 < extra_bits(27, 200).mean() - with_number < 6


def test_invalid_arguments_are_rejected():
    with pytest.raises(ValueError, match="the check must lie in 0..65535, got 65536"):
        Encoder().finish(1 << 16)
    with pytest.raises(ValueError, match="a symbol without weight cannot be coded"):
        encoded([(np.array([1]), np.array([[TOTAL_WEIGHT, 0]], np.int32))])


def test_coarse_weights_lose_little():
    rng = np.random.default_rng(5)
    _, weights = random_group(rng, 200, [256], 256)
    p, q = weights / TOTAL_WEIGHT, encoder.coarse_weights(weights) / 2**16
    assert (p * np.log2(p / q)).sum(1).max() <= -math.log2(1 - 256 / 2**16)
