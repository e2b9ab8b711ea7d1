import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from table_model import CASES, USER_MAPS

from ardm.depth import BaseDepthMap, DepthMap, absorbing
from ardm.parametrizations import DataParametrization, DirectParametrization

shapes = st.tuples(st.integers(2, 40), st.integers(2, 10))
"""K and b."""


def downscaled(k, scale):
    return k // scale * scale


# Maps


@given(shapes)
def test_levels_are_floors(shape):
    num_classes, base = shape
    depth = BaseDepthMap(num_classes, base)
    for level in range(depth.num_stages + 1):
        scale = base ** (depth.num_stages - level)
        assert depth.levels[level].tolist() == [downscaled(k, scale) for k in range(num_classes)]
    assert depth.absorbing_value == 0


@given(shapes)
def test_number_of_stages_is_the_ceiling_of_the_logarithm(shape):
    num_classes, base = shape
    num_stages = BaseDepthMap(num_classes, base).num_stages
    assert base ** (num_stages - 1) < num_classes <= base**num_stages


@pytest.mark.parametrize("base", range(2, 11))
@pytest.mark.parametrize("num_stages", range(1, 5))
def test_exact_powers_need_no_stage_more(base, num_stages):
    assert BaseDepthMap(base**num_stages, base).num_stages == num_stages
    assert BaseDepthMap(base**num_stages + 1, base).num_stages == num_stages + 1


@pytest.mark.parametrize(("base", "num_stages"), [(2, 16), (4, 8), (16, 4), (256, 2)])
def test_stages_of_sixteen_bits(base, num_stages):
    assert BaseDepthMap(2**16, base).num_stages == num_stages


def test_digit_scale():
    depth = BaseDepthMap(30, 3)
    assert depth.digit_scale(torch.arange(4)).tolist() == [27, 9, 3, 1]


def test_absorbing_has_a_class_of_its_own_or_a_value():
    assert absorbing(3).levels.tolist() == [[3, 3, 3], [0, 1, 2]]
    assert absorbing(3).num_values == 4
    assert absorbing(3, value=1).levels.tolist() == [[1, 1, 1], [0, 1, 2]]
    assert absorbing(3, value=1).num_values == 3
    assert absorbing(3, value=7).absorbing_value == 7


def test_user_maps_with_extra_classes():
    depth = DepthMap(USER_MAPS, num_classes=5)
    assert depth.levels.tolist() == [[3, 3, 3, 3, 3], [6, 6, 6, 6, 4], [5, 5, 2, 2, 4], [0, 1, 2, 3, 4]]
    assert (depth.num_stages, depth.num_classes, depth.num_values, depth.absorbing_value) == (3, 5, 7, 3)


def test_at_level_takes_one_level_or_one_for_each_item():
    depth = BaseDepthMap(8, 2)
    x = torch.tensor([[7, 5], [3, 6], [1, 0]])
    assert depth.at_level(x, 1).tolist() == [[4, 4], [0, 4], [0, 0]]
    assert depth.at_level(x, torch.tensor([3, 2, 0])).tolist() == [[7, 5], [2, 6], [0, 0]]


@pytest.mark.parametrize(
    ("maps", "num_classes", "text"),
    [
        ([], 2, "at least one map, all of the same length"),
        ([[0, 0], [0, 0, 0]], 2, "at least one map, all of the same length"),
        ([[]], 1, "list 0 values, too few for 1 classes"),
        ([[0, 0]], 3, "list 2 values, too few for 3 classes"),
        ([[0, 0]], 0, "list 2 values, too few for 0 classes"),
        ([[0, 2]], 2, r"every entry of a depth map must lie in 0\.\.1"),
        ([[0, -1]], 2, r"every entry of a depth map must lie in 0\.\.1"),
        ([[0, 1]], 2, "every class to one absorbing value; they end in several"),
        ([[0, 0, 1], [0, 1, 2]], 3, "every class to one absorbing value; they end in several"),
    ],
)
def test_maps_that_cannot_be_used(maps, num_classes, text):
    with pytest.raises(ValueError, match=text):
        DepthMap(maps, num_classes)


def test_entries_that_no_class_reaches_are_never_read():
    assert DepthMap([[0, 0, 2]], num_classes=2).absorbing_value == 0


@pytest.mark.parametrize(("num_classes", "base"), [(1, 2), (4, 1), (4, 0)])
def test_base_and_classes_must_be_two_or_more(num_classes, base):
    with pytest.raises(ValueError, match=f"b >= 2 and K >= 2, got b={base}, K={num_classes}"):
        BaseDepthMap(num_classes, base)


def test_negative_absorbing_value():
    with pytest.raises(ValueError, match=r"must lie in 0\.\.2"):
        absorbing(3, value=-1)


# Matrices


def paper_matrices(num_classes, base):
    """P^(1), ..., P^(S): P_{l,k} = 1 where l = lsb_i(k) and k is in the image of lsb_{i-1}, i = S+1-s."""
    num_stages = 1
    while base**num_stages < num_classes:
        num_stages += 1
    matrices = []
    for i in reversed(range(1, num_stages + 1)):
        image = {downscaled(k, base ** (i - 1)) for k in range(num_classes)}
        matrix = np.zeros((num_classes, num_classes))
        for k in image:
            matrix[downscaled(k, base**i), k] = 1
        matrices.append(matrix)
    return matrices


@given(shapes)
def test_transition_matrices_are_the_papers(shape):
    depth, matrices = BaseDepthMap(*shape), paper_matrices(*shape)
    assert depth.num_stages == len(matrices)
    for stage, matrix in enumerate(matrices):
        assert np.array_equal(depth.transition_matrix(stage).numpy(), matrix)


DEPTHS = {
    "own class": absorbing(3),
    "value": absorbing(3, value=2),
    "base 2": BaseDepthMap(8, 2),
    "base 3": BaseDepthMap(8, 3),
    "user": DepthMap(USER_MAPS, num_classes=5),
}
each_depth = pytest.mark.parametrize("depth", DEPTHS.values(), ids=DEPTHS.keys())


@each_depth
def test_columns_of_reachable_children_sum_to_one(depth):
    for stage in range(depth.num_stages):
        reachable = set(depth.levels[stage + 1].tolist())
        sums = depth.transition_matrix(stage).sum(0)
        assert sums.tolist() == [float(value in reachable) for value in range(depth.num_values)]


@each_depth
def test_products_of_transition_matrices_agree_with_levels(depth):
    cumulative = torch.eye(depth.num_values)  # the paper's P-bar
    data = torch.eye(depth.num_values)[:, : depth.num_classes]  # one-hot columns x^(S)
    for stage in reversed(range(depth.num_stages)):
        cumulative = depth.transition_matrix(stage) @ cumulative
        decayed = cumulative @ data
        assert torch.equal(decayed.argmax(0), depth.levels[stage])
        assert torch.equal(decayed.sum(0), torch.ones(depth.num_classes))


@each_depth
def test_a_child_decays_to_its_parent(depth):
    """x^(s) = P^(s+1) x^(s+1)."""
    for stage in range(depth.num_stages):
        child = torch.nn.functional.one_hot(depth.levels[stage + 1], depth.num_values).float()
        assert torch.equal((child @ depth.transition_matrix(stage).T).argmax(1), depth.levels[stage])


# Parametrizations


def random_logits(seed, *shape, scale=2.0):
    return scale * torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def child_log_probs(parametrization, logits, parent, stage):
    """log p(child | parent) of one variable as a dictionary, from `children`."""
    children = parametrization.children(logits[None, None], torch.tensor([[parent]]), stage)
    return dict(zip(children.values[0, 0].tolist(), children.log_probs[0, 0].tolist(), strict=True))


def one_log_prob(parametrization, logits, parent, child, stage):
    parent, child, stage = torch.tensor([[parent]]), torch.tensor([[child]]), torch.tensor([stage])
    return parametrization.log_prob(logits[None, None], parent, child, stage).item()


def theta(matrices, probs, parent, stage):
    """theta^(s) of Sec. 3.2 for s = stage + 1, in plain linear algebra."""
    num_values = len(matrices[0])
    bars = [np.eye(num_values)]
    for matrix in reversed(matrices):
        bars.insert(0, matrix @ bars[0])
    x = np.eye(num_values)[parent]
    padded = np.concatenate([probs, np.zeros(num_values - len(probs))])
    return (matrices[stage].T @ x) * (bars[stage + 1] @ padded) / (x @ bars[stage] @ padded)


def assert_data_parametrization_is_theta(depth, matrices, seed):
    parametrization, logits = DataParametrization(depth), random_logits(seed, depth.num_classes)
    probs = logits.softmax(0).numpy()
    for stage in range(depth.num_stages):
        for parent in depth.levels[stage].unique().tolist():
            expected = theta(matrices, probs, parent, stage)
            found = child_log_probs(parametrization, logits, parent, stage)
            assert math.fsum(math.exp(value) for value in found.values()) == pytest.approx(1, abs=1e-12)
            for child, log_prob in found.items():
                assert math.exp(log_prob) == pytest.approx(expected[child], abs=1e-12)
                if expected[child] > 0:
                    single = one_log_prob(parametrization, logits, parent, child, stage)
                    assert single == pytest.approx(log_prob, abs=1e-12)
            assert math.fsum(expected[list(found)]) == pytest.approx(1, abs=1e-12)


@given(shapes, st.integers(0, 10**6))
def test_data_parametrization_is_the_papers_theta(shape, seed):
    assert_data_parametrization_is_theta(BaseDepthMap(*shape), paper_matrices(*shape), seed)


@each_depth
def test_theta_for_any_maps(depth):
    matrices = [depth.transition_matrix(stage).double().numpy() for stage in range(depth.num_stages)]
    assert_data_parametrization_is_theta(depth, matrices, seed=3)


@given(shapes, st.integers(0, 10**6))
def test_direct_equals_data_when_its_logits_are_the_datas_log_children(shape, seed):
    depth = BaseDepthMap(*shape)
    data, direct = DataParametrization(depth), DirectParametrization(depth)
    logits = random_logits(seed, depth.num_classes)
    for stage in range(depth.num_stages):
        scale = depth.base ** (depth.num_stages - 1 - stage)
        for parent in depth.levels[stage].unique().tolist():
            expected = {k: v for k, v in child_log_probs(data, logits, parent, stage).items() if v > -math.inf}
            digits = random_logits(seed + 1, depth.num_stages, depth.base)
            for child, log_prob in expected.items():
                digits[stage, (child - parent) // scale] = log_prob + 7.0
            found = child_log_probs(direct, digits.flatten(), parent, stage)
            assert {k: v for k, v in found.items() if v > -math.inf} == pytest.approx(expected, abs=1e-11)
            singles = {k: one_log_prob(direct, digits.flatten(), parent, k, stage) for k in expected}
            assert singles == pytest.approx(expected, abs=1e-11)


@given(shapes, st.integers(0, 10**6))
def test_digits_beyond_the_last_class_have_probability_zero(shape, seed):
    depth = BaseDepthMap(*shape)
    parametrization = DirectParametrization(depth)
    logits = random_logits(seed, parametrization.num_outputs)
    for stage in range(depth.num_stages):
        for parent in depth.levels[stage].unique().tolist():
            found = child_log_probs(parametrization, logits, parent, stage)
            assert len(found) == depth.base
            assert all((value < depth.num_classes) == (found[value] > -math.inf) for value in found)
            assert math.fsum(map(math.exp, found.values())) == pytest.approx(1, abs=1e-12)


def test_a_child_of_another_parent_has_probability_zero():
    parametrization = DataParametrization(BaseDepthMap(4, 2))
    assert one_log_prob(parametrization, random_logits(0, 4), parent=0, child=3, stage=1) == -math.inf


@pytest.mark.parametrize("name", CASES)
def test_log_prob_and_children_agree_in_batches(name, generator):
    """Items of a batch may be at different stages; `children` takes one stage."""
    case = CASES[name]()
    depth, parametrization = case.model.depth, case.model.parametrization
    x = torch.randint(case.num_classes, (60, 4), generator=generator)
    stage = torch.randint(case.num_stages, (60,), generator=generator)
    outputs = random_logits(0, 60, 4, parametrization.num_outputs)
    parent, child = depth.at_level(x, stage), depth.at_level(x, stage + 1)
    log_probs = parametrization.log_prob(outputs, parent, child, stage)
    for s in range(case.num_stages):
        rows = stage == s
        children = parametrization.children(outputs[rows], parent[rows], s)
        picked = children.log_probs.masked_fill(children.values != child[rows][..., None], -math.inf)
        torch.testing.assert_close(picked.logsumexp(-1), log_probs[rows], rtol=1e-12, atol=1e-12)


# Extreme logits


def parametrizations():
    depth = BaseDepthMap(7, 2)
    return [DataParametrization(absorbing(7)), DataParametrization(depth), DirectParametrization(depth)]


@pytest.mark.parametrize("parametrization", parametrizations(), ids=["one-stage", "data", "direct"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [1e4, 1e-30])
def test_extreme_logits_stay_finite_with_their_gradients(parametrization, dtype, size):
    depth = parametrization.depth
    signs = random_logits(1, 64, 5, parametrization.num_outputs).sign()
    outputs = (size * signs).to(dtype).requires_grad_()
    x = torch.arange(320).view(64, 5) % 7
    stage = torch.arange(64) % depth.num_stages
    parent, child = depth.at_level(x, stage), depth.at_level(x, stage + 1)
    log_probs = parametrization.log_prob(outputs, parent, child, stage)
    log_probs.sum().backward()
    assert log_probs.isfinite().all()
    assert (log_probs <= 1e-3).all()  # float32 keeps three decimals of a logit of 1e4
    assert outputs.grad is not None
    assert outputs.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tails_are_kept(dtype):
    parametrization = DataParametrization(BaseDepthMap(4, 2))
    tail = math.log(1e-30)
    logits = torch.tensor([0.0, tail, tail, tail + math.log(3)], dtype=dtype)
    coarse = child_log_probs(parametrization, logits, 0, 0)
    assert coarse == pytest.approx({0: 0.0, 2: tail + math.log(4)}, rel=1e-6)
    assert child_log_probs(parametrization, logits, 0, 1)[1] == pytest.approx(tail, rel=1e-6)
    assert one_log_prob(parametrization, logits, 0, 2, 0) == pytest.approx(tail + math.log(4), rel=1e-6)
    assert one_log_prob(parametrization, logits, 0, 1, 1) == pytest.approx(tail, rel=1e-6)


def test_children_of_an_unlikely_parent_are_renormalised():
    """Their class probabilities underflow in any float; the ratio does not."""
    parametrization = DataParametrization(BaseDepthMap(4, 2))
    logits = torch.tensor([1e4, 1e4, -1e4, -1e4 + math.log(3)], dtype=torch.float64)
    expected = {2: math.log(1 / 4), 3: math.log(3 / 4)}
    found = child_log_probs(parametrization, logits, 2, 1)
    assert {child: found[child] for child in expected} == pytest.approx(expected, abs=1e-11)
    assert found[0] == found[1] == -math.inf
    for child, log_prob in expected.items():
        assert one_log_prob(parametrization, logits, 2, child, 1) == pytest.approx(log_prob, abs=1e-11)


@pytest.mark.parametrize("parametrization", parametrizations(), ids=["one-stage", "data", "direct"])
def test_gradients_of_children_are_finite(parametrization):
    depth = parametrization.depth
    for stage in range(depth.num_stages):
        outputs = random_logits(2, 1, 7, parametrization.num_outputs, scale=100.0).requires_grad_()
        children = parametrization.children(outputs, depth.levels[stage][None], stage)
        children.log_probs[children.log_probs > -math.inf].sum().backward()
        assert outputs.grad is not None
        assert outputs.grad.isfinite().all()


def test_the_middle_of_a_value_is_the_mean_of_its_classes():
    depth = BaseDepthMap(6, 4)  # levels 0; 0 and 4; 0 to 5
    values, level = torch.tensor([[0, 0, 4, 5]]), torch.tensor([[0, 1, 1, 2]])
    assert depth.middle(values, level).tolist() == [[2, 1, 4, 5]]
    assert absorbing(3).middle(torch.tensor([[3, 1]]), torch.tensor([[0, 1]])).tolist() == [[1, 1]]


@pytest.mark.parametrize("level", [0, 1, torch.tensor([1, 2])])
def test_values_that_are_not_classes(level):
    """-1 would be taken for class K-1."""
    with pytest.raises(ValueError, match=r"values must lie in 0\.\.3, got -1\.\.3"):
        BaseDepthMap(4, 2).at_level(torch.tensor([[0, 1], [-1, 3]]), level)


def test_no_values_are_classes():
    assert absorbing(2).at_level(torch.zeros(0, 3, dtype=torch.long), 1).shape == (0, 3)
