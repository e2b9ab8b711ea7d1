"""The entropy coder against its written description in Python's unbounded integers, byte for byte."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ardm.codec import coder
from ardm.codec.coder import CHECK_BITS, NUM_LAST, Decoder, Encoder
from ardm.codec.frequencies import TOTAL_WEIGHT, softmax_weights
from ardm.errors import DamagedError


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


def check_round_trip(groups, check):
    payload = encoded(groups, check)
    assert payload == reference_payload(groups, check)
    decoder = Decoder(payload, sum(len(symbols) for symbols, _ in groups))
    for symbols, weights in groups:
        assert decoder.read(weights).tolist() == symbols.tolist()
    assert decoder.finish() == check


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
    groups = [
        random_group(rng, size, np.arange(1, width + 1) if is_ragged else [width], width) for size, width in shapes
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
    """What 200 payloads of 60 likely symbols cost above their weights."""
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
    """Not quite 15 for the check and 4 for whole bytes."""
    extra = extra_bits(width, spread)
    assert extra.mean() < 19.5
    assert extra.max() < 24.5


def test_the_number_of_the_last_symbols_saves_about_5_bits(monkeypatch):
    with_number = extra_bits(27, 200).mean()
    monkeypatch.setattr(coder, "NUM_LAST", 0)
    assert 4 < extra_bits(27, 200).mean() - with_number < 6


def decoded(payload, groups):
    decoder = Decoder(payload, sum(len(symbols) for symbols, _ in groups))
    symbols = [decoder.read(weights).tolist() for _, weights in groups]
    return symbols, decoder.finish()


@given(st.binary(max_size=200), st.integers(0, 2**32 - 1))
def test_any_bytes_give_reachable_symbols_or_a_typed_error(payload, seed):
    rng = np.random.default_rng(seed)
    groups = [random_group(rng, 20, [1, 2, 5, 27], 27) for _ in range(3)]
    try:
        symbols, check = decoded(payload, groups)
    except DamagedError:
        return
    again = [(np.array(part), weights) for part, (_, weights) in zip(symbols, groups, strict=True)]
    assert encoded(again, check) == payload  # a payload that decodes is the payload of what it decodes to


def test_truncated_and_extended_payloads_are_found():
    rng = np.random.default_rng(3)
    groups = [random_group(rng, 50, [27], 27) for _ in range(4)]
    payload = encoded(groups)
    truth = decoded(payload, groups)
    others = [payload[:n] for n in range(len(payload))] + [payload + bytes([n]) for n in range(256)]
    outcomes = [_outcome(other, groups) for other in others]
    assert truth[1] not in [outcome[1] for outcome in outcomes if outcome]
    assert outcomes.count(None) > 0.9 * len(outcomes)


def _outcome(payload, groups):
    try:
        return decoded(payload, groups)
    except DamagedError:
        return None


def test_empty_payloads_and_those_that_end_in_zero_are_refused():
    for payload in (b"", b"\0", b"abc\0", bytes(100)):
        with pytest.raises(DamagedError, match="empty or ends in a zero byte"):
            Decoder(payload, 5)


def test_a_payload_that_is_too_long_or_too_short_is_refused():
    _, weights = random_group(np.random.default_rng(4), 30, [27], 27)
    with pytest.raises(DamagedError, match="does not end where its symbols do"):
        decoded(bytes([255] * 100), [(np.zeros(30, int), weights)])
    unlikely = np.array([[1, TOTAL_WEIGHT - 1]] * 40, np.int32)
    with pytest.raises(DamagedError, match="ends"):
        decoded(b"\x01", [(np.zeros(40, int), unlikely)])


def test_panics_of_the_library_are_damage_and_interrupts_are_not():
    class PanicException(BaseException):
        pass

    with pytest.raises(DamagedError, match="the entropy decoder failed: oh"), coder._panics_as_damage():
        raise PanicException("oh")
    with pytest.raises(KeyboardInterrupt), coder._panics_as_damage():
        raise KeyboardInterrupt


def test_wrong_use_is_refused():
    with pytest.raises(ValueError, match="the check must lie in 0..65535, got 65536"):
        Encoder().finish(1 << 16)
    with pytest.raises(ValueError, match="a symbol without weight cannot be coded"):
        Encoder().write(np.array([1]), np.array([[TOTAL_WEIGHT, 0]], np.int32))


def test_coarse_weights_lose_little():
    rng = np.random.default_rng(5)
    _, weights = random_group(rng, 200, [256], 256)
    p, q = weights / TOTAL_WEIGHT, coder._coarse_weights(weights) / 2**16
    assert (p * np.log2(p / q)).sum(1).max() <= -math.log2(1 - 256 / 2**16)
