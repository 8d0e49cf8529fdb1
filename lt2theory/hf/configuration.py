"""The configuration as Hugging Face's `transformers` keeps it, around a `LoopedConfig`."""

from typing import Any

from transformers import PreTrainedConfig
from typing_extensions import override

from lt2theory.models import LoopedConfig
from lt2theory.models.exits import check_threshold


class LoopedLTConfig(PreTrainedConfig):
    """A `LoopedConfig` in a `config.json`, under the key `looped`.

    It has a key of its own because some of its fields (`top_k`, `max_length`) are names of
    generation settings in `transformers`. All fields are written, at their defaults too, so that a
    saved model stays what it is.

    Args:
        looped: The configuration, or its fields; None for the defaults.
        use_cache: Whether a forward call outside training gives a cache when it is not told.
        exit_threshold: Outside training, read every token out after the first loop by which the
            exit gate's probabilities add up to this share, as Ouro's public code does: all loops
            run, so caches are whole. None or 1 reads the last loop.
        kwargs: Fields of `PreTrainedConfig`, such as `bos_token_id` and `dtype`.

    Raises:
        ValueError: A field of `looped` is unknown or out of range, or there is a threshold and no
            exit gate.
    """

    model_type = "looped_lt"
    keys_to_ignore_at_inference = ("cache",)

    def __init__(
        self,
        looped: LoopedConfig | dict[str, Any] | None = None,
        use_cache: bool = True,
        exit_threshold: float | None = None,
        **kwargs: Any,
    ) -> None:
        own = LoopedConfig.model_validate({} if looped is None else looped)
        self.looped: dict[str, Any] = {name: getattr(own, name) for name in type(own).model_fields}
        self.use_cache = use_cache
        if exit_threshold is not None:
            check_threshold("exit_threshold", exit_threshold)
        if exit_threshold is not None and exit_threshold < 1 and not own.exit_gate:
            raise ValueError(f"exit_threshold: {exit_threshold} needs a model with exit_gate=True")
        self.exit_threshold = exit_threshold
        # It follows `looped`, whatever stands in an edited file.
        kwargs["tie_word_embeddings"] = own.tie_embeddings
        super().__init__(**kwargs)

    @property
    def looped_config(self) -> LoopedConfig:
        """The configuration of the model itself."""
        return LoopedConfig.model_validate(self.looped)

    @property
    def vocab_size(self) -> int:
        """Tokens of the vocabulary."""
        return int(self.looped["vocab_size"])

    @property
    def leaves_early(self) -> bool:
        """Whether tokens may be read out before the last loop."""
        return self.exit_threshold is not None and self.exit_threshold < 1

    @property
    def hidden_size(self) -> int:
        """Width of the residual stream."""
        return int(self.looped["width"])

    @property
    def num_hidden_layers(self) -> int:
        """Blocks, each counted once however often it is looped over."""
        return int(self.looped["num_layers"])

    @property
    def num_attention_heads(self) -> int:
        """Heads of a layer."""
        return int(self.looped["num_heads"])

    @property
    def max_position_embeddings(self) -> int | None:
        """Longest text, where positions are learned; None where nothing limits it."""
        length = self.looped["max_length"]
        return None if length is None else int(length)

    @override
    def to_diff_dict(self) -> dict[str, Any]:
        """What is written: all of `looped`, and of the rest what differs from the defaults.

        Returns:
            Values by name.
        """
        written: dict[str, Any] = super().to_diff_dict()
        written["looped"] = dict(self.looped)
        return written
