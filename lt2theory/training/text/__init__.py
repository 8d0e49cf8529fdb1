"""Text data: tokenised corpora on disk, batches by step, and bits per byte.

`prepare` turns files into a `Corpus`; `TextBatches` gives windows of a split as a function of seed
and step; `bits_per_byte` evaluates a model beside `xz_baseline`.
"""

from lt2theory.training.text.batches import NO_TARGET as NO_TARGET
from lt2theory.training.text.batches import TextBatch as TextBatch
from lt2theory.training.text.batches import TextBatches as TextBatches
from lt2theory.training.text.batches import Windows as Windows
from lt2theory.training.text.bits import BitsPerByte as BitsPerByte
from lt2theory.training.text.bits import bits_per_byte as bits_per_byte
from lt2theory.training.text.config import CorpusConfig as CorpusConfig
from lt2theory.training.text.corpus import Corpus as Corpus
from lt2theory.training.text.corpus import TokenStream as TokenStream
from lt2theory.training.text.manifest import Manifest as Manifest
from lt2theory.training.text.packages import fetch as fetch
from lt2theory.training.text.prepare import prepare as prepare
from lt2theory.training.text.tokenizer import ByteTokenizer as ByteTokenizer
from lt2theory.training.text.tokenizer import Tokenizer as Tokenizer
from lt2theory.training.text.tokenizer import open_tokenizer as open_tokenizer
from lt2theory.training.text.xz import XzBaseline as XzBaseline
from lt2theory.training.text.xz import xz_baseline as xz_baseline
from lt2theory.training.text.xz import xz_bits_per_byte as xz_bits_per_byte
