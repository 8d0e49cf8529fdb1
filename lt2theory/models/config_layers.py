"""What the fields of a configuration make of every layer."""

from lt2theory.mixers import MIXERS, LinearMixer
from lt2theory.models.config_fields import ConfigFields
from lt2theory.models.pattern import LayerSpec, expand_loops


class LayeredConfig(ConfigFields):
    """Which mixer stands at which layer of which loop, and how wide its heads are."""

    @property
    def layers(self) -> tuple[LayerSpec, ...]:
        """One spec a layer, in the first loop; `loops` has those of all."""
        return self.loops[0]

    @property
    def loops(self) -> tuple[tuple[LayerSpec, ...], ...]:
        """For each loop one spec a layer, from the pattern."""
        return expand_loops(self.pattern, self.num_layers, self.num_loops)

    def specs_at(self, layer: int) -> tuple[LayerSpec, ...]:
        """What one layer is in the loops.

        Args:
            layer: Layer, counted from 0.

        Returns:
            Its spec in every loop.
        """
        return tuple(loop[layer] for loop in self.loops)

    def mixers_at(self, layer: int) -> tuple[LayerSpec, ...]:
        """The mixers that one layer has weights for.

        Args:
            layer: Layer, counted from 0.

        Returns:
            The first spec of each, in the order in which the loops come to them: one, unless
            the pattern changes the mixer from loop to loop.
        """
        first: dict[str, LayerSpec] = {}
        for spec in self.specs_at(layer):
            first.setdefault(spec.weights, spec)
        return tuple(first.values())

    def mixer_number(self, layer: int, loop: int) -> int:
        """Which of its mixers a layer uses in a loop.

        Args:
            layer: Layer, counted from 0.
            loop: Loop, counted from 0.

        Returns:
            Its number in `mixers_at`.
        """
        weights = [spec.weights for spec in self.mixers_at(layer)]
        return weights.index(self.loops[loop][layer].weights)

    @property
    def key_dim(self) -> int:
        """Key width of a head, unless `linear_head_dim` says otherwise for linear mixers."""
        return self.head_dim if self.head_dim is not None else self.width // self.num_heads

    def head_dims(self, layer: LayerSpec) -> tuple[int, int]:
        """Key and value width of a head of one layer.

        Args:
            layer: Its place in the pattern.

        Returns:
            Both widths.
        """
        keys = self.key_dim
        values = self.value_dim if self.value_dim is not None else keys
        if not issubclass(MIXERS[layer.mixer], LinearMixer):
            return keys, values
        if self.linear_head_dim is not None:
            keys = self.linear_head_dim
            values = self.value_dim if self.value_dim is not None else keys
        return keys, self.linear_value_dim if self.linear_value_dim is not None else values
