"""Documents of a Hugging Face dataset, streamed; downloaded only because a user named it."""

from collections.abc import Iterator

from lt2theory.training.text.documents import DATASET, Document, encoded


class HubSource:
    """The rows of one split of a dataset.

    Args:
        name: `dataset:NAME:SPLIT` or `dataset:NAME:CONFIG:SPLIT`.
        field: Field of the text.

    Raises:
        ValueError: The name has another form, or the package `datasets` is missing.
    """

    def __init__(self, name: str, field: str) -> None:
        parts = name.removeprefix(DATASET).split(":")
        if len(parts) not in (2, 3) or not all(parts):
            raise ValueError(
                f"sources: {name!r} is not allowed (must be {DATASET}NAME:SPLIT or "
                f"{DATASET}NAME:CONFIG:SPLIT)"
            )
        try:
            import datasets  # noqa: F401
        except ImportError as error:
            raise ValueError(
                f"sources: {name!r} needs the package datasets (pip install datasets)"
            ) from error
        self._name = name
        self._path, *config, self._split = parts
        self._config = config[0] if config else None
        self._field = field

    def listing(self) -> list[tuple[str, int]]:
        """The name alone: what stands behind it is not asked.

        Returns:
            One pair.
        """
        return [(self._name, 0)]

    def documents(self) -> Iterator[Document]:
        """Rows in the dataset's order.

        Yields:
            The text of each.

        Raises:
            ValueError: There is no such dataset, or a row has no text.
        """
        import datasets

        try:
            rows = datasets.load_dataset(
                self._path, self._config, split=self._split, streaming=True
            )
        except (OSError, ValueError) as error:
            raise ValueError(f"sources: {self._name!r} cannot be loaded: {error}") from error
        for number, row in enumerate(rows):
            origin = f"{self._name}:{number}"
            yield Document(encoded(row.get(self._field), self._field, origin), origin)
