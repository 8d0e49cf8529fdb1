"""The study of looped language models on text: ratios, gates, loop states, stability, loops."""
