"""Shapes are checked in every call of the package, and tests draw from one seeded generator."""

import os

import pytest
import torch
from hypothesis import settings
from jaxtyping import install_import_hook

if not torch.cuda.is_available():  # TorchDynamo cannot compile through the checks
    install_import_hook("ardm", "beartype.beartype")
    os.environ["TRITON_INTERPRET"] = "1"  # GPU kernels run on the CPU; read when Triton is imported
torch.set_num_threads(1)
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")


@pytest.fixture
def generator() -> torch.Generator:
    """A generator with a fixed seed, a fresh one for each test."""
    return torch.Generator().manual_seed(20211005)
