"""The tokenizer of bytes as one that `transformers` saves and loads."""

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast
from transformers.convert_slow_tokenizer import bytes_to_unicode

from lt2theory.training.text.tokenizer import ByteTokenizer

BEGIN, END = "<|begin|>", "<|end|>"


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """Every byte of UTF-8 is a token, 256 and 257 mark where a document begins and ends.

    The ids are those of `lt2theory.training.text.ByteTokenizer`. A text begins with the first mark
    unless `add_special_tokens=False`; padding is on the left, with the second mark.

    Returns:
        The tokenizer; save it beside a model trained on bytes.
    """
    letters = bytes_to_unicode()  # a printable letter for every byte, as in GPT-2
    backend = Tokenizer(models.BPE(vocab={letters[i]: i for i in range(256)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(mark, special=True) for mark in (BEGIN, END)])
    marks = [(BEGIN, ByteTokenizer.begin), (END, ByteTokenizer.end)]
    backend.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN} $A", special_tokens=marks
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token=BEGIN,
        eos_token=END,
        pad_token=END,
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )
