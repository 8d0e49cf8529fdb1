import io

from lt2theory.runs import ProgressEvent, TerminalProgress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_plain_lines_are_occasional_but_show_first_and_last() -> None:
    stream = io.StringIO()
    progress = TerminalProgress(stream, interval=3600.0)
    for step in range(1, 6):
        progress(ProgressEvent("parity 16", step, 9, notes={"loss": 0.5}, final=step == 5))
    progress(ProgressEvent("parity 32", 1, 9))
    assert stream.getvalue().splitlines() == [
        "parity 16: step 1 of 9, loss 0.5",
        "parity 16: step 5 of 9, loss 0.5",
        "parity 32: step 1 of 9",
    ]


def test_without_interval_every_event_is_a_line() -> None:
    stream = io.StringIO()
    progress = TerminalProgress(stream, interval=0.0)
    for step in range(3):
        progress(ProgressEvent("a", step, 3, unit="run", notes={"status": "solved"}))
    assert stream.getvalue().count("status solved\n") == 3


def test_a_terminal_gets_a_bar() -> None:
    stream = Terminal()
    progress = TerminalProgress(stream)
    progress(ProgressEvent("parity 16", 3, 9))
    progress(ProgressEvent("parity 16", 9, 9, notes={"loss": 0.25}, final=True))
    text = stream.getvalue()
    assert "parity 16:" in text
    assert "9/9" in text
    assert "loss=0.25" in text
    assert text.endswith("\n")
    progress.close()
