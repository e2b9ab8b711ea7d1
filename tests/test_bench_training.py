"""The training benchmark: its counts are those of a network small enough to count by hand."""

from dataclasses import replace

import pytest

from ardm.bench.training import flops_per_item, matrix_rate, random_corpus, time_training
from ardm.config import ImageData, RunConfig, TrainConfig
from ardm.nn import UNetConfig
from ardm.runtime import Runtime
from tiny import tiny_config

CPU = Runtime.choose("cpu")


def tiny_images() -> RunConfig:
    return RunConfig(
        preset="images",
        data=ImageData(kind="images", height=4, width=6),
        network=UNetConfig(widths=(8,), depths=(1,), kernel=3),
        train=TrainConfig(steps=10, batch_size=4, learning_rate=1e-3),
    )


def test_operations_are_counted_as_by_hand():
    embedding, depthwise, expand, contract, head = 3 * (64 + 2) * 8, 9 * 8, 8 * 32, 32 * 8, 8 * 768
    multiplications = 4 * 6 * (embedding + depthwise + expand + contract + head)
    assert flops_per_item(tiny_images(), CPU) == 3 * 2 * multiplications


@pytest.mark.parametrize("config", [tiny_config(), tiny_images()], ids=["text", "images"])
def test_timings_are_consistent(config):
    row = time_training(config, CPU, seconds=0.05)
    assert row.preset == config.preset
    assert row.items_per_second == pytest.approx(row.batch_size / row.step_seconds)
    assert row.share == pytest.approx(row.teraflops / row.matrix_teraflops)
    assert row.peak_bytes is None
    assert 0 < row.share < 1


def test_the_matrix_rate_is_positive_and_data_have_the_right_shape():
    assert matrix_rate(CPU, repeats=1) > 0
    config = replace(tiny_images(), data=ImageData(kind="images", height=4, width=6, channels=1))
    assert random_corpus(config).items("valid", (4, 6, 1)).shape == (64, 24)
