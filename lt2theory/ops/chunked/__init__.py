"""The linear recurrence by chunks, in plain torch."""
