"""`LoopedModel` as a causal language model of Hugging Face's `transformers`."""

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import GenerationConfig, GenerationMixin, PreTrainedModel
from transformers.generation.configuration_utils import GenerationMode
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.utils.generic import can_return_tuple
from typing_extensions import override

from lt2theory.hf.arguments import check_loss, kept_logits, last_logits
from lt2theory.hf.cache import LoopedLTCache
from lt2theory.hf.card import write_card
from lt2theory.hf.configuration import LoopedLTConfig
from lt2theory.hf.generation import generation_cache
from lt2theory.hf.losses import next_token_loss, training_loss
from lt2theory.hf.masks import documents_of_mask
from lt2theory.models import LoopedModel, read_leaving


class LoopedLTForCausalLM(PreTrainedModel, GenerationMixin):
    """A looped model with its head.

    `generate()` goes through the model's own cache, one slot a (layer, loop), and gives what
    calls on the whole text would give. Greedy search and sampling step through a `Decoder` on a
    GPU, or where `cache_implementation` is "static"; "dynamic" never does.

    Args:
        config: The configuration.
    """

    config_class = LoopedLTConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    accepts_loss_kwargs = True
    _no_split_modules = ["Block"]  # noqa: RUF012 - as transformers declares it
    # What decays are made of: read in float32 everywhere, and too coarse in bfloat16 where a decay
    # is close to 1.
    _keep_in_fp32_modules_strict = [r"\.(A_log|dt_bias)$"]  # noqa: RUF012 - as transformers declares it

    def __init__(self, config: LoopedLTConfig) -> None:
        super().__init__(config)
        self._adopt(LoopedModel(config.looped_config))

    @classmethod
    def from_looped(cls, model: LoopedModel, **kwargs: Any) -> "LoopedLTForCausalLM":
        """Put a model under this interface; the weights are shared, not copied.

        Args:
            model: The model, such as one that was trained.
            kwargs: Further fields of `LoopedLTConfig`, such as `eos_token_id`.

        Returns:
            The same model, to be saved or to generate with.
        """
        config = LoopedLTConfig(model.config, dtype=model.dtype, **kwargs)
        with torch.device("meta"):
            wrapped = cls(config)
        wrapped._adopt(model)
        return wrapped

    def _adopt(self, model: LoopedModel) -> None:
        self.model = model
        self.gradient_checkpointing = model.config.checkpointing != "none"
        if model.embedding.weight.device.type != "meta":
            for parameter in model.parameters():
                # A LoopedModel draws its own start.
                parameter._is_hf_initialized = True  # type: ignore[attr-defined]  # theirs
        self.post_init()  # type: ignore[no-untyped-call]

    @can_return_tuple  # type: ignore[untyped-decorator]
    @override
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        cache: LoopedLTCache | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        *,
        documents: Tensor | None = None,
        output_hidden_states: bool | None = None,
        num_items_in_batch: Tensor | int | None = None,
    ) -> CausalLMOutputWithPast:
        """Logits, and the loss where there are labels.

        Args:
            input_ids: Token ids `[b t]`.
            attention_mask: 1 for tokens, 0 for padding, which stands before or after the tokens of
                a row: `[b t]`, or with a cache `[b past + t]`.
            cache: Goes on from what it has read; updated in place.
            labels: The tokens again `[b t]`, -100 where nothing is to be learnt; they are shifted
                here, as everywhere in `transformers`.
            use_cache: Whether to give a cache; None does outside training, without labels, where
                the configuration says so.
            logits_to_keep: Logits of the last so many positions, 0 for all; or indices `[n]`.
            documents: Document of every token `[b t]`, in place of `attention_mask`: nothing
                crosses from one run of equal ids into the next.
            output_hidden_states: Whether to give h^(0) .. h^(T), the streams between the loops;
                `model.read_out` makes logits of any of them.
            num_items_in_batch: Labels of all accumulated batches together, by which the sum of
                losses is divided; None takes the mean.

        Returns:
            `loss`, `logits` `[b n vocab]`, `cache` and `hidden_states`. In training mode the loss
            is the one that the configuration names (`loop_loss`, with an indexer's own), else the
            cross-entropy of the logits.

        Raises:
            ValueError: Arguments contradict each other, or as `LoopedModel.forward`.
        """
        if attention_mask is not None and documents is not None:
            raise ValueError("documents: give documents or attention_mask, not both")
        if cache is None and self._makes_cache(use_cache, labels):
            cache = LoopedLTCache(self.model, input_ids.shape[0])
        ids = documents
        if documents is None:
            ids = documents_of_mask(attention_mask, input_ids, cache)
        states: tuple[Tensor, ...] | None = None
        loss = None
        if labels is not None:
            check_loss(input_ids, labels, cache, logits_to_keep)
        if output_hidden_states and cache is not None:
            raise ValueError("output_hidden_states: True is not possible with a cache")
        if labels is not None and self.training:
            loss, logits = training_loss(self.model, input_ids, labels, ids, num_items_in_batch)
        elif output_hidden_states:
            trace = self.model.trace(input_ids, documents=ids)
            logits, states = trace.logits, trace.states
        elif self.config.leaves_early and not self.training:
            logits = self._leave(input_ids, ids, cache, last_logits(logits_to_keep))
        elif cache is not None:
            logits = cache.read(input_ids, documents=ids, last_logits=last_logits(logits_to_keep))
        else:
            last = last_logits(logits_to_keep)
            logits = self.model(input_ids, documents=ids, last_logits=last)
        if labels is not None and loss is None:
            assert logits is not None
            loss = next_token_loss(logits, labels, num_items_in_batch)
        return CausalLMOutputWithPast(
            loss=loss, logits=kept_logits(logits, logits_to_keep), cache=cache, hidden_states=states
        )

    def _leave(
        self, tokens: Tensor, ids: Tensor | None, cache: LoopedLTCache | None, last: int | None
    ) -> Tensor:
        """Logits of every token at its exit; no gradients."""
        length, threshold = tokens.shape[1], self.config.exit_threshold
        looped = None
        if cache is not None:
            cache.note(ids)
            looped = cache.looped
        found = read_leaving(
            self.model, tokens, threshold, first=length, cache=looped, documents=ids
        )
        first = 0 if last is None else max(0, length - last)
        return cast("Tensor", self.model.read_out(found.last[:, first:]))

    def _makes_cache(self, use_cache: bool | None, labels: Tensor | None) -> bool:
        if use_cache is None:
            return self.config.use_cache and not self.training and labels is None
        return use_cache

    @override
    def _prepare_cache_for_generation(
        self,
        generation_config: GenerationConfig,
        model_kwargs: dict[str, Any],
        generation_mode: GenerationMode,
        batch_size: int,
        max_cache_length: int,
    ) -> bool:
        if model_kwargs.get("cache") is not None or generation_config.use_cache is False:
            return False
        model_kwargs["cache"] = generation_cache(
            self.model,
            generation_config,
            generation_mode,
            model_kwargs,
            batch_size=batch_size,
            max_cache_length=max_cache_length,
            limit=self.config.max_position_embeddings,
            leaves_early=self.config.leaves_early,
        )
        return True

    @override
    @torch.no_grad()
    def initialize_weights(self) -> None:
        """Start what a checkpoint lacked as a new model of the configuration starts."""
        missing = {
            name: parameter
            for name, parameter in self.model.named_parameters()
            if not (parameter.is_meta or getattr(parameter, "_is_hf_initialized", False))
        }
        if not missing:
            return
        fresh = dict(LoopedModel(self.config.looped_config).named_parameters())
        for name, parameter in missing.items():
            parameter.copy_(fresh[name])

    @override
    def _set_gradient_checkpointing(
        self,
        enable: bool = True,
        gradient_checkpointing_func: Callable[..., Any] = checkpoint,
        every_n_layers: int = 1,
    ) -> None:
        """Keep only what enters every loop (or block, where the configuration says so)."""
        own = self.config.looped_config.checkpointing
        grain = (own if own != "none" else "loop") if enable else "none"
        self.model.config = self.model.config.model_copy(update={"checkpointing": grain})
        self.gradient_checkpointing = enable

    @override
    def get_input_embeddings(self) -> nn.Embedding:
        return cast("nn.Embedding", self.model.embedding)

    @override
    def get_output_embeddings(self) -> nn.Module:
        tied = self.model.config.tie_embeddings
        return cast("nn.Module", self.model.embedding if tied else self.model.head)

    @override
    def resize_token_embeddings(self, *args: Any, **kwargs: Any) -> nn.Embedding:
        raise ValueError(
            f"vocab_size: {self.config.vocab_size} is fixed; build a LoopedConfig of another size"
        )

    @override
    def save_pretrained(  # type: ignore[override]  # the rest goes through as it is
        self, save_directory: str | PathLike[str], is_main_process: bool = True, **kwargs: Any
    ) -> None:
        """Write config, weights (safetensors), generation settings and a model card.

        Args:
            save_directory: The folder; a README.md that is there stays as it is.
            is_main_process: Whether this process writes.
            kwargs: As for `PreTrainedModel.save_pretrained`.
        """
        super().save_pretrained(save_directory, is_main_process=is_main_process, **kwargs)
        if is_main_process:
            write_card(self.model, Path(save_directory))
