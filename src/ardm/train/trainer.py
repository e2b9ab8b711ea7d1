"""A run in progress: optimisation steps, evaluations, and the state that determines the rest of the run.

A run is determined by its configuration, its data and its initial weights: a generator seeded with (seed, i) draws the
batch, orders and time steps of training step i, so a resumed run draws exactly what the uninterrupted run would have.
"""

import copy
import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import islice
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from ardm import coding
from ardm.baselines.methods import Baseline, score
from ardm.build import build_model
from ardm.checkpoint import (
    AnyTrained,
    TrainedBaseline,
    TrainedCoding,
    TrainedModel,
    profile_from_tensors,
    profile_tensors,
)
from ardm.coding import CodingModel
from ardm.config import CODING_CALLS, RunConfig
from ardm.data.corpus import Corpus, compact_tensor, spread
from ardm.data.packed.sampler import AHEAD, StreamSampler
from ardm.errors import UsageError
from ardm.likelihood import Bound, Estimate, bound
from ardm.model import ARDM
from ardm.names import AVERAGED, MEASURED, MEASURED_EARLIER
from ardm.nn.blocks import blocks_of, compile_blocks
from ardm.objective import Losses, StepLoss, joined, sample_step_loss
from ardm.orders import NAMED_ORDERS, random_orders, random_strand_ranks, ranks
from ardm.profile import Profile
from ardm.runtime.device import Runtime
from ardm.runtime.fsdp import gathered, shard_like, shard_weights, whole
from ardm.runtime.team import Team
from ardm.train.metrics import Metrics
from ardm.train.optim import Muon, is_hidden_matrix


class Objective(nn.Module):
    """The losses of a batch with fresh random draws, as a module for DDP and FSDP to wrap."""

    def __init__(self, model: ARDM | CodingModel | Baseline) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Int[Tensor, "B D"], generator: torch.Generator, rank: Int[Tensor, "B D"] | None) -> Losses:
        """Losses of each item; an ARDM's are in the orders with these ranks, if given."""
        if isinstance(self.model, ARDM):
            return sample_step_loss(self.model, x, generator, rank)
        return self.model.losses(x, generator)


class Trainer:
    """The state of a run: weights, their average, optimisers, loss profile, steps and seconds."""

    def __init__(self, config: RunConfig, corpus: Corpus, runtime: Runtime) -> None:
        self.config, self.corpus, self.runtime = config, corpus, runtime
        device = runtime.device
        with torch.random.fork_rng(devices=[]):  # weight initialisation takes no generator
            torch.manual_seed(config.seed)
            self.model = build_model(config, corpus.num_classes)
        self.averaged = copy.deepcopy(self.model).requires_grad_(False).eval()
        self._objective = self._placed_objective()
        self.optimizers = make_optimizers(config, self.model, runtime.team)
        self.profile = Profile.empty(self.model.num_stages, self.model.num_variables, device)
        self.measured_profile: Profile | None = None
        self.measured_step: int | None = None
        self.step, self.seconds, self.finished = 0, 0.0, False
        self.sampler = corpus.sampler(config.data.shape, device)
        valid = corpus.items("valid", config.data.shape)
        chosen = spread(min(config.train.eval_items, len(valid)), len(valid))
        self.eval_items: Int[Tensor, "N D"] = compact_tensor(valid[chosen]).to(device).long()
        self._generator = torch.Generator(device)
        self._named_rank: Tensor | None = None
        if config.train.order in NAMED_ORDERS:
            self._named_rank = ranks(torch.from_numpy(NAMED_ORDERS[config.train.order](config.data.shape)).to(device))

    def _placed_objective(self) -> nn.Module:
        """The objective on the device, compiled, sharded or replicated as the runtime says."""
        runtime, objective, num_shards = self.runtime, Objective(self.model), self.config.train.num_shards
        if num_shards % runtime.team.size:
            raise UsageError(
                f"{runtime.team.size} processes cannot share a batch evenly with --shards {num_shards}: give "
                f"--shards {runtime.team.size}, or a multiple of it"
            )
        if runtime.compile:
            compile_blocks(self.model.network)
        if runtime.shards_weights:
            mesh = init_device_mesh(runtime.device.type, (runtime.team.size,))
            shard_weights(self.averaged, blocks_of(self.averaged.network), mesh)
            shard_weights(objective, blocks_of(self.model.network), mesh)
            return objective
        self.averaged.to(runtime.device)
        objective.to(runtime.device)
        if runtime.team.size == 1:
            return objective
        return DistributedDataParallel(objective, gradient_as_bucket_view=True)

    def start_from(self, trained: TrainedModel) -> None:
        """Copy the weights of a trained model; a UsageError unless its network and classes are the same."""
        own, other = self.config, trained.config
        if not own.method.is_ardm:
            raise UsageError(f"the method {own.method.name} starts from random weights: leave out --init")
        if trained.exact is not None:
            raise UsageError("an exact model cannot be trained; start from the run that it was exported from")
        if (own.network, own.depth) != (other.network, other.depth):
            raise UsageError(
                "the model to start from has a different network or base: leave out --width, --base and the like"
            )
        before = (trained.model.depth.num_classes, trained.alphabet, trained.model.shape[2:], trained.sample_rate)
        if before != (self.corpus.num_classes, self.corpus.alphabet, self.model.shape[2:], self.corpus.sample_rate):
            raise UsageError("the model to start from and this data differ in classes, channels or samples per second")
        self.config = replace(own, initial_data=(*other.initial_data, trained.data_fingerprint))
        with torch.no_grad():
            for model in (self.model, self.averaged):
                for parameter, value in zip(model.parameters(), trained.model.parameters(), strict=True):
                    parameter.copy_(shard_like(value.to(parameter.device), parameter))

    def train_step(self) -> dict[str, Tensor]:
        """Take one optimisation step; returns its metrics, still on the device."""
        config, team = self.config.train, self.runtime.team
        shards = team.share_of(config.num_shards)
        parts = [self._add_gradients(shard, is_last=shard == shards[-1]) for shard in shards]
        losses = joined(parts).map(team.all_gather_rows)
        norm = whole(nn.utils.clip_grad_norm_(self.model.parameters(), config.clip_norm))
        self._update(config.rate_factor(self.step))
        if isinstance(losses, StepLoss):
            self.profile = self.profile.updated(losses, config.profile_momentum)
        self.step += 1
        bits, cross_entropy = losses.bits_per_dim.mean(), losses.cross_entropy.mean()
        return {"bits": bits, "cross_entropy": cross_entropy, "gradient_norm": norm}

    def _add_gradients(self, shard: int, *, is_last: bool) -> Losses:
        """Losses of a shard of the batch; gradients are accumulated and, after the last shard, synchronised."""
        config, team = self.config.train, self.runtime.team
        self._generator.manual_seed(step_seed(self.config.seed, self.step, shard))
        if isinstance(self.sampler, StreamSampler):
            self.sampler.expect(coming_seeds(self.config, team, self.step, shard), config.shard_size)
        x = self.sampler.draw(config.shard_size, self._generator)
        rank = self._ranks() if config.has_order(self.step) else None
        with self._gradient_sync(is_last):
            with self.runtime.autocast():
                losses: Losses = self._objective(x, self._generator, rank)
            bits, cross_entropy = losses.bits_per_dim.mean(), losses.cross_entropy.mean()
            weight = team.size / config.num_shards  # synchronised gradients are the mean over processes
            (weight * (bits + config.cross_entropy_weight * cross_entropy)).backward()
        return losses

    def _gradient_sync(self, is_last: bool) -> AbstractContextManager[Any]:
        """A context that synchronises gradients across processes after the last shard only."""
        if isinstance(self._objective, FSDPModule):
            self._objective.set_requires_gradient_sync(is_last)
        elif isinstance(self._objective, DistributedDataParallel) and not is_last:
            return self._objective.no_sync()
        return nullcontext()

    def _ranks(self) -> Int[Tensor, "B D"]:
        """The ranks of the orders that the final steps train for, one order per item of a shard."""
        config, num_variables = self.config.train, self.model.num_variables
        num_ordered = round(config.order_share * config.shard_size)
        if self._named_rank is None:
            ordered = random_strand_ranks(num_ordered, num_variables, self._generator)
        else:
            ordered = self._named_rank.expand(num_ordered, -1)
        return torch.cat([ordered, random_orders(config.shard_size - num_ordered, num_variables, self._generator)])

    def _update(self, rate_factor: float) -> None:
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["peak_rate"] * rate_factor
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        # Early on the average follows the weights closely, so that the first steps do not hold short runs back.
        decay = min(self.config.train.ema_decay, (self.step + 1) / (self.step + 10))
        with torch.no_grad():
            torch._foreach_lerp_(list(self.averaged.parameters()), list(self.model.parameters()), 1 - decay)

    def evaluate(
        self,
        num_passes: int = 1,
        num_items: int | None = None,
        *,
        on_batch: Callable[[int], None] = lambda num_items: None,
    ) -> Metrics:
        """The averaged weights' bound on all or some of the held-out items, with the same random draws every time."""
        estimate = self._estimate(num_passes, num_items, on_batch)
        if isinstance(estimate, Bound):
            self.measured_profile, self.measured_step = estimate.profile, self.step
        metrics: Metrics = {"step": self.step, "valid_bits": estimate.bits_per_dim}
        if math.isfinite(estimate.half_width):  # one item has no interval
            metrics["valid_half_width"] = estimate.half_width
        if self.config.method.is_coding:
            metrics["valid_bits_raster"] = self._estimate(1, num_items, lambda num_items: None, calls=None).bits_per_dim
        return metrics

    def profile_now(self, num_passes: int, num_items: int, on_batch: Callable[[int], None]) -> Profile | None:
        """The averaged weights' profile on some held-out items, which leaves the run's state as it is."""
        estimate = self._estimate(num_passes, num_items, on_batch)
        return estimate.profile if isinstance(estimate, Bound) else None

    def _estimate(
        self,
        num_passes: int,
        num_items: int | None,
        on_batch: Callable[[int], None],
        calls: int | None = CODING_CALLS,
    ) -> Estimate:
        """The averaged weights' bits: a baseline's own, a coding model's in `calls`, or the bound of an ARDM."""
        items = self.eval_items if num_items is None else self.eval_items[spread(num_items, len(self.eval_items))]
        generator = torch.Generator(self.runtime.device).manual_seed(self.config.seed)
        kwargs: Any = {"num_passes": num_passes, "batch_size": self.config.train.shard_size, "on_batch": on_batch}
        averaged = self.whole_average()
        if isinstance(averaged, CodingModel):
            with self.runtime.autocast():
                options: Any = {"batch_size": self.config.train.shard_size, "on_batch": on_batch}
                return coding.score(averaged, items, calls=calls, team=self.runtime.team, **options)
        estimated: Callable[..., Estimate] = bound if isinstance(averaged, ARDM) else score
        with self.runtime.autocast():
            return estimated(averaged, items, generator, team=self.runtime.team, **kwargs)

    def whole_average(self) -> ARDM | CodingModel | Baseline:
        """The model with the averaged weights, gathered on this device; all processes must call it."""
        if not self.runtime.shards_weights:
            return self.averaged
        with torch.random.fork_rng(devices=[]):
            model = build_model(self.config, self.corpus.num_classes)
        model = model.to(self.runtime.device).requires_grad_(False).eval()
        for parameter, averaged in zip(model.parameters(), self.averaged.parameters(), strict=True):
            parameter.copy_(whole(averaged))
        return model

    def is_finite(self) -> bool:
        """Whether all weights are finite, in all processes."""
        own = (p.to_local() if isinstance(p, DTensor) else p for p in self.model.parameters())
        return not self.runtime.team.any(not all(bool(p.isfinite().all()) for p in own))

    def trained_model(self, profile: Profile | None = None) -> AnyTrained:
        """The averaged weights with their profile: one just measured, or the best known; all processes must call it."""
        averaged = self.whole_average()
        facts: dict[str, Any] = {
            "config": self.config,
            "alphabet": self.corpus.alphabet,
            "sample_rate": self.corpus.sample_rate,
            "step": self.step,
            "data_title": self.corpus.title,
            "data_fingerprint": self.corpus.fingerprint,
        }
        if isinstance(averaged, CodingModel):
            return TrainedCoding(model=averaged, **facts)
        if not isinstance(averaged, ARDM):
            return TrainedBaseline(model=averaged, **facts)
        is_measured = profile is not None or (self.measured_profile is not None and self.measured_step == self.step)
        source = MEASURED if is_measured else AVERAGED if self.measured_profile is None else MEASURED_EARLIER
        profile = profile or self.measured_profile or self.profile
        return TrainedModel(model=averaged, profile=profile, profile_source=source, **facts)

    def state_tensors(self) -> dict[str, Tensor]:
        """All tensors that the rest of the run depends on, in the first process; all processes must call it."""
        tensors: dict[str, Tensor] = {f"weights/{n}": p for n, p in self.model.named_parameters()}
        tensors |= {f"averaged/{n}": p for n, p in self.averaged.named_parameters()}
        tensors |= profile_tensors("profile", self.profile)
        if self.measured_profile is not None:
            tensors |= profile_tensors("measured_profile", self.measured_profile)
        names: dict[Tensor, str] = {p: n for n, p in self.model.named_parameters()}
        for optimizer in self.optimizers:
            for parameter, state in optimizer.state.items():
                tensors |= {f"optimizer/{names[parameter]}/{key}": value for key, value in state.items()}
        return gathered(tensors, keep=self.runtime.team.is_first)

    def load_state_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Restore what `state_tensors` returned; only this process's share of it goes to the device."""
        device = self.runtime.device
        with torch.no_grad():
            for prefix, model in (("weights", self.model), ("averaged", self.averaged)):
                for name, parameter in model.named_parameters():
                    parameter.copy_(shard_like(tensors[f"{prefix}/{name}"].to(device), parameter))
        profiles = {name: t.to(device) for name, t in tensors.items() if "profile/" in name}
        self.profile = profile_from_tensors("profile", profiles)
        if "measured_profile/bits" in profiles:
            self.measured_profile = profile_from_tensors("measured_profile", profiles)
        owners = {p: o for o in self.optimizers for g in o.param_groups for p in g["params"]}
        for name, parameter in self.model.named_parameters():
            prefix = f"optimizer/{name}/"
            state = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
            owners[parameter].state[parameter] = {k: shard_like(v.to(device), parameter) for k, v in state.items()}


def make_optimizers(config: RunConfig, model: nn.Module, team: Team) -> list[torch.optim.Optimizer]:
    """Muon for hidden matrices, if the configuration has a rate for it, and fused AdamW for everything else."""
    train = config.train
    hidden = {n: p for n, p in model.named_parameters() if train.muon_rate is not None and is_hidden_matrix(n, p)}
    others = [p for n, p in model.named_parameters() if n not in hidden]
    decay = train.weight_decay
    adamw = torch.optim.AdamW(others, lr=train.learning_rate, betas=train.betas, weight_decay=decay, fused=True)
    optimizers: list[torch.optim.Optimizer] = [adamw]
    if train.muon_rate is not None and hidden:
        optimizers.append(Muon(hidden.values(), lr=train.muon_rate, weight_decay=decay, team=team))
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["peak_rate"] = group["lr"]
    return optimizers


def step_seed(seed: int, step: int, shard: int = 0) -> int:
    """The seed of a shard of a training step."""
    return (seed * 1_000_003 + step + (shard << 40)) & (2**63 - 1)


def coming_seeds(config: RunConfig, team: Team, step: int, shard: int) -> list[int]:
    """The seeds of this shard of a step and of the process's next ones, for a sampler to read ahead."""
    last, shards = max(config.train.steps, step + 1), team.share_of(config.train.num_shards)
    draws = ((s, own) for s in range(step, last) for own in shards if (s, own) >= (step, shard))
    return [step_seed(config.seed, s, own) for s, own in islice(draws, AHEAD)]
