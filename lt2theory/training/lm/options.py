"""The parts of a language-model run's configuration: optimiser, stability, execution."""

from typing import Literal

from pydantic import Field, model_validator

from lt2theory.fields import Frozen
from lt2theory.training.config import Device

Parallel = Literal["auto", "fsdp", "replicate"]
SinkName = Literal["tensorboard", "wandb", "trackio"]


class LmOptimiserConfig(Frozen):
    """The optimiser and the course of its learning rate."""

    name: Literal["adamw", "muon"] = Field(
        "adamw",
        description="AdamW, or Muon for the matrices of the blocks and AdamW for everything else. "
        "Muon's steps are scaled to AdamW's size, so that one learning rate serves both.",
    )
    learning_rate: float = Field(1e-3, gt=0, description="Peak learning rate.")
    betas: tuple[float, float] = Field((0.9, 0.95), description="Decay rates of AdamW's moments.")
    momentum: float = Field(0.95, ge=0, lt=1, description="Momentum of Muon.")
    weight_decay: float = Field(
        0.1,
        ge=0,
        description="Decoupled weight decay of the matrices of blocks; gains, biases, "
        "gates of the loop and taps of convolutions have none.",
    )
    decay_embeddings: bool = Field(True, description="Decay embeddings and head as well.")
    schedule: Literal["constant", "linear", "cosine", "wsd"] = Field(
        "cosine",
        description="Course after the rise: constant, linear, half a cosine, or constant until a "
        "last part that decays (warm-up, stable, decay).",
    )
    warmup_steps: int = Field(100, ge=0, description="Steps of linear rise.")
    final_fraction: float = Field(
        0.1, ge=0, le=1, description="Learning rate of the last step, as a fraction of the peak."
    )
    decay_share: float = Field(
        0.2, gt=0, le=1, description="Share of all steps that the decay of 'wsd' takes."
    )
    decay_shape: Literal["linear", "sqrt"] = Field(
        "sqrt", description="Decay of 'wsd': linear, or 1 - sqrt of its course."
    )
    clip: float | None = Field(
        1.0, gt=0, description="Largest gradient norm; longer gradients are scaled to it."
    )
    auxiliary_weight: float = Field(
        1.0,
        ge=0,
        description="Weight of the losses that parts of the model have of their own, "
        "such as DSA's indexer; at 0 they are not computed.",
    )

    @model_validator(mode="after")
    def _check(self) -> "LmOptimiserConfig":
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas: got {self.betas}, allowed are numbers in [0, 1)")
        return self


class StabilityConfig(Frozen):
    """What happens to steps that are not finite and to spikes of the loss; instruments."""

    max_bad_steps: int = Field(
        5,
        ge=0,
        description="A step whose loss or gradient norm is not finite changes nothing; "
        "after more than so many in a row the run ends as diverged.",
    )
    spike_action: Literal["log", "skip"] = Field(
        "log",
        description="What a spike leads to: a record, or that the step changes nothing too "
        "(at most max_bad_steps in a row: a lasting change is no spike).",
    )
    spike_deviations: float = Field(
        8.0,
        gt=0,
        description="A spike is a loss this many robust deviations (1.4826 times the "
        "median distance from the median) above the median of the last spike_window losses.",
    )
    spike_window: int = Field(
        64,
        ge=8,
        le=4096,
        description="Accepted steps that a spike is measured by; no earlier step is one.",
    )
    measure_every: int = Field(
        100,
        ge=0,
        description="Steps between two readings of the instruments (residual sizes, massive "
        "activations, sinks, keys, gates and gradients by loop and layer); 0 for never. A reading "
        "costs a step's share of measure_windows.",
    )
    measure_windows: int = Field(1, ge=1, description="Windows that a reading looks at.")


class Execution(Frozen):
    """How a run is carried out; it may change whenever the run is resumed."""

    device: Device = Field("cpu", description="Where to compute.")
    parallel: Parallel = Field(
        "auto",
        description="How several processes share the work: 'fsdp' shards weights, gradients and "
        "moments, block by block; 'replicate' keeps them whole everywhere. 'auto' is fsdp, "
        "unless the optimiser or compile needs whole weights.",
    )
    reshard: bool = Field(
        False,
        description="With fsdp, drop a block's gathered weights after each use. A looped block is "
        "then gathered in every loop, forward and backward, instead of once a step.",
    )
    micro_batch_size: int | None = Field(
        None,
        ge=1,
        description="Windows that a process runs at once; gradients are accumulated "
        "over its share of the batch. None is the whole share.",
    )
    compile: bool = Field(
        False,
        description="Fuse the parts of blocks around the recurrences by torch.compile; "
        "needs a C++ compiler, and whole weights in every process.",
    )
    cuda_graph: bool = Field(
        False,
        description="Replay forward, backward and clipping of a step as one CUDA graph and AdamW's "
        "as another, in one process on a GPU; on a CPU the same buffers without graphs. Several "
        "processes take their steps one operation after the other.",
    )
    threads: int | None = Field(
        None,
        ge=1,
        le=1024,
        description="Threads a tensor operation may use; none leaves torch's choice.",
    )
    checkpoint_every: int = Field(500, ge=1, description="Steps between two checkpoints.")
    async_checkpoints: bool = Field(
        False,
        description="Write checkpoints beside the next steps, from a copy in the host's memory.",
    )
    sinks: tuple[SinkName, ...] = Field(
        (), description="Where metrics go besides the run's folder."
    )
    peak_tflops: float | None = Field(
        None,
        gt=0,
        description="Dense peak rate of a device in TFLOP/s, for the model FLOPs "
        "utilisation; none looks bfloat16's up by the device's name.",
    )
