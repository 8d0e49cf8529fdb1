"""The model card: a README.md that says what was saved and how to read it."""

from pathlib import Path

from lt2theory import __version__
from lt2theory.models import LoopedModel
from lt2theory.runs.atomic import write_text

CARD = "README.md"

_CARD = """\
---
library_name: transformers
pipeline_tag: text-generation
tags: [lt2theory, looped-transformer]
---

# Looped language model

{parameters:,} parameters: {layers} blocks of width {width}, run through {loops} times, pattern
`{pattern}`, {vocab:,} tokens. Written by lt2theory {version}; the weights are safetensors, and no
code is read from this folder.

```python
import lt2theory.hf  # registers the architecture
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("PATH")
```

| field | value |
|---|---|
{fields}

Not written here: what it was trained on, how it was evaluated, what it is for, and its licence.
"""


def write_card(model: LoopedModel, folder: Path) -> None:
    """Write README.md, unless there is one.

    Args:
        model: What was saved.
        folder: Where.
    """
    path = folder / CARD
    if not path.exists():
        write_text(path, card(model))


def card(model: LoopedModel) -> str:
    """Describe a model in Markdown.

    Args:
        model: The model.

    Returns:
        The text.
    """
    config = model.config
    values = {name: getattr(config, name) for name in type(config).model_fields}
    fields = "\n".join(f"| {name} | `{value}` |" for name, value in values.items())
    return _CARD.format(
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        layers=config.num_layers,
        width=config.width,
        loops=config.num_loops,
        pattern=config.pattern,
        vocab=config.vocab_size,
        version=__version__,
        fields=fields,
    )
