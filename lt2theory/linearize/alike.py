"""What a student must share with its teacher."""

from typing import Any


def check_alike(student: Any, teacher: Any, *fields: str, why: str = "") -> None:
    """Refuse a student that differs from its teacher.

    Args:
        student: Its config, or its mixer's options.
        teacher: Those of the teacher.
        fields: What must be equal.
        why: Added to the message.

    Raises:
        ValueError: Naming the first field that differs, and both values.
    """
    for field in fields:
        own, theirs = getattr(student, field), getattr(teacher, field)
        if own != theirs:
            raise ValueError(f"{field}: {own} of the student must be the teacher's, {theirs}{why}")
