"""The complete configuration of a run, as it travels with every checkpoint."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from torch import nn

from ardm.baselines.causal import Autoregressive
from ardm.baselines.d3pm import D3PM
from ardm.baselines.methods import ARDM_METHOD, Baseline, MethodConfig, build_causal_network
from ardm.data.audio import AudioKind
from ardm.data.corpus import Augmentation
from ardm.data.images import ImageKind
from ardm.data.text import TextKind
from ardm.depth import BaseDepthMap, absorbing
from ardm.errors import ExactError, UsageError
from ardm.exact.transformer import ExactTransformer
from ardm.exact.unet import ExactUNet
from ardm.exact.wavenet import ExactWaveNet
from ardm.model import ARDM
from ardm.nn import (
    NETWORKS,
    NetworkConfig,
    PaperWaveNetConfig,
    TransformerConfig,
    network_kind,
)
from ardm.orders import ORDER_NAMES, Shape
from ardm.parametrizations import (
    CompandedMixtureParametrization,
    DataParametrization,
    DirectParametrization,
    LogisticMixtureParametrization,
    Parametrization,
)

MAX_VARIABLES = 2**20
MOST_LOGITS = 4096
"""Classes for which a row of logits is affordable."""

MODULES = {name: kind.module for name, kind in NETWORKS.items()}
EXACT_NETWORKS = {"unet": ExactUNet, "transformer": ExactTransformer, "paper-wavenet": ExactWaveNet}

ParametrizationName = Literal["data", "direct", "logistic", "companded"]
MIXTURES: dict[ParametrizationName, type[LogisticMixtureParametrization]] = {
    "logistic": LogisticMixtureParametrization,
    "companded": CompandedMixtureParametrization,
}
"""Parametrizations of many classes in one stage."""


@dataclass(frozen=True, kw_only=True)
class SequenceData:
    """Items in a row."""

    num_variables: int

    def __post_init__(self) -> None:
        if not 1 <= self.num_variables <= MAX_VARIABLES:
            raise ValueError(f"an item has 1 to {MAX_VARIABLES} variables, got {self.num_variables}")

    @property
    def shape(self) -> Shape:
        """The shape of an item."""
        return (self.num_variables,)


@dataclass(frozen=True, kw_only=True)
class TextData(SequenceData):
    """What a text model is trained on."""

    medium: ClassVar = "text"
    kind: TextKind
    num_variables: int = 250
    """Characters of an item; the paper's 250 divide text8's splits evenly."""


@dataclass(frozen=True, kw_only=True)
class AudioData(SequenceData):
    """What a model of 16-bit sound is trained on."""

    medium: ClassVar = "sound"
    kind: AudioKind
    num_variables: int = 16_000
    """Samples of an item; one second of SC09."""
    augmentation: Augmentation = "none"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.augmentation == "flips and turns":
            raise ValueError("sound is augmented by flips (upside down) or not at all; only images can be turned")


@dataclass(frozen=True, kw_only=True)
class ImageData:
    """What an image model is trained on."""

    medium: ClassVar = "images"
    kind: ImageKind
    height: int = 32
    width: int = 32
    channels: Literal[1, 3] = 3
    augmentation: Augmentation = "none"
    holds_out: bool = True
    """CIFAR-10: whether the last 1000 training images are for validation alone, or trained on as well."""

    def __post_init__(self) -> None:
        if min(self.height, self.width) < 1 or self.num_variables > MAX_VARIABLES:
            raise ValueError(f"an item has 1 to {MAX_VARIABLES} variables, got {self.height} x {self.width} pixels")
        if self.channels not in (1, 3):
            raise ValueError(f"images have 1 channel (grey) or 3 (colour), got {self.channels}")
        if self.kind == "cifar10" and self.channels != 3:
            raise ValueError("CIFAR-10 is in colour: it has 3 channels")
        if self.kind != "cifar10" and not self.holds_out:
            raise ValueError("only CIFAR-10 can be trained on whole (--train-on-all)")

    @property
    def shape(self) -> Shape:
        """The shape of an item."""
        return (self.height, self.width, self.channels)

    @property
    def num_variables(self) -> int:
        """D: sub-pixels of an item."""
        return math.prod(self.shape)


DataConfig = TextData | ImageData | AudioData
DATA_CLASSES: tuple[tuple[type[DataConfig], tuple[str, ...]], ...] = (
    (TextData, get_args(TextKind)),
    (ImageData, get_args(ImageKind)),
    (AudioData, get_args(AudioKind)),
)
"""Configurations of data with the kinds that they have."""


@dataclass(frozen=True, kw_only=True)
class DepthConfig:
    """How variables decay: to a mask class at once (base None), or digit by digit in a base."""

    base: int | None = None
    parametrization: ParametrizationName = "data"
    """How outputs become probabilities; direct needs a base, logistic and companded must have none."""
    absorbing_value: int | None = None
    """The value of hidden variables without a base; None: a class of its own."""
    num_components: int = 10
    """Logistics of a mixture."""
    min_log_scale: float = -14.0
    """Least logarithm of a logistic's scale; the authors' -7 costs bits (see `LogisticMixtureParametrization`)."""

    def __post_init__(self) -> None:
        if self.base is None and self.parametrization == "direct":
            raise ValueError("the direct parametrization needs a base")
        if self.base is not None and self.parametrization in MIXTURES:
            raise ValueError("a mixture of logistics has one stage: leave the base out, or use direct")
        if self.num_components < 1:
            raise ValueError(f"a mixture needs at least one component, got {self.num_components}")
        if not -50 <= self.min_log_scale <= 0:
            raise ValueError(f"the least log-scale must lie in -50..0, got {self.min_log_scale}")
        if self.base is not None and self.base < 2:
            raise ValueError(f"the base must be at least 2, got {self.base}")

    def build(self, num_classes: int) -> Parametrization:
        """The parametrization, with its depth map, for K classes."""
        if self.parametrization == "data" and num_classes > MOST_LOGITS:
            raise UsageError(
                f"{num_classes} classes are too many for a logit each; use the companded parametrization, or direct "
                "with a base"
            )
        if self.base is None:
            depth = absorbing(num_classes, self.absorbing_value)
            if self.parametrization in MIXTURES:
                return MIXTURES[self.parametrization](depth, self.num_components, self.min_log_scale)
            return DataParametrization(depth)
        if not 2 <= self.base < num_classes:
            raise UsageError(
                f"the base must lie in 2..{num_classes - 1} for {num_classes} classes, got {self.base}; "
                "leave it out for an order-agnostic model"
            )
        digits = BaseDepthMap(num_classes, self.base)
        return DataParametrization(digits) if self.parametrization == "data" else DirectParametrization(digits)


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """The optimiser and the loop."""

    steps: int
    batch_size: int
    num_shards: int = 1
    """Parts of a batch that are taken one after the other (gradient accumulation), each with draws of its own."""
    learning_rate: float
    """Peak rate of AdamW."""
    muon_rate: float | None = None
    """Peak rate of Muon for the matrices inside blocks; None trains everything with AdamW."""
    betas: tuple[float, float] = (0.9, 0.99)
    weight_decay: float = 0.0
    warmup_steps: int = 0
    """Steps of linear warm-up."""
    decay_fraction: float = 0.0
    """Last part of the steps over which the rate falls linearly to zero."""
    clip_norm: float = 1.0
    """Gradients with a larger norm are scaled down to it."""
    ema_decay: float = 0.999
    """Weights for evaluation are an exponential moving average with this decay."""
    cross_entropy_weight: float = 0.0
    """Weight of the authors' CE term beside the bound, both in bits (see `objective.StepLoss`)."""
    order: str | None = None
    """An order by its name, to code in: the last part of the steps trains for it instead of for random orders."""
    order_fraction: float = 0.5
    """That part, if there is an order."""
    order_share: float = 1.0
    """The share of items that take the order then; the others keep random ones."""
    profile_momentum: float = 0.95
    """Momentum of the moving average of each loss component."""
    eval_items: int = 512
    """Held-out items of an evaluation."""
    eval_every: int = 1000
    checkpoint_every: int = 1000
    log_every: int = 50

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "num_shards", "eval_items", "eval_every", "checkpoint_every", "log_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.batch_size % self.num_shards:
            whose = "(as many as --shards, or as processes)"
            raise ValueError(f"a batch of {self.batch_size} items has no {self.num_shards} equal shards {whose}")
        for name in ("learning_rate", "muon_rate", "clip_norm"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"{name} must be positive and finite, got {value}")
        for name in ("warmup_steps", "weight_decay", "cross_entropy_weight"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")
        if self.order is not None and self.order not in ORDER_NAMES:
            raise ValueError(f"the order must be one of {', '.join(ORDER_NAMES)}, got {self.order}")
        for name in ("ema_decay", "profile_momentum", "decay_fraction", "order_fraction", "order_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must lie in [0, 1], got {getattr(self, name)}")

    @property
    def shard_size(self) -> int:
        """Items that the network is given at once."""
        return self.batch_size // self.num_shards

    def rate_factor(self, step: int) -> float:
        """The rate of a step (from 0) relative to its peak: warm-up, constant, linear decay."""
        warmup = (step + 1) / (self.warmup_steps + 1)
        decay_steps = self.decay_fraction * self.steps
        decay = (self.steps - step) / decay_steps if decay_steps else 1.0
        return max(0.0, min(1.0, warmup, decay))

    def has_order(self, step: int) -> bool:
        """Whether a step (from 0) trains for the order, instead of for random ones."""
        return self.order is not None and step >= (1 - self.order_fraction) * self.steps


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything that determines a run, apart from the data's content."""

    preset: str
    data: DataConfig
    network: NetworkConfig
    train: TrainConfig
    depth: DepthConfig = DepthConfig()
    method: MethodConfig = ARDM_METHOD
    seed: int = 0
    initial_data: tuple[str, ...] = ()
    """Fingerprints of the data that the weights at the start were trained on."""

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 2**40:
            raise ValueError(f"the seed must lie in 0..2^40, got {self.seed}")
        if self.data.medium not in NETWORKS[network_kind(self.network)].takes:
            raise ValueError(f"a {network_kind(self.network)} network does not take data of kind {self.data.kind}")
        if self.data.medium == "text" and self.depth.parametrization in MIXTURES:
            raise ValueError(
                f"the {self.depth.parametrization} parametrization is for images and sound, whose neighbouring classes "
                "are alike; leave it out for text"
            )

        if not self.method.is_ardm:
            self._check_baseline()

    def _check_baseline(self) -> None:
        name = self.method.name
        if self.depth.base is not None:
            raise ValueError(f"the method {name} has no stages: leave the base out")
        if self.train.order is not None:
            raise ValueError(f"the method {name} is not trained for an order: leave the order out")
        if self.method.is_diffusion and self.depth.parametrization != "data":
            raise ValueError(
                f"the method {name} needs a logit for each class: text and images have one with --parametrization data"
            )
        if name == "d3pm-gaussian" and self.data.medium == "text":
            raise ValueError("Gaussian noise needs classes in order, which characters are not; use d3pm-uniform")
        if not self.method.takes(self.network):
            kinds = "text, and causal for sound with the presets sc09-wavenet and sc09-paper"
            raise ValueError(
                f"the method {name} has no form of a {network_kind(self.network)} network: it is for {kinds}"
            )
        if self.method.is_permuted and getattr(self.network, "kernel", 1) > 1:
            raise ValueError("the method permuted needs --kernel 1: neighbours in an order are far apart")

    def build(self, num_classes: int) -> ARDM | Baseline:
        """A freshly initialised model of the method for K classes."""
        if self.method.is_ardm:
            return self.build_model(num_classes)
        return self._build_diffusion(num_classes) if self.method.is_diffusion else self._build_causal(num_classes)

    def build_model(self, num_classes: int) -> ARDM:
        """A freshly initialised ARDM for K classes."""
        parametrization = self.depth.build(num_classes)
        return ARDM(self._build_network(MODULES, parametrization), parametrization, self.data.shape)

    def _build_diffusion(self, num_classes: int) -> D3PM:
        num_levels = self.method.num_levels(self.network)
        return D3PM(
            self._build_network(MODULES, self.depth.build(num_classes), num_stages=num_levels),
            self.method.process(num_classes, self.depth.absorbing_value),
            self.data.shape,
            weighted=not self.method.is_absorbing,
            num_levels=num_levels,
        )

    def _build_causal(self, num_classes: int) -> Autoregressive:
        parametrization = self.depth.build(num_classes)
        network = build_causal_network(
            self.network,
            num_values=parametrization.depth.num_values,
            num_outputs=parametrization.num_outputs,
            is_permuted=self.method.is_permuted,
        )
        return Autoregressive(network, parametrization, self.data.shape)

    def build_exact_core(self, parametrization: Parametrization) -> nn.Module:
        """The exact form of the network, with all of its integers zero."""
        if network_kind(self.network) not in EXACT_NETWORKS:
            kinds = ", ".join(EXACT_NETWORKS)
            raise ExactError(f"a {network_kind(self.network)} network has no exact form; these have one: {kinds}")
        knows_length = isinstance(self.network, TransformerConfig | PaperWaveNetConfig)
        lengths = {"max_length": self.data.num_variables} if knows_length else {}
        return self._build_network(EXACT_NETWORKS, parametrization, **lengths)

    def _build_network(
        self, modules: Mapping[str, Callable[..., nn.Module]], parametrization: Parametrization, **sizes: int
    ) -> nn.Module:
        channels = {"num_channels": self.data.shape[-1]} if isinstance(self.data, ImageData) else {}
        stages = {"num_stages": parametrization.depth.num_stages}
        return modules[network_kind(self.network)](
            self.network,
            num_values=parametrization.depth.num_values,
            num_outputs=parametrization.num_outputs,
            **channels,
            **stages | sizes,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        values = dataclasses.asdict(self)
        values["network"]["kind"] = network_kind(self.network)
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "RunConfig":
        """The configuration that `to_dict` wrote."""
        network = _with_tuples(values["network"])
        data_class = next(cls for cls, kinds in DATA_CLASSES if values["data"]["kind"] in kinds)
        return cls(
            preset=values["preset"],
            data=data_class(**values["data"]),
            network=NETWORKS[network.pop("kind")].config(**network),
            train=TrainConfig(**_with_tuples(values["train"])),
            depth=DepthConfig(**values["depth"]),
            method=MethodConfig(**values.get("method", {})),
            seed=values["seed"],
            initial_data=tuple(values.get("initial_data", ())),
        )


def _with_tuples(values: dict[str, Any]) -> dict[str, Any]:
    """Values read from JSON, which has lists only, with tuples again."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
