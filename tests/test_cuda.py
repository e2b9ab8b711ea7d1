"""What only a GPU can show: a compiled bfloat16 run resumes to the bit, and agrees with the CPU."""

import pytest
import torch

from ardm.likelihood import exact_bits
from ardm.orders import random_stage_orders
from ardm.runtime import Runtime
from ardm.schedule import uniform_schedule
from ardm.state import restore_state
from ardm.train import run_training
from ardm.trainer import Trainer
from test_train import assert_same_state, metrics
from tiny import tiny_config, tiny_corpus

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def test_a_resumed_run_is_identical_to_the_bit_on_cuda(tmp_path):
    corpus, runtime = tiny_corpus(tmp_path), Runtime.choose("cuda")
    for folder, stops in (("whole", [None]), ("parts", [5, None])):
        for part, stop_at in enumerate(stops):
            trainer = Trainer(tiny_config(), corpus, runtime)
            if part:
                restore_state(trainer, tmp_path / folder)
            run_training(trainer, tmp_path / folder, stop=lambda t=trainer, s=stop_at: t.step == s)
    assert_same_state(tmp_path / "whole", tmp_path / "parts")
    assert metrics(tmp_path / "whole") == metrics(tmp_path / "parts")


def test_bits_agree_with_the_cpu(tmp_path, generator):
    trainer = Trainer(tiny_config(), tiny_corpus(tmp_path), Runtime.choose("cuda"))
    run_training(trainer, tmp_path / "run")
    model, x = trainer.averaged, trainer._eval_items
    orders, schedule = random_stage_orders(len(x), 1, 16, generator), uniform_schedule(16, 5)
    on_cuda = exact_bits(model, x, orders.cuda(), schedule)
    on_cpu = exact_bits(model.cpu(), x.cpu(), orders, schedule)
    torch.testing.assert_close(on_cuda.cpu(), on_cpu, rtol=1e-4, atol=1e-4)
