"""The table of verbs, exit codes, and how light the help is."""

import errno
import importlib
import inspect
import platform
import signal
import subprocess
import sys
import warnings

import pytest
import torch

from lt2theory import __version__
from lt2theory.cli import app, main
from lt2theory.cli.app import COMMANDS
from lt2theory.cli.errors import as_typed
from lt2theory.cli.version import version_line


def run(*argv: str) -> subprocess.CompletedProcess[str]:
    """Run `python -m lt2theory` in a new process."""
    command = [sys.executable, "-m", "lt2theory", *argv]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("group", ["", "tasks", "curriculum", "bench"])
def test_help_lists_the_verbs(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*group.split(), "--help"]) == 0
    text = capsys.readouterr().out
    for name, command in COMMANDS.items():
        assert (command.summary in text) == name.startswith(group)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    line = capsys.readouterr().out
    assert line == f"{version_line()}\n"
    assert line.startswith(f"lt2 {__version__} (commit ")
    assert f"Python {platform.python_version()}" in line
    assert f"torch {torch.__version__}" in line


@pytest.mark.parametrize(
    ("source", "shown"),
    [("0123456789abcdef+changes", "0123456789ab+changes"), ("0123456789abcdef", "0123456789ab"),
     (None, "unknown")],
)  # fmt: skip
def test_version_names_the_commit(
    source: str | None, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lt2theory.runs.environment.source_revision", lambda: source)
    assert f"(commit {shown}, Python" in version_line()


MEMORY = "memory: not enough for sizes as large as these; choose smaller ones ("
VERBS = ", ".join(dict.fromkeys(name.split()[0] for name in COMMANDS))


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        ([], f"VERB of lt2: none given (choose from {VERBS})"),
        (
            ["trane"],
            f"VERB of lt2: 'trane' is not allowed, perhaps you meant train (choose from {VERBS})",
        ),
        (["tasks"], "VERB of lt2 tasks: none given (choose from list, show, export)"),
        (
            ["tasks", "drop"],
            "VERB of lt2 tasks: 'drop' is not allowed (choose from list, show, exp",
        ),
        (["--verbose"], "VERB of lt2: '--verbose' is not allowed (choose from demo"),
    ],
)
def test_unknown_verbs(argv: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"lt2: error: {line}")
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_verb_exists_and_explains_itself(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = COMMANDS[name]
    function = getattr(importlib.import_module(f"lt2theory.cli.{command.module}"), command.function)
    assert inspect.getdoc(function)
    with pytest.raises(SystemExit) as stopped:
        main([*name.split(), "--help"])
    assert stopped.value.code == 0
    assert f"usage: lt2 {name}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("raised", "code", "message"),
    [
        (
            ValueError("width: 0 is not allowed\n(>= 1)"),
            2,
            "lt2: error: width: 0 is not allowed (>= 1)",
        ),
        (FileNotFoundError(2, "No such file", "a/b"), 2, "lt2: error: a/b: no such file"),
        (OSError(errno.ENOSPC, "disk full"), 130, "lt2: error: disk full"),
        (
            MemoryError("Unable to allocate\n9 TiB"),
            2,
            f"lt2: error: {MEMORY}Unable to allocate 9 TiB)",
        ),
        (
            RuntimeError("DefaultCPUAllocator: can't allocate memory: 4000 bytes."),
            2,
            f"lt2: error: {MEMORY}DefaultCPUAllocator: can't allocate memory: 4000 bytes.)",
        ),
        (KeyboardInterrupt(), 130, "lt2: interrupted; run the same command again to resume"),
        (KeyboardInterrupt("stopped at step 5"), 130, "lt2: stopped at step 5"),
    ],
)
def test_exit_codes(
    raised: BaseException,
    code: int,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(_: list[str]) -> int:
        raise raised

    monkeypatch.setattr(app, "_dispatch", fail)
    assert main([]) == code
    assert capsys.readouterr().err == f"{message}\n"


def test_what_began_anew_goes_on_without_the_flag(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: list[str]) -> int:
        raise KeyboardInterrupt("interrupted; the same command continues the run")

    monkeypatch.setattr(app, "_dispatch", fail)
    assert main(["train", "--overwrite"]) == 130
    assert capsys.readouterr().err == (
        "lt2: interrupted; the same command continues the run "
        "(without --overwrite, which begins anew)\n"
    )


@pytest.mark.parametrize(
    ("said", "typed", "shown"),
    [
        ("at_once: got 0", ["--at-once", "0"], "--at-once: got 0"),
        ("at_once: got 0", ["--at_once=0"], "--at_once: got 0"),
        ("at_once: got 0", ["--seed", "0"], "at_once: got 0"),  # not typed: of a file, say
        ("width: 7 at_once: 3", ["--at-once", "3"], "width: 7 at_once: 3"),  # not in front
        ("num_loops: 0", ["--model.num-loops", "0"], "--model.num-loops: 0"),
        ("model.num_loops: 0", ["--model.num-loops", "0"], "--model.num-loops: 0"),
        ("loops: 0", ["--model.num-loops", "0"], "loops: 0"),
        ("seed: -1", ["--seed", "-1", "--model.seed", "2"], "--seed: -1"),
        ("seed: -1", ["--data.seed", "-1", "--model.seed", "2"], "seed: -1"),  # which of them?
        ("resume: no run", ["--no-resume"], "--no-resume: no run"),
        ("model.exit_gate: True", ["--model.no-exit-gate"], "--model.no-exit-gate: True"),
        ("no_resume: no run", ["--no-resume"], "--no-resume: no run"),
        ("--seed: -1", ["--seed", "-1"], "--seed: -1"),
        ("a.json: seed: -1", ["--seed", "1"], "a.json: seed: -1"),
        ("seed must be one of 1", ["--seed", "-1"], "seed must be one of 1"),
        ("", ["--seed"], ""),
        ("x is there (give overwrite=True)", [], "x is there (give --overwrite)"),
        ("start over with fresh=True", [], "start over with --fresh"),
    ],
)
def test_a_field_is_named_by_the_flag_that_was_typed(
    said: str, typed: list[str], shown: str
) -> None:
    assert as_typed(said, ["verb", *typed]) == shown


def test_debugging_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(app.DEBUG_VARIABLE, "1")
    with pytest.raises(ValueError, match="VERB of lt2"):
        main(["nothing"])


@pytest.mark.parametrize("kind", [AttributeError, RuntimeError])
def test_bugs_are_not_hidden(kind: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    """Only errors that a user can cause become one line."""

    def fail(_: list[str]) -> int:
        raise kind("a bug")

    monkeypatch.setattr(app, "_dispatch", fail)
    with pytest.raises(kind, match="a bug"):
        main([])


@pytest.fixture
def hangup_handler():
    """SIGHUP as in a terminal, also where the tests run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hangup_handler")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_termination_is_an_interrupt_in_every_verb(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def work(_: list[str]) -> int:
        signal.raise_signal(number)
        return 0

    before = signal.getsignal(number)
    monkeypatch.setattr(app, "_dispatch", work)
    assert main([]) == 130
    assert capsys.readouterr().err == "lt2: terminated; run the same command again to resume\n"
    assert signal.getsignal(number) == before


@pytest.mark.usefixtures("hangup_handler")
def test_a_hangup_that_is_ignored_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """As under nohup."""

    def work(_: list[str]) -> int:
        signal.raise_signal(signal.SIGHUP)
        return 0

    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    monkeypatch.setattr(app, "_dispatch", work)
    assert main([]) == 0


def test_a_warning_is_one_line_without_its_place(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def work(_: list[str]) -> int:
        # What Python itself does where no test runner records warnings.
        text = warnings.formatwarning("two\nlines", UserWarning, "file.py", 3)
        print(text, end="", file=sys.stderr)
        return 0

    before = warnings.formatwarning
    monkeypatch.setattr(app, "_dispatch", work)
    assert main([]) == 0
    assert capsys.readouterr().err == "lt2: warning: two lines\n"
    assert warnings.formatwarning is before


def test_a_reader_that_stops_is_no_error() -> None:
    command = f"{sys.executable} -m lt2theory tasks list | head -n 1"
    result = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stderr) == (0, "")


def test_module_and_script_are_the_same() -> None:
    result = run("--version")
    assert (result.returncode, result.stdout) == (0, f"{version_line()}\n")
    assert run("nothing").returncode == 2


@pytest.mark.parametrize("argv", [["--help"], ["tasks", "--help"], ["curriculum", "--help"]])
def test_help_imports_nothing_heavy(argv: list[str]) -> None:
    code = (
        "import sys; from lt2theory.cli import main; main(sys.argv[1:]);"
        "print('heavy:', *(m for m in ('torch', 'numpy', 'pandas', 'fla') if m in sys.modules))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, *argv], capture_output=True, text=True, check=True
    )
    assert result.stdout.splitlines()[-1] == "heavy:"
