"""A small byte-level teacher and its untrained student, on the excerpt that comes along."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from lt2theory.linearize.construct import build_student
from lt2theory.linearize.evaluation import Pair
from lt2theory.linearize.hybrids import student_config
from lt2theory.models import LoopedConfig, LoopedModel
from lt2theory.training.runtime import Runtime
from lt2theory.training.text import ByteTokenizer, Corpus, CorpusConfig, TokenStream, prepare

SMALL = {
    "vocab_size": 258,
    "width": 16,
    "num_layers": 2,
    "num_heads": 2,
    "num_kv_heads": 1,
    "head_dim": 8,
    "ffn_width": 24,
    "positions": "rope",
    "pattern": "full",
    "num_loops": 2,
    "init_std": 0.2,
}


@pytest.fixture(scope="session")
def stream(tmp_path_factory: pytest.TempPathFactory) -> TokenStream:
    """Held-out pieces of the excerpt."""
    folder = tmp_path_factory.mktemp("corpus")
    prepare(CorpusConfig(sources=("excerpt",), piece_bytes=600, eval_share=0.3), folder)
    return Corpus(folder).stream("eval")


@pytest.fixture
def make_pair(stream: TokenStream) -> Callable[..., Pair]:
    """Make a pair: `make_pair("gdn", **changes of the teacher)`."""

    def make(pattern: str = "gdn", **changes: object) -> Pair:
        teacher = LoopedModel(LoopedConfig.model_validate({**SMALL, **changes})).double().eval()
        teacher.requires_grad_(False)
        calibration = torch.from_numpy(stream.document(0)[0][:64].astype("int64"))[None]
        config = student_config(teacher.config, pattern)
        student = build_student(teacher, config, calibration=calibration).model.eval()
        runtime = Runtime(torch.device("cpu"))
        return Pair(teacher, student, stream, ByteTokenizer(), runtime)

    return make


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where an evaluation goes."""
    return tmp_path / "evaluation"
