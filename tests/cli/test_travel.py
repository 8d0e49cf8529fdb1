"""`lt2 curriculum pack` and `unpack`."""

from pathlib import Path

import pytest

from lt2theory.cli import main
from lt2theory.experiments.studies import smoke


def test_there_and_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study, packed, other = (str(tmp_path / name) for name in ("study", "packed", "other"))
    command = ["curriculum", "study", "smoke", "--device", "cpu", "--cells", "*beta1*"]
    main([*command, "--out", study])
    capsys.readouterr()
    assert main(["curriculum", "pack", "--study", study, "--out", packed]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("1 runs in 1 files, 0.0 MiB: 0 to be gone on with, weights of 0")
    assert lines[-1] == packed
    assert main(["curriculum", "unpack", "--source", packed, "--out", other]) == 0
    assert capsys.readouterr().out == f"{other}: 1 runs taken over\n"
    assert main([*command, "--out", other]) == 0
    name = next(cell.name for cell in smoke() if "beta1" in cell.name)
    assert name not in capsys.readouterr().out  # done before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pack", "--study", "{}", "--out", "{}/out"], "is not a study: it has no manifest.json"),
        (["unpack", "--source", "{}/none", "--out", "{}"], "--source: "),
        (["unpack", "--source", "{}", "--out", "{}/out"], "holds no packed study"),
    ],
)
def test_bad_usage(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["curriculum", *(each.format(tmp_path) for each in arguments)]) == 2
    assert message in capsys.readouterr().err
