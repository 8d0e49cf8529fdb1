"""From an `attention_mask` to the documents of `LoopedModel.forward`."""

from jaxtyping import Bool, Int
from torch import Tensor

from lt2theory.hf.cache import LoopedLTCache


def documents_of_mask(
    attention_mask: Tensor | None, tokens: Int[Tensor, "b t"], cache: LoopedLTCache | None
) -> Int[Tensor, "b t"] | None:
    """The document id of every token of a call: 0, or -1 for padding.

    Args:
        attention_mask: 1 (or True) for tokens and 0 for padding: `[b past + t]`, of all tokens
            since the stream began, or `[b t]`, of those of this call. None is all ones.
        tokens: Tokens of this call.
        cache: What the call goes on from, or None.

    Returns:
        Ids, or None where no token of the stream is padding.

    Raises:
        ValueError: The mask has another shape, padding stands between the tokens of a row (where a
            state would have to skip it), or padding begins only after the first call.
    """
    past = 0 if cache is None else cache.get_seq_length()
    told = past > 0 and cache is not None and cache.has_documents
    unsure = told and cache is not None and cache.ends_in_padding
    batch, length = tokens.shape
    if attention_mask is None and not unsure:
        return tokens.new_zeros(tokens.shape) if told else None
    shapes = [(batch, past + length), *([] if unsure else [(batch, length)])]
    if attention_mask is None or tuple(attention_mask.shape) not in shapes:
        got = None if attention_mask is None else tuple(attention_mask.shape)
        wanted = " or ".join(map(str, dict.fromkeys(shapes)))
        raise ValueError(f"attention_mask: shape {got} must be {wanted}")
    real = (attention_mask != 0).to(tokens.device)
    new = real[:, real.shape[1] - length :]
    if told and length == 1 and not unsure:
        return new.long() - 1  # a step of generation: nothing is looked at, a GPU is not awaited
    if not told and bool(real.all()):
        return None
    if past and not told:
        raise ValueError("attention_mask: the cached text began without padding; none may follow")
    _check_unbroken(real)
    return new.long() - 1


def _check_unbroken(real: Bool[Tensor, "b t"]) -> None:
    """Refuse rows whose tokens are not side by side.

    Raises:
        ValueError: Naming the first of them.
    """
    begins = (real[:, 1:] & ~real[:, :-1]).sum(1) + real[:, 0]
    broken = (begins > 1).nonzero()
    if len(broken):
        raise ValueError(
            f"attention_mask: row {int(broken[0])} has padding between its tokens; only padding "
            "before or after them is possible, and before them if the text goes on"
        )
