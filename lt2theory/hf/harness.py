"""lm-evaluation-harness with looped models registered: `python -m lt2theory.hf.harness ...`.

Takes the arguments of `lm_eval`, whose own command knows only the architectures of `transformers`
and looks for no others. From Python, `import lt2theory.hf` before `lm_eval.simple_evaluate`.
"""

import importlib


def main() -> None:
    """Register the architecture and hand the command line to `lm_eval`.

    Raises:
        SystemExit: The package is missing, or as `lm_eval` ends.
    """
    try:
        command = importlib.import_module("lm_eval.__main__")
    except ImportError as error:
        raise SystemExit(
            f"lm_eval cannot be imported ({error}): pip install 'lt2theory[hf]'"
        ) from error
    importlib.import_module("lt2theory.hf")
    command.cli_evaluate()


if __name__ == "__main__":
    main()
