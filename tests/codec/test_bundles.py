"""Bundles of items: a bundle of one is the payload of its item, and damage stays in its bundle."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from fake_network import HashNetwork
from hypothesis import given, settings
from hypothesis import strategies as st
from test_items import PARAMETRIZATIONS

from ardm.codec.batching import Batching
from ardm.codec.calls import Items
from ardm.codec.items import ItemCodec
from ardm.orders import pseudorandom
from ardm.schedule import uniform_schedule

NUM_VARIABLES = 13


def codec_for(name: str) -> ItemCodec:
    parametrization = PARAMETRIZATIONS[name]
    num_stages = parametrization.depth.num_stages
    schedule = uniform_schedule(NUM_VARIABLES, 5 * num_stages, num_stages=num_stages)
    network = HashNetwork(num_outputs=parametrization.num_outputs)
    shape = (NUM_VARIABLES,)
    orders = pseudorandom(shape)[None].repeat(num_stages, 0)
    return ItemCodec(network, parametrization, shape, orders, schedule)


def random_items(name: str, count: int, num_kinds: int = 6) -> Items:
    """Items of which some variables are given and some absent."""
    generator = torch.Generator().manual_seed(count)
    num_classes = PARAMETRIZATIONS[name].depth.num_classes
    x = torch.randint(0, num_classes, (count, NUM_VARIABLES), generator=generator)
    kinds = torch.randint(0, num_kinds, x.shape, generator=generator)
    return Items(x=x, given=kinds == 1, absent=kinds == 2)


@given(
    st.sampled_from(sorted(PARAMETRIZATIONS)),
    st.lists(st.integers(1, 5), max_size=5),
    st.sampled_from([1, 3, 100]),
    st.sampled_from([1, 3, 6]),
)
@settings(max_examples=80)
def test_bundles_come_back_in_any_batches(name, sizes, batch_size, num_kinds):
    codec = codec_for(name)
    items, batching = random_items(name, sum(sizes), num_kinds), Batching(batch_size=batch_size)
    payloads = codec.encode(items, sizes, batching)
    assert payloads == codec.encode(items, sizes, Batching(batch_size=7))
    restored, damaged = codec.decode(payloads, sizes, replace(items, x=items.x * items.given), batching)
    assert torch.equal(restored, items.x.masked_fill(items.absent, 0))
    assert damaged == {}
    bits = codec.measure(items)
    for payload, own in zip(payloads, np.split(bits, np.cumsum(sizes)[:-1]) if sizes else [], strict=True):
        assert 8 * len(payload) <= 1.001 * own.sum() + 24.5


@pytest.mark.parametrize("name", sorted(PARAMETRIZATIONS))
def test_bundles_of_one_are_payloads_of_items(name):
    codec = codec_for(name)
    items = random_items(name, 4)
    assert codec.encode(items, [1] * 4, Batching(batch_size=9)) == codec.encode(items)


@pytest.mark.parametrize("batch_size", [1, 4, 100])
def test_damage_stays_in_its_bundle(batch_size):
    codec = codec_for("digits")
    items, sizes, batching = random_items("digits", 9), [2, 3, 1, 3], Batching(batch_size=batch_size)
    payloads = codec.encode(items, sizes, batching)
    payloads[1] = payloads[1][:-2] + bytes([payloads[1][-2] ^ 1, payloads[1][-1]])
    payloads[2] = b""
    restored, damaged = codec.decode(payloads, sizes, items, batching)
    assert sorted(damaged) == [1, 2]
    intact = [0, 1, 6, 7, 8]
    assert torch.equal(restored[intact], items.x.masked_fill(items.absent, 0)[intact])
