"""From a teacher to a student: pretrained softmax models as linear-time ones."""
