"""Items through the codec with a network whose outputs hash all its inputs, so that no leak or slip goes unnoticed."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch
from fake_network import HashNetwork
from hypothesis import given, settings
from hypothesis import strategies as st

from ardm.codec import gpu
from ardm.codec.batching import CONCURRENT_BATCHES, Batching, rows_per_batch
from ardm.codec.calls import Items
from ardm.codec.coding_plan import orders_and_schedule
from ardm.codec.format.options import OrderChoice
from ardm.codec.items import CPU, ItemCodec
from ardm.codec.symbols import Rows, symbol_map
from ardm.depth import BaseDepthMap, DepthMap, absorbing
from ardm.names import ORDER_NAMES
from ardm.orders import pseudorandom, raster
from ardm.parametrizations import DataParametrization, DirectParametrization, LogisticMixtureParametrization
from ardm.schedule import Schedule, full_schedule, uniform_schedule

MAPS = [[4, 4, 4, 4, 4, 4], [0, 0, 0, 3, 3, 4], [0, 1, 1, 3, 3, 4]]
"""Children in threes, in pairs and alone; one parent is not its own child's value."""

PARAMETRIZATIONS = {
    "classes": DataParametrization(absorbing(7)),
    "two classes, absorbed in one": DataParametrization(absorbing(2, 0)),
    "siblings": DataParametrization(BaseDepthMap(10, 4)),
    "siblings of any kind": DataParametrization(DepthMap(MAPS, 5)),
    "digits": DirectParametrization(BaseDepthMap(27, 4)),
    "bits": DirectParametrization(BaseDepthMap(5, 2)),
    "all digits": DirectParametrization(BaseDepthMap(64, 4)),
    "nibbles": LogisticMixtureParametrization(absorbing(2**16), 2, -14.0),
    "few nibbles": LogisticMixtureParametrization(absorbing(40, 3), 3, -3.0),
}


class Other:
    """A parametrization that the codec does not know."""

    depth, num_outputs = absorbing(2), 1

    def log_prob(self, outputs, parent, child, stage):
        raise NotImplementedError

    def children(self, outputs, parent, stage):
        raise NotImplementedError


def codec_for(parametrization, shape, order=pseudorandom, schedule=None, network=None, device=CPU):
    num_variables, num_stages = int(np.prod(shape)), parametrization.depth.num_stages
    schedule = schedule or uniform_schedule(num_variables, min(3, num_variables) * num_stages, num_stages=num_stages)
    network = network or HashNetwork(num_outputs=parametrization.num_outputs)
    orders = order if isinstance(order, np.ndarray) else order(shape)[None].repeat(num_stages, 0)
    return ItemCodec(network, parametrization, shape, orders, schedule, device=device)


def drawn_schedule(data, num_stages, num_variables):
    later = st.lists(st.integers(1, num_variables - 1), unique=True, max_size=5) if num_variables > 1 else st.just([])
    starts = tuple((0, *sorted(data.draw(later))) for _ in range(num_stages))
    return Schedule(starts=starts, num_steps=num_variables)


@given(
    st.data(),
    st.sampled_from(sorted(PARAMETRIZATIONS)),
    st.sampled_from([(1,), (13,), (40,), (2, 3, 3), (3, 4, 1)]),
    st.sampled_from(ORDER_NAMES),
    st.integers(0, 4),
)
@settings(max_examples=150)
def test_items_come_back_for_any_masks_and_batches(data, name, shape, order, num_items):
    parametrization = PARAMETRIZATIONS[name]
    num_variables = int(np.prod(shape))
    schedule = drawn_schedule(data, parametrization.depth.num_stages, num_variables)
    codec = codec_for(parametrization, shape, *orders_and_schedule(OrderChoice(name=order), shape, schedule))
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 2**32 - 1)))
    x = torch.randint(0, parametrization.depth.num_classes, (num_items, num_variables), generator=generator)
    kinds = torch.randint(0, data.draw(st.sampled_from([1, 3, 6])), x.shape, generator=generator)
    items, batchings = Items(x=x, given=kinds == 1, absent=kinds == 2), [Batching(batch_size=n) for n in (1, 7, 64)]
    payloads = codec.encode(items)
    for batching in batchings:
        assert codec.encode(items, None, batching) == payloads
        decoded, damaged = codec.decode(payloads, None, replace(items, x=x * items.given), batching)
        assert damaged == {}
        assert torch.equal(decoded, x.masked_fill(items.absent, 0))
    bits = codec.measure(items, batchings[1])
    assert all(8 * len(payload) <= 1.001 * b + 24.5 for payload, b in zip(payloads, bits, strict=True))
    each = codec.measure_variables(items, batchings[1])
    np.testing.assert_allclose(each.sum(1), bits, rtol=1e-12)
    assert not each[~items.coded].any()


@pytest.mark.parametrize(
    ("num_rows", "batch_size", "on_a_gpu", "on_a_cpu"),
    [
        (1, 64, 16, 64),
        (100, 1365, 256, 1365),
        (256, 1365, 256, 1365),
        (1200, 1365, 300, 1365),
        (5000, 1365, 341, 1365),
        (9, 1, 1, 1),
    ],
)
def test_batches_of_a_gpu_share_the_batch_size(num_rows, batch_size, on_a_gpu, on_a_cpu):
    assert rows_per_batch(num_rows, batch_size, torch.device("cuda")) == on_a_gpu
    assert rows_per_batch(num_rows, batch_size, torch.device("cpu")) >= min(num_rows, on_a_cpu)


@pytest.mark.parametrize("name", ["nibbles", sorted(PARAMETRIZATIONS)[0]])
def test_threads_do_not_change_a_payload(name, monkeypatch):
    """As on a GPU, where several batches run at a time."""
    codec = codec_for(PARAMETRIZATIONS[name], (13,))
    x = torch.randint(0, PARAMETRIZATIONS[name].depth.num_classes, (20, 13))
    payloads = codec.encode(Items.of(x))
    monkeypatch.setitem(CONCURRENT_BATCHES, "cpu", 3)
    for batch_size in (1, 7, 64):
        batching = Batching(batch_size=batch_size)
        assert codec.encode(Items.of(x), batching=batching) == payloads
        assert torch.equal(codec.decode(payloads, batching=batching)[0], x)
    payloads[11] = b"\x01" + payloads[11]
    restored, damaged = codec.decode(payloads, batching=Batching(batch_size=7))
    assert set(damaged) == {11}
    assert torch.equal(restored[:11], x[:11])


@pytest.mark.parametrize("name", sorted(PARAMETRIZATIONS))
def test_the_kernels_for_gpus_code_what_a_cpu_does(name, generator, monkeypatch):
    """Items of different plans, and bundles; one payload is damaged. The CPU reads rows that are not a softmax."""
    pytest.importorskip("triton")
    parametrization = PARAMETRIZATIONS[name]
    x, kinds = (
        torch.randint(0, high, (20, 13), generator=generator) for high in (parametrization.depth.num_classes, 6)
    )
    items = Items(x=x, given=kinds == 1, absent=(kinds == 2) & (torch.arange(20)[:, None] % 2 == 0))
    known, sizes = replace(items, x=x * items.given), [1, 3, 7, 9]
    payloads = codec_for(parametrization, (13,)).encode(items, sizes)
    monkeypatch.setattr(gpu, "has_kernels", lambda device, width: True)
    codec = codec_for(parametrization, (13,), device=torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    assert codec.encode(items, sizes) == payloads
    for batch_size in (1, 64):
        decoded, damaged = codec.decode(payloads, sizes, known, Batching(batch_size=batch_size))
        assert not damaged
        assert torch.equal(decoded.cpu(), x.masked_fill(items.absent, 0))
    payloads[2] = b"\x01" + payloads[2]
    assert set(codec.decode(payloads, sizes, known)[1]) == {2}


def test_which_rows_a_gpu_reads():
    """One symbol per variable, by a softmax in which all symbols are reachable."""
    widths = {name: symbol_map(parametrization).gpu_width for name, parametrization in PARAMETRIZATIONS.items()}
    assert {name: width for name, width in widths.items() if width} == {
        "classes": 7,
        "two classes, absorbed in one": 2,
        "all digits": 4,
    }


@pytest.mark.parametrize("name", sorted(PARAMETRIZATIONS))
def test_symbols_stand_for_every_child_of_every_parent(name):
    parametrization = PARAMETRIZATIONS[name]
    depth, mapping = parametrization.depth, symbol_map(parametrization)
    levels = depth.levels.numpy()
    for s in range(depth.num_stages):
        parent, child = map(torch.from_numpy, np.unique(levels[s : s + 2], axis=1))
        outputs = torch.zeros(len(parent), parametrization.num_outputs, dtype=torch.int32)
        rows = Rows(outputs=outputs, stage=torch.full_like(parent, s), parent=parent)
        symbols = mapping.symbols(rows, child)
        assert (mapping.child(rows, symbols) == child).all()
        assert len(symbols) == mapping.length
        if mapping.length == 1:
            reachable = (mapping.weights(rows, []) > 0).sum(1)
            assert reachable.tolist() == [int((parent == p).sum()) for p in parent]


@pytest.mark.parametrize("name", ["classes", "siblings", "siblings of any kind", "digits", "bits"])
def test_measured_bits_are_those_of_the_float_model(name):
    """The weights of each child against the parametrization in float64 for the same logits."""
    parametrization = PARAMETRIZATIONS[name]
    network, depth = HashNetwork(num_outputs=parametrization.num_outputs, spread=150), parametrization.depth
    codec = codec_for(parametrization, (30,), schedule=full_schedule(30, num_stages=depth.num_stages), network=network)
    x = torch.randint(0, depth.num_classes, (4, 30), generator=torch.Generator().manual_seed(0))
    expected = torch.zeros(4, 30, dtype=torch.float64)
    rank = torch.from_numpy(np.argsort(pseudorandom((30,)))).expand(4, -1)
    for s in range(depth.num_stages):
        parent, child, stage = depth.at_level(x, s), depth.at_level(x, s + 1), torch.full((4,), s)
        for t in range(30):
            inputs = torch.where(rank < t, child, parent)
            where = (rank == t).long().argmax(1, keepdim=True)
            logits = network.integers(inputs, rank < t, stage, torch.full((4,), t), where).double() / 64
            nats = -parametrization.log_prob(logits, parent.gather(1, where), child.gather(1, where), stage)
            expected.scatter_add_(1, where, nats)
    np.testing.assert_allclose(codec.measure(Items.of(x)), expected.sum(1) / np.log(2), rtol=1e-4)
    np.testing.assert_allclose(codec.measure_variables(Items.of(x)), expected / np.log(2), rtol=1e-3, atol=1e-4)


@dataclass
class Spy:
    """A network that records its inputs."""

    network: HashNetwork
    calls: list = field(default_factory=list)

    def integers(self, inputs, mask, stage, t, where):
        self.calls.append((inputs.clone(), mask.clone(), stage.clone(), t.clone(), where.clone()))
        return self.network.integers(inputs, mask, stage, t, where)


def recorded_rows(spy):
    """Every row of every call without the padding of `where`, sorted."""
    rows = []
    for call in spy.calls:
        rows += [tuple(tuple(part[i].flatten().tolist()) for part in call[:4]) for i in range(len(call[0]))]
    return sorted(rows)


def test_inputs_of_the_network():
    """Base 2 of 4 classes, raster order; variable 1 is given, 4 is absent."""
    parametrization = DirectParametrization(BaseDepthMap(4, 2))
    spy = Spy(HashNetwork(num_outputs=4))
    schedule = Schedule(starts=((0, 2, 4), (0, 1)), num_steps=6)
    codec = codec_for(parametrization, (6,), raster, schedule, spy)
    x = torch.tensor([[3, 2, 1, 3, 3, 2]])
    given, absent = torch.tensor([[[0, 1, 0, 0, 0, 0]], [[0, 0, 0, 0, 1, 0]]]).bool()
    items = Items(x=x, given=given, absent=absent)
    payloads = codec.encode(items)
    expected = [
        ((0, 2, 0, 0, 0, 0), (0, 1, 0, 0, 0, 0), (0,), (1,)),
        ((2, 2, 0, 0, 0, 0), (1, 1, 0, 0, 0, 0), (0,), (2,)),
        ((2, 2, 0, 2, 0, 0), (1, 1, 1, 1, 0, 0), (0,), (4,)),
        ((2, 2, 0, 2, 0, 2), (0, 1, 0, 0, 0, 0), (1,), (1,)),
        ((3, 2, 0, 2, 0, 2), (1, 1, 0, 0, 0, 0), (1,), (2,)),
    ]
    assert recorded_rows(spy) == sorted(expected)
    assert [call[4].tolist() for call in spy.calls] == [[[0, 0, 0], [2, 3, 0], [5, 0, 0], [0, 0, 0], [2, 3, 5]]]
    spy.calls.clear()
    codec.decode(payloads, known=items)
    assert recorded_rows(spy) == sorted(expected)
    assert [call[4].tolist() for call in spy.calls] == [[[0]], [[2, 3]], [[5]], [[0]], [[2, 3, 5]]]


def test_batches_are_bounded_and_empty_groups_cost_no_call():
    parametrization = PARAMETRIZATIONS["digits"]
    spy = Spy(HashNetwork(num_outputs=parametrization.num_outputs))
    codec = codec_for(parametrization, (12,), schedule=full_schedule(12, num_stages=3), network=spy)
    x = torch.randint(0, 27, (5, 12), generator=torch.Generator().manual_seed(0))
    items = Items.of(x, given=torch.arange(12).expand(5, -1) % 3 == 0)
    seen = []
    payloads = codec.encode(items, batching=Batching(batch_size=7, on_batch=seen.append))
    assert [len(call[0]) for call in spy.calls] == seen == [7] * 17 + [1]  # 5 items, 3 stages, 8 variables
    spy.calls.clear()
    codec.decode(payloads, known=items, batching=Batching(batch_size=3))
    assert [len(call[0]) for call in spy.calls] == [3] * 24 + [2] * 24


def test_items_of_different_plans_share_calls():
    parametrization = PARAMETRIZATIONS["siblings"]
    spy = Spy(HashNetwork(num_outputs=parametrization.num_outputs))
    codec = codec_for(parametrization, (9,), schedule=full_schedule(9, num_stages=2), network=spy)
    x = torch.randint(0, 10, (3, 9), generator=torch.Generator().manual_seed(0))
    absent = torch.arange(9) >= torch.tensor([[9], [4], [0]])
    payloads = codec.encode(Items.of(x, absent=absent))
    spy.calls.clear()
    decoded, damaged = codec.decode(payloads, known=Items.of(x, absent=absent))
    assert damaged == {}
    assert torch.equal(decoded, x.masked_fill(absent, 0))
    assert [len(call[0]) for call in spy.calls] == [2] * 8 + [1] * 10


def some_payloads():
    codec = codec_for(PARAMETRIZATIONS["digits"], (20,))
    x = torch.randint(0, 27, (6, 20), generator=torch.Generator().manual_seed(0))
    return codec, x, codec.encode(Items.of(x))


def test_damage_names_the_item_and_spares_the_others():
    codec, x, payloads = some_payloads()
    payloads[2] = payloads[2][:-1] + bytes([payloads[2][-1] ^ 0x11])
    payloads[4] = b""
    decoded, damaged = codec.decode(payloads, batching=Batching(batch_size=4))
    assert sorted(damaged) == [2, 4]
    assert "empty" in damaged[4]
    intact = [0, 1, 3, 5]
    assert torch.equal(decoded[intact], x[intact])


def test_mutated_payloads_never_decode_to_other_data():
    codec, x, payloads = some_payloads()
    rng = np.random.default_rng(0)
    mutants = []
    for _ in range(400):
        mutant = bytearray(payloads[0])
        match rng.integers(4):
            case 0:
                mutant[rng.integers(len(mutant))] ^= 1 << rng.integers(8)
            case 1:
                del mutant[rng.integers(len(mutant)) :]
            case 2:
                mutant = mutant[: rng.integers(len(mutant))] + payloads[1][rng.integers(len(payloads[1])) :]
            case 3:
                mutant = bytearray(rng.bytes(int(rng.integers(0, 60))))
        mutants.append(bytes(mutant))
    decoded, damaged = codec.decode(mutants)
    for i, mutant in enumerate(mutants):
        is_true = mutant in payloads[:2] and torch.equal(decoded[i], x[payloads.index(mutant)])
        assert i in damaged or is_true


def test_other_given_values_are_detected():
    codec = codec_for(PARAMETRIZATIONS["classes"], (30,))
    x = torch.randint(0, 7, (1, 30), generator=torch.Generator().manual_seed(0))
    items = Items.of(x, given=torch.arange(30)[None] < 5)
    payloads = codec.encode(items)
    other = x.clone()
    other[0, 3] = (x[0, 3] + 1) % 7
    assert codec.decode(payloads, known=items)[1] == {}
    assert set(codec.decode(payloads, known=replace(items, x=other))[1]) == {0}


def test_payloads_of_items_never_change():
    """Files of every release must decode: if this fails, the format has changed."""
    x = torch.arange(24)[None] * 5 % 27
    items = Items.of(x, given=torch.arange(24)[None] == 3)
    (payload,) = codec_for(PARAMETRIZATIONS["digits"], (24,)).encode(items)
    assert payload.hex() == ("e890f6fd6f145d3164203168f00afe85f59ef73fbecf00e5662eff5dfc8707602720478363b7ff9957e10f")


def test_invalid_arguments_are_rejected():
    codec, x, payloads = some_payloads()
    nothing = torch.zeros_like(x, dtype=torch.bool)
    with pytest.raises(ValueError, match=r"values must lie in 0..26, got 0..27"):
        codec.encode(Items.of(x.clamp(max=0) + 27 * (torch.arange(20) == 0)))
    with pytest.raises(ValueError, match=r"expected items and masks of shape \(6, 20\), got \(6, 19\)"):
        codec.encode(Items.of(x[:, :-1]))
    with pytest.raises(ValueError, match=r"expected items and masks of shape \(6, 20\), got \(5, 20\)"):
        codec.decode(payloads, known=Items.of(x[:-1]))
    with pytest.raises(ValueError, match="cannot be both given and absent"):
        codec.decode(payloads, known=Items(x=x, given=~nothing, absent=~nothing))
    parametrization = PARAMETRIZATIONS["digits"]
    with pytest.raises(ValueError, match="from step 0, of stages x steps = 3 x 20"):
        codec_for(parametrization, (20,), schedule=full_schedule(20, num_stages=2))
    with pytest.raises(ValueError, match="expected an order of 0..19 for each of 3 stages"):
        codec_for(parametrization, (20,), order=lambda shape: np.zeros(20, int))
    with pytest.raises(ValueError, match="up to 64 components and 2..65536 classes, got 65 and 256"):
        symbol_map(LogisticMixtureParametrization(absorbing(256), 65, -7.0))
    with pytest.raises(ValueError, match="exact upscaling takes up to 16384 classes"):
        symbol_map(DataParametrization(BaseDepthMap(2**15, 2)))
    with pytest.raises(ValueError, match="exact rows have up to 65536 classes"):
        symbol_map(DataParametrization(absorbing(2**16 + 1)))
    with pytest.raises(ValueError, match="no exact weights are defined for a Other"):
        symbol_map(Other())
